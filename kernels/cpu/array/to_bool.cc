// ToBool: how conditions that are no bool are read. A number is true when it is not 0, a text when it is not
// empty, a tensor that is no scalar when it has elements.
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// As in TensorFlow, of numbers only those of these types.
absl::StatusOr<bool> IsTrue(const Tensor& scalar) {
  switch (scalar.dtype()) {
    case DType::kBool:
      return scalar.scalar<bool>();
    case DType::kFloat32:
      return scalar.scalar<float>() != 0;
    case DType::kFloat64:
      return scalar.scalar<double>() != 0;
    case DType::kInt8:
      return scalar.scalar<int8_t>() != 0;
    case DType::kUint8:
      return scalar.scalar<uint8_t>() != 0;
    case DType::kInt16:
      return scalar.scalar<int16_t>() != 0;
    case DType::kInt32:
      return scalar.scalar<int32_t>() != 0;
    case DType::kInt64:
      return scalar.scalar<int64_t>() != 0;
    case DType::kString:
      return !scalar.scalar<std::string>().empty();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(DTypeName(scalar.dtype()), " cannot be converted to a boolean"));
  }
}

absl::Status ToBool(KernelContext& context) {
  const Tensor& input = context.input(0);
  bool is_true = input.num_elements() > 0;
  if (input.shape().is_scalar()) WEIR_ASSIGN_OR_RETURN(is_true, IsTrue(input));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  output->flat<bool>()[0] = is_true;
  return absl::OkStatus();
}

}  // namespace

void RegisterToBoolKernels(DeviceKernels& kernels) { kernels.Add<&ToBool>("ToBool"); }

}  // namespace weir
