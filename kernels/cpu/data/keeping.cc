// Datasets of the same elements as others, computed ahead (Prefetch). And how many there are.
//
// A prefetch holds buffer_size elements (-1: kAutomatic), and their bytes are bounded (ahead.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/ahead.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kAutomatic = 16;

class PrefetchDataset final : public Dataset {
 public:
  PrefetchDataset(Signature signature, DatasetPtr input, int64_t buffer_size)
      : Dataset(std::move(signature)), input_(std::move(input)), buffer_size_(buffer_size) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(IteratorPtr input, input_->MakeIterator(context));
    return IteratorPtr(new AheadIterator(DatasetPtr::Share(this), std::move(input), buffer_size_));
  }
  int64_t cardinality() const override { return input_->cardinality(); }

  absl::Status CheckAnyOrder() const override { return input_->CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input_->Get(context, index);
  }

  const DatasetPtr input_;
  const int64_t buffer_size_;
};

class Prefetch final : public DatasetKernel {
 public:
  explicit Prefetch(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t buffer_size, ReadInteger(context.input(1), "buffer_size"));
    if (buffer_size < -1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning, is ", buffer_size));
    }
    return SetDataset<PrefetchDataset>(context, signature, std::move(input),
                                       buffer_size == -1 ? kAutomatic : buffer_size);
  }
};

absl::Status Cardinality(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  output->flat<int64_t>()[0] = dataset->cardinality();
  return absl::OkStatus();
}

}  // namespace

void RegisterKeepingKernels(DeviceKernels& kernels) {
  kernels.Add<Prefetch>("PrefetchDataset");
  kernels.Add<&Cardinality>("DatasetCardinality");
}

}  // namespace weir
