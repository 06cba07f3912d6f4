// What datasets of one function and one input, and their kernels, have in common. Immutable, as all datasets.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/over_input.h"

namespace weir {

// `D`: the subclass. `I`: its iterator, which has a constructor from the dataset, the iterator of the input
// and the prepared function.
template <typename D, typename I>
class FunctionDataset : public DatasetOfInput {
 public:
  FunctionDataset(Signature signature, DatasetPtr input, CapturedFunction function)
      : DatasetOfInput(std::move(signature), std::move(input)), function_(std::move(function)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(PreparedFunction function, function_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(IteratorPtr input, input().MakeIterator(context));
    return IteratorPtr(
        new I(RefPtr<const D>::Share(static_cast<const D*>(this)), std::move(input), std::move(function)));
  }
  int64_t cardinality() const override { return kUnknown; }

 protected:
  // What the function makes of element `index` of the input.
  absl::StatusOr<Element> Mapped(IteratorContext& context, int64_t index) const {
    WEIR_ASSIGN_OR_RETURN(Element arguments, input().Get(context, index));
    WEIR_ASSIGN_OR_RETURN(const PreparedFunction function, function_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(Element results, function.Run(std::move(arguments), context.cancellation));
    WEIR_RETURN_IF_ERROR(CheckResults(results, signature()));
    return results;
  }

 private:
  const CapturedFunction function_;
};

// What a call that ended with OutOfRange means for a map: its end, or an error where it must keep the number
// of elements.
inline absl::StatusOr<bool> EndOrError(const absl::Status& status, bool keeps_cardinality) {
  if (!absl::IsOutOfRange(status)) return status;
  if (!keeps_cardinality) return false;
  return absl::InvalidArgumentError(
      absl::StrCat("Function invocation produced OutOfRangeError: ", status.message()));
}

// Reads what the kernels of functions have in common.
class MapKernel : public DatasetKernel {
 public:
  MapKernel(const KernelConstruction& construction, absl::string_view function)
      : DatasetKernel(construction),
        function_(construction, function),
        num_captured_(static_cast<int>(construction.attr<std::vector<DType>>("Targuments").size())) {}

 protected:
  absl::StatusOr<CapturedFunction> Captured(const KernelContext& context, int first) const {
    return CapturedFunction::Create(function_, context, first, num_captured_);
  }
  int num_captured() const { return num_captured_; }

 private:
  const FunctionOfNode function_;
  const int num_captured_;
};

}  // namespace weir
