// UniqueDataset: the elements of another dataset that have not been there before.
//
// An iterator holds each of them: a client asks for that, as for a cache in memory. They count on the device.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/data/held_elements.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Those of a set are of one dtype, which is int32, int64 or string.
absl::string_view BytesOf(const Tensor& numbers) {
  return absl::string_view(static_cast<const char*>(numbers.data()), numbers.num_bytes());
}

struct HashOfValues {
  size_t operator()(const Tensor& tensor) const {
    if (tensor.dtype() == DType::kString) return absl::HashOf(tensor.flat<std::string>());
    return absl::HashOf(BytesOf(tensor));
  }
};

struct HaveEqualValues {
  bool operator()(const Tensor& a, const Tensor& b) const {
    if (a.shape() != b.shape()) return false;
    if (a.dtype() != DType::kString) return BytesOf(a) == BytesOf(b);
    return a.flat<std::string>() == b.flat<std::string>();
  }
};

class UniqueDataset;
class UniqueIterator final : public IteratorOverInput {
 public:
  UniqueIterator(RefPtr<const UniqueDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    while (true) {
      if (context.cancellation.is_cancelled()) return context.cancellation.reason();
      Element next;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &next));
      if (!has_element) return false;
      WEIR_ASSIGN_OR_RETURN(const bool is_new, Keep(context, next[0]));
      if (!is_new) continue;
      *element = std::move(next);
      return true;
    }
  }
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(held_.size());
    for (const Element& held : held_.elements()) position.Add(held[0]);
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  // False when it is there already. ResourceExhausted when the device has no memory for it.
  absl::StatusOr<bool> Keep(IteratorContext& context, const Tensor& tensor) {
    if (seen_.contains(tensor)) return false;
    WEIR_RETURN_IF_ERROR(held_.Add({tensor}, context.allocator()));
    seen_.insert(tensor);
    return true;
  }

  const RefPtr<const UniqueDataset> dataset_;
  absl::flat_hash_set<Tensor, HashOfValues, HaveEqualValues> seen_;
  HeldElements held_ = HeldElements(2, "unique elements");  // those of seen_, which are in both
};

class UniqueDataset final : public DatasetOverInput<UniqueDataset, UniqueIterator> {
 public:
  using DatasetOverInput::DatasetOverInput;
  int64_t cardinality() const override { return kUnknown; }
};

absl::Status UniqueIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(const int64_t count, position.NextNumber(0, INT64_MAX));
  for (int64_t i = 0; i < count; ++i) {
    WEIR_ASSIGN_OR_RETURN(const Tensor tensor, position.Next());
    if (tensor.dtype() != dataset_->signature().types[0]) {
      return absl::InvalidArgumentError("the position is of a UniqueDataset of other elements");
    }
    WEIR_RETURN_IF_ERROR(Keep(context, tensor).status());
  }
  return IteratorOverInput::Restore(context, position);
}

class Unique final : public DatasetKernel {
 public:
  explicit Unique(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    if (signature.types.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "UniqueDataset only supports inputs with a single component, not ", signature.types.size()));
    }
    const DType dtype = signature.types[0];
    if (dtype != DType::kInt32 && dtype != DType::kInt64 && dtype != DType::kString) {
      return absl::InvalidArgumentError(
          absl::StrCat("UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or "
                       "`tf.string` component, "
                       "not ",
                       DTypeName(dtype)));
    }
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    return SetDataset<UniqueDataset>(context, signature, std::move(input));
  }
};

}  // namespace

void RegisterUniqueElementsKernels(DeviceKernels& kernels) { kernels.Add<Unique>("UniqueDataset"); }

}  // namespace weir
