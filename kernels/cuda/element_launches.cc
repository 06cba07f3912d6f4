#include "kernels/cuda/element_launches.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/stored_words.h"

namespace weir {
namespace {

std::string TextOf(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype()), tensor.shape().ToString());
}

absl::Status DoNotFit(absl::string_view op, const Tensor& x, const Tensor& y, const Tensor& z) {
  return absl::InvalidArgumentError(
      absl::StrCat(op, ": ", TextOf(x), " and ", TextOf(y), " do not give ", TextOf(z)));
}

}  // namespace

absl::Status LaunchUnary(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                         const Tensor& x, Tensor& y) {
  const int64_t count = x.num_elements();
  if (x.dtype() != y.dtype() || count != y.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat(op, ": ", TextOf(x), " does not give ", TextOf(y)));
  }
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, op, {x.dtype()}, GridOverElements(stream, count), x.data(), y.data(),
                      count);
}

absl::Status LaunchBinary(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                          const Tensor& x, const Tensor& y, Tensor& z) {
  const int64_t count = z.num_elements();
  const auto fits = [&](const Tensor& operand) {
    return operand.dtype() == z.dtype() && (operand.num_elements() == count || operand.num_elements() == 1);
  };
  // Two single elements give one.
  const bool has_whole = x.num_elements() == count || y.num_elements() == count;
  if (!fits(x) || !fits(y) || !has_whole) return DoNotFit(op, x, y, z);
  if (count == 0) return absl::OkStatus();
  const int64_t x_step = x.num_elements() == count, y_step = y.num_elements() == count;
  return LaunchKernel(stream, kernels, op, {z.dtype()}, GridOverElements(stream, count), x.data(), x_step,
                      y.data(), y_step, z.data(), count);
}

absl::Status LaunchCast(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x, Tensor& y) {
  const int64_t count = x.num_elements();
  if (count != y.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Cast: ", TextOf(x), " does not give ", TextOf(y)));
  }
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "Cast", {x.dtype(), y.dtype()}, GridOverElements(stream, count),
                      x.data(), y.data(), count);
}

absl::Status LaunchBiasAdd(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                           const Tensor& bias, bool channels_first, Tensor& y) {
  const Shape& shape = x.shape();
  const int axis = channels_first ? 1 : shape.rank() - 1;
  const bool fits = shape.rank() >= 2 && bias.shape().rank() == 1 && bias.shape().dim(0) == shape.dim(axis) &&
                    y.shape() == shape && x.dtype() == y.dtype() && bias.dtype() == y.dtype();
  if (!fits) return DoNotFit("BiasAdd", x, bias, y);
  const int64_t count = x.num_elements();
  if (count == 0) return absl::OkStatus();
  const int64_t channels = shape.dim(axis);
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape.dim(i);
  return LaunchKernel(stream, kernels, "BiasAdd", {x.dtype()}, GridOverElements(stream, count), x.data(),
                      bias.data(), y.data(), count, channels, inner);
}

absl::Status LaunchSpread(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                          absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides, Tensor& y,
                          int64_t offset) {
  if (sizes.size() > cuda::kMostSpreadDims || sizes.size() != strides.size()) {
    return absl::UnimplementedError(absl::StrCat("a copy on a GPU in ", sizes.size(),
                                                 " loops: there may be up to ", cuda::kMostSpreadDims));
  }
  cuda::SpreadDims dims = {.rank = static_cast<int32_t>(sizes.size()), .sizes = {}, .strides = {}};
  int64_t turns = 1, first = offset, last = offset;  // of x: what the loops come to
  for (size_t i = 0; i < sizes.size(); ++i) {
    dims.sizes[i] = sizes[i];
    dims.strides[i] = strides[i];
    turns *= sizes[i];
    (strides[i] < 0 ? first : last) += (sizes[i] - 1) * strides[i];
  }
  const int64_t count = y.num_elements();
  if (x.dtype() != y.dtype() || turns != count) {
    return absl::InvalidArgumentError(absl::StrCat("Spread: ", TextOf(x), " does not give ", TextOf(y)));
  }
  if (count == 0) return absl::OkStatus();
  if (first < 0 || last >= x.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Spread: element ", first < 0 ? first : last, " of ", TextOf(x), " is none of its own"));
  }
  const DType stored = StoredBySize(x.dtype());
  if (stored == DType::kInvalid) {
    return absl::UnimplementedError(
        absl::StrCat("a copy of ", DTypeName(x.dtype()), " in another order on a GPU"));
  }
  const void* const from =
      static_cast<const char*>(x.data()) + offset * static_cast<int64_t>(DTypeSize(x.dtype()));
  return LaunchKernel(stream, kernels, "Spread", {stored}, GridOverElements(stream, count), from, y.data(),
                      count, dims);
}

}  // namespace weir
