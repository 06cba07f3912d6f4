// Bitcast, EnsureShape, GuaranteeConst, PreventGradient, Snapshot.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// A copy: bytes that are shared need not be aligned for the other dtype.
absl::Status Bitcast(KernelContext& context) {
  const Tensor& input = context.input(0);
  const auto from = static_cast<int64_t>(DTypeSize(input.dtype()));
  const auto to = static_cast<int64_t>(DTypeSize(context.output_type(0)));
  Dims dims(input.shape().dims().begin(), input.shape().dims().end());
  if (from > to) dims.push_back(from / to);
  if (from < to) {
    if (dims.empty() || dims.back() != to / from) {
      return absl::InvalidArgumentError(
          absl::StrCat("input must end with a dimension of ", to / from, ", is ", input.shape().ToString()));
    }
    dims.pop_back();
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (input.num_bytes() > 0) std::memcpy(output->data(), input.data(), input.num_bytes());
  return absl::OkStatus();
}

class EnsureShape final : public Kernel {
 public:
  explicit EnsureShape(const KernelConstruction& construction)
      : shape_(construction.attr<PartialShape>("shape")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (!shape_.IsCompatibleWith(input.shape())) {
      return absl::InvalidArgumentError(
          absl::StrCat("input is ", input.shape().ToString(), ", shape is ", shape_.ToString()));
    }
    context.set_output(0, input);
    return absl::OkStatus();
  }

 private:
  const PartialShape shape_;
};

absl::Status GuaranteeConst(KernelContext& context) {
  if (context.input(0).dtype() == DType::kResource) {
    return absl::InvalidArgumentError("Input tensor cannot be a resource variable handle.");
  }
  context.set_output(0, context.input(0));
  return absl::OkStatus();
}

absl::Status PassOn(KernelContext& context) {
  context.set_output(0, context.input(0));
  return absl::OkStatus();
}

}  // namespace

void RegisterPassingOnKernels(DeviceKernels& kernels) {
  kernels.Add<&Bitcast>("Bitcast", {{"T", StoredNumbers()}, {"type", StoredNumbers()}});
  kernels.Add<EnsureShape>("EnsureShape", {{"T", AllDTypes()}});
  kernels.Add<&GuaranteeConst>("GuaranteeConst", {{"T", AllDTypes()}});
  kernels.Add<&PassOn>("PreventGradient", {{"T", AllDTypes()}});
  kernels.Add<&PassOn>("Snapshot", {{"T", AllDTypes()}});
}

}  // namespace weir
