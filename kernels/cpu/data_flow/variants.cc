// ZerosLike and AddN of variants: numbers have kernels of their own.
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/variant_value.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::Status ZerosLike(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor zeros, ZerosLikeTensor(context.input(0), context));
  context.set_output(0, std::move(zeros));
  return absl::OkStatus();
}

absl::Status AddN(KernelContext& context) {
  Tensor sum = context.input(0);
  for (int i = 1; i < context.num_inputs(); ++i) {
    WEIR_ASSIGN_OR_RETURN(sum, AddTensors(sum, context.input(i), context));
  }
  context.set_output(0, std::move(sum));
  return absl::OkStatus();
}

}  // namespace

void RegisterVariantsKernels(DeviceKernels& kernels) {
  kernels.Add<&ZerosLike>("ZerosLike", {{"T", {DType::kVariant}}});
  kernels.Add<&AddN>("AddN", {{"T", {DType::kVariant}}});
}

}  // namespace weir
