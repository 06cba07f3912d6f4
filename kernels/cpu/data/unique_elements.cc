// UniqueDataset: the elements of another dataset that have not been there before.
//
// An iterator holds each of them: a client asks for that, as for a cache in memory.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Equal for equal tensors of one dtype, which is int32, int64 or string.
std::string KeyOf(const Tensor& tensor) {
  std::string key = absl::StrCat(tensor.shape().ToString(), ":");
  if (tensor.dtype() != DType::kString) {
    absl::StrAppend(&key, absl::string_view(static_cast<const char*>(tensor.data()),
                                            tensor.num_elements() * DTypeSize(tensor.dtype())));
    return key;
  }
  for (const std::string& text : tensor.flat<std::string>()) absl::StrAppend(&key, text.size(), ":", text);
  return key;
}

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
      if (!seen_.insert(KeyOf(next[0])).second) continue;
      elements_.push_back(next[0]);
      *element = std::move(next);
      return true;
    }
  }
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(static_cast<int64_t>(elements_.size()));
    for (const Tensor& tensor : elements_) position.Add(tensor);
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  const RefPtr<const UniqueDataset> dataset_;
  absl::flat_hash_set<std::string> seen_;
  std::vector<Tensor> elements_;  // those of seen_
};

class UniqueDataset final : public DatasetOverInput<UniqueDataset, UniqueIterator> {
 public:
  using DatasetOverInput::DatasetOverInput;
  int64_t cardinality() const override { return kUnknown; }
};

absl::Status UniqueIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(const int64_t count, position.NextNumber(0, INT64_MAX));
  seen_.clear();
  elements_.clear();
  for (int64_t i = 0; i < count; ++i) {
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, position.Next());
    if (tensor.dtype() != dataset_->signature().types[0]) {
      return absl::InvalidArgumentError("the position is of a UniqueDataset of other elements");
    }
    seen_.insert(KeyOf(tensor));
    elements_.push_back(std::move(tensor));
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
