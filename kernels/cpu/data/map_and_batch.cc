// MapAndBatchDataset: batches of what a function makes of elements, several at a time.
//
// At most num_parallel_calls calls are under way (-1: as many as the device has threads). A batch is computed
// when it is asked for, of batch_size elements of the input; the iterator holds them. A batch one of whose
// elements is an error is the first such error, and the elements are gone; one in which the function ends
// with OutOfRange ends there.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/function_dataset.h"
#include "kernels/cpu/data/parallel_calls.h"
#include "kernels/cpu/data/rows.h"
#include "kernels/cpu/data_flow/element_rooms.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kMaxParallelCalls = 1024;

class MapAndBatchDataset;
class MapAndBatchIterator final : public IteratorOverInput {
 public:
  MapAndBatchIterator(RefPtr<const MapAndBatchDataset> dataset, IteratorPtr input, PreparedFunction function)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)), function_(std::move(function)) {}
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;

 private:
  // Of the next batch_size elements of the input, fewer at its end. Those behind its first error are left
  // out. `rooms` are of its arguments, and of the results that take their places.
  absl::StatusOr<std::vector<Function::Results>> MapSome(IteratorContext& context, ElementRooms& rooms);

  const RefPtr<const MapAndBatchDataset> dataset_;
  const PreparedFunction function_;
};

class MapAndBatchDataset final : public FunctionDataset<MapAndBatchDataset, MapAndBatchIterator> {
 public:
  struct Sizes {
    int64_t batch_size = 0;
    int64_t num_calls = 0;
    bool drops_remainder = false;
    bool keeps_cardinality = false;
  };
  MapAndBatchDataset(Signature signature, DatasetPtr input, CapturedFunction function, const Sizes& sizes)
      : FunctionDataset(std::move(signature), std::move(input), std::move(function)), sizes_(sizes) {}
  int64_t cardinality() const override {
    if (!sizes_.keeps_cardinality) return kUnknown;
    const int64_t all = input().cardinality();
    if (all < 0) return all;
    return all / sizes_.batch_size + (!sizes_.drops_remainder && all % sizes_.batch_size != 0 ? 1 : 0);
  }
  const Sizes& sizes() const { return sizes_; }

 private:
  const Sizes sizes_;
};

absl::StatusOr<std::vector<Function::Results>> MapAndBatchIterator::MapSome(IteratorContext& context,
                                                                            ElementRooms& rooms) {
  std::vector<Element> arguments;
  absl::Status error;
  for (int64_t i = 0; i < dataset_->sizes().batch_size; ++i) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    Element next;
    const absl::StatusOr<bool> has_element = input_->Next(context, &next);
    error.Update(has_element.status());
    if (has_element.ok() && !*has_element) break;
    // One that has no memory gives this error for ever.
    if (absl::IsResourceExhausted(has_element.status())) break;
    if (!error.ok()) continue;
    arguments.push_back(std::move(next));
    WEIR_RETURN_IF_ERROR(rooms.Hold(static_cast<int64_t>(arguments.size()), context.allocator(), "a batch"));
  }
  if (context.cancellation.is_cancelled()) return context.cancellation.reason();
  WEIR_ASSIGN_OR_RETURN(std::vector<Function::Results> results,
                        CallInParallel(
                            function_, static_cast<int64_t>(arguments.size()),
                            [&](int64_t i) { return std::move(arguments[i]); }, dataset_->sizes().num_calls,
                            context.environment(), context.cancellation));
  if (!error.ok()) results.emplace_back(error);
  return results;
}

absl::StatusOr<bool> MapAndBatchIterator::Next(IteratorContext& context, Element* element) {
  ElementRooms rooms(
      std::max(dataset_->input().signature().types.size(), dataset_->signature().types.size()));
  WEIR_ASSIGN_OR_RETURN(std::vector<Function::Results> results, MapSome(context, rooms));
  std::vector<Element> elements;
  for (Function::Results& result : results) {
    if (!result.ok()) {
      WEIR_RETURN_IF_ERROR(EndOrError(result.status(), dataset_->sizes().keeps_cardinality).status());
      break;
    }
    WEIR_RETURN_IF_ERROR(CheckResults(*result, dataset_->signature()));
    elements.push_back(*std::move(result));
  }
  const bool is_whole = static_cast<int64_t>(elements.size()) == dataset_->sizes().batch_size;
  if (elements.empty() || (!is_whole && dataset_->sizes().drops_remainder)) return false;
  WEIR_ASSIGN_OR_RETURN(*element, Stack(elements, context.allocator()));
  return true;
}

// Inputs: dataset, what the function captures, batch_size, num_parallel_calls, drop_remainder.
class MapAndBatch final : public MapKernel {
 public:
  explicit MapAndBatch(const KernelConstruction& construction)
      : MapKernel(construction, "f"), keeps_cardinality_(construction.attr<bool>("preserve_cardinality")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(CapturedFunction function, Captured(context, 1));
    const int first = 1 + num_captured();
    MapAndBatchDataset::Sizes sizes = {.keeps_cardinality = keeps_cardinality_};
    WEIR_ASSIGN_OR_RETURN(sizes.batch_size, ReadInteger(context.input(first), "batch_size"));
    WEIR_ASSIGN_OR_RETURN(sizes.num_calls, ReadInteger(context.input(first + 1), "num_parallel_calls"));
    if (sizes.batch_size <= 0) return absl::InvalidArgumentError("batch_size must be greater than zero.");
    if (sizes.num_calls < 1 && sizes.num_calls != -1) {
      return absl::InvalidArgumentError("num_parallel_calls must be greater than zero.");
    }
    if (sizes.num_calls == -1) sizes.num_calls = std::max(2, context.threads().num_threads());
    sizes.num_calls = std::min(sizes.num_calls, kMaxParallelCalls);
    const Tensor& last = context.input(first + 2);
    if (last.num_elements() != 1) return absl::InvalidArgumentError("drop_remainder must be a scalar");
    sizes.drops_remainder = last.scalar<bool>();
    return SetDataset<MapAndBatchDataset>(context, signature, std::move(input), std::move(function), sizes);
  }

  const bool keeps_cardinality_;
};

}  // namespace

void RegisterMapAndBatchKernels(DeviceKernels& kernels) {
  for (const char* op : {"MapAndBatchDataset", "ExperimentalMapAndBatchDataset"}) {
    kernels.Add<MapAndBatch>(op);
  }
}

}  // namespace weir
