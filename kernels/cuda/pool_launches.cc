#include "kernels/cuda/pool_launches.h"

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/pool_bodies.h"

namespace weir {
namespace {

cuda::PoolDims DimsOf(const WindowGeometry& geometry) {
  cuda::PoolDims dims = {.channels = geometry.channels_first ? 1 : geometry.channels};
  for (int i = 0; i < 2; ++i) {
    dims.input[i] = geometry.input[i];
    dims.output[i] = geometry.output[i];
    dims.window[i] = geometry.window[i];
    dims.stride[i] = geometry.stride[i];
    dims.padding[i] = geometry.padding_before[i];
  }
  return dims;
}

absl::Status Check(const char* op, const WindowGeometry& geometry,
                   std::initializer_list<const Tensor*> inputs,
                   std::initializer_list<const Tensor*> outputs) {
  const DType dtype = (*inputs.begin())->dtype();
  const auto check = [&](const Tensor& tensor, const SpatialSizes& size) {
    const Shape shape = geometry.ImageShape(size, geometry.channels);
    if (geometry.spatial_rank == 2 && tensor.shape() == shape && tensor.dtype() == dtype) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(op, ": ", DTypeName(tensor.dtype()),
                                                   tensor.shape().ToString(), " is not ", DTypeName(dtype),
                                                   shape.ToString()));
  };
  for (const Tensor* tensor : inputs) WEIR_RETURN_IF_ERROR(check(*tensor, geometry.input));
  for (const Tensor* tensor : outputs) WEIR_RETURN_IF_ERROR(check(*tensor, geometry.output));
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchMaxPool(CudaStream& stream, const CudaKernelTable& kernels, const WindowGeometry& geometry,
                           const Tensor& x, Tensor& y) {
  WEIR_RETURN_IF_ERROR(Check("MaxPool", geometry, {&x}, {&y}));
  const int64_t count = y.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "MaxPool", {x.dtype()}, GridOverElements(stream, count), x.data(),
                      y.data(), count, DimsOf(geometry));
}

absl::Status LaunchMaxPoolGrad(CudaStream& stream, const CudaKernelTable& kernels,
                               const WindowGeometry& geometry, const Tensor& x, const Tensor& dy,
                               Tensor& dx) {
  WEIR_RETURN_IF_ERROR(Check("MaxPoolGrad", geometry, {&x, &dx}, {&dy}));
  const int64_t count = dx.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "MaxPoolGrad", {x.dtype()}, GridOverElements(stream, count), x.data(),
                      dy.data(), dx.data(), count, DimsOf(geometry));
}

absl::Status LaunchAvgPool(CudaStream& stream, const CudaKernelTable& kernels, const WindowGeometry& geometry,
                           const Tensor& x, Tensor& y) {
  WEIR_RETURN_IF_ERROR(Check("AvgPool", geometry, {&x}, {&y}));
  const int64_t count = y.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "AvgPool", {x.dtype()}, GridOverElements(stream, count), x.data(),
                      y.data(), count, DimsOf(geometry));
}

absl::Status LaunchAvgPoolGrad(CudaStream& stream, const CudaKernelTable& kernels,
                               const WindowGeometry& geometry, const Tensor& dy, Tensor& dx) {
  WEIR_RETURN_IF_ERROR(Check("AvgPoolGrad", geometry, {&dx}, {&dy}));
  const int64_t count = dx.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "AvgPoolGrad", {dx.dtype()}, GridOverElements(stream, count),
                      dy.data(), dx.data(), count, DimsOf(geometry));
}

}  // namespace weir
