// Datasets of the same elements as another under a condition: without those that are errors (IgnoreErrors),
// as many as was said (AssertCardinality).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class IgnoreErrorsDataset;
class IgnoreErrorsIterator final : public IteratorOverInput {
 public:
  IgnoreErrorsIterator(RefPtr<const IgnoreErrorsDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
    while (true) {
      absl::StatusOr<bool> has_element = input_->Next(context, element);
      if (has_element.ok()) return has_element;
      if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    }
  }

 private:
  const RefPtr<const IgnoreErrorsDataset> dataset_;
};
class IgnoreErrorsDataset final : public DatasetOverInput<IgnoreErrorsDataset, IgnoreErrorsIterator> {
 public:
  using DatasetOverInput::DatasetOverInput;
  int64_t cardinality() const override { return kUnknown; }
};

class IgnoreErrors final : public DatasetKernel {
 public:
  explicit IgnoreErrors(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    return SetDataset<IgnoreErrorsDataset>(context, signature, std::move(input));
  }
};

std::string ElementsString(int64_t count) {
  if (count == Dataset::kInfinite) return "an infinite number of elements";
  if (count == Dataset::kUnknown) return "an unknown number of elements";
  return absl::StrCat(count, count == 1 ? " element" : " elements");
}

class AssertCardinalityDataset;
class AssertCardinalityIterator final : public CountingIterator<AssertCardinalityDataset, INT64_MAX - 1> {
 public:
  using CountingIterator::CountingIterator;
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
};

class AssertCardinalityDataset final
    : public DatasetOverInput<AssertCardinalityDataset, AssertCardinalityIterator> {
 public:
  AssertCardinalityDataset(Signature signature, DatasetPtr input, int64_t cardinality)
      : DatasetOverInput(std::move(signature), std::move(input)), cardinality_(cardinality) {}
  int64_t cardinality() const override { return std::max(cardinality_, kUnknown); }
  int64_t asserted() const { return cardinality_; }
  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input().GetAsserted(context, index);
  }

  const int64_t cardinality_;  // any number
};

absl::StatusOr<bool> AssertCardinalityIterator::Next(IteratorContext& context, Element* element) {
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
  count_ += has_element ? 1 : 0;
  const int64_t said = dataset_->asserted();
  if (!has_element && count_ != said) {
    return absl::FailedPreconditionError(absl::StrCat("Input dataset was expected to contain ",
                                                      ElementsString(said), " but contained only ",
                                                      ElementsString(count_), "."));
  }
  if (has_element && said != Dataset::kInfinite && count_ > said) {
    return absl::FailedPreconditionError(absl::StrCat("Input dataset was expected to contain ",
                                                      ElementsString(said), " but contained at least ",
                                                      ElementsString(count_), "."));
  }
  return has_element;
}

class AssertCardinality final : public DatasetKernel {
 public:
  explicit AssertCardinality(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t cardinality, ReadInteger(context.input(1), "cardinality"));
    return SetDataset<AssertCardinalityDataset>(context, signature, std::move(input), cardinality);
  }
};

}  // namespace

void RegisterConditionsKernels(DeviceKernels& kernels) {
  kernels.Add<IgnoreErrors>("IgnoreErrorsDataset");
  kernels.Add<AssertCardinality>("AssertCardinalityDataset");
}

}  // namespace weir
