#include "kernels/cpu/integer_input.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int64_t kMaxElements = 254;

absl::Status Named(absl::string_view name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

}  // namespace

int64_t IntegerAt(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype()) {
    case DType::kInt64:
      return tensor.flat<int64_t>()[index];
    case DType::kInt32:
      return tensor.flat<int32_t>()[index];
    case DType::kInt16:
      return tensor.flat<int16_t>()[index];
    case DType::kInt8:
      return tensor.flat<int8_t>()[index];
    case DType::kUint16:
      return tensor.flat<uint16_t>()[index];
    default:
      return tensor.flat<uint8_t>()[index];
  }
}

absl::StatusOr<Dims> ReadIntegers(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape().rank() > 1 || tensor.num_elements() > kMaxElements) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be a vector of at most ", kMaxElements,
                                                   " elements, is ",
                                                   TypeString(tensor.dtype(), tensor.shape())));
  }
  Dims result(tensor.num_elements());
  for (size_t i = 0; i < result.size(); ++i) result[i] = IntegerAt(tensor, i);
  return result;
}

absl::StatusOr<int64_t> ReadInteger(const Tensor& tensor, absl::string_view name) {
  if (tensor.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be a scalar, is ", TypeString(tensor.dtype(), tensor.shape())));
  }
  return IntegerAt(tensor, 0);
}

absl::StatusOr<int> ResolveAxis(int64_t axis, int rank, absl::string_view name) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " = ", axis, " is not in [", -rank, ", ", rank, ")"));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<int> ReadAxis(const Tensor& tensor, int rank, absl::string_view name) {
  WEIR_ASSIGN_OR_RETURN(const int64_t axis, ReadInteger(tensor, name));
  return ResolveAxis(axis, rank, name);
}

absl::StatusOr<Shape> ReadShape(const Tensor& tensor, absl::string_view name) {
  WEIR_ASSIGN_OR_RETURN(const Dims dims, ReadIntegers(tensor, name));
  absl::StatusOr<Shape> shape = Shape::FromDims(dims);
  if (!shape.ok()) return Named(name, shape.status());
  return shape;
}

void WriteIntegers(absl::Span<const int64_t> values, Tensor& tensor) {
  if (tensor.dtype() == DType::kInt64) {
    std::copy(values.begin(), values.end(), tensor.flat<int64_t>().begin());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) tensor.flat<int32_t>()[i] = static_cast<int32_t>(values[i]);
}

}  // namespace weir
