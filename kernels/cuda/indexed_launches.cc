#include "kernels/cuda/indexed_launches.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/indexed_bodies.h"

namespace weir {
namespace {

std::string TextOf(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype()), tensor.shape().ToString());
}

bool AreIndices(const Tensor& tensor) {
  return tensor.dtype() == DType::kInt32 || tensor.dtype() == DType::kInt64;
}

// The largest word in which slices of so many bytes can be copied between the two places.
DType WordOf(size_t num_bytes, const void* from, const void* to) {
  const uintptr_t all = num_bytes | reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  return all % 8 == 0   ? DType::kUint64
         : all % 4 == 0 ? DType::kUint32
         : all % 2 == 0 ? DType::kUint16
                        : DType::kUint8;
}

}  // namespace

absl::Status LaunchGather(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& params,
                          const Tensor& indices, const GatherSizes& sizes, Tensor& output,
                          const cuda::DataErrorPlace& place) {
  const bool has_elements = output.num_elements() > 0;
  const int64_t planes = sizes.batches * sizes.outer;
  const bool fits = !has_elements || (params.num_elements() == planes * sizes.limit * sizes.inner &&
                                      indices.num_elements() == sizes.batches * sizes.count &&
                                      output.num_elements() == planes * sizes.count * sizes.inner);
  if (!fits || !AreIndices(indices) || params.dtype() != output.dtype() || !IsPlainBytes(params.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("Gather: ", TextOf(params), " and indices ",
                                                   TextOf(indices), " do not give ", TextOf(output)));
  }
  if (!has_elements) return LaunchCheckIndices(stream, kernels, indices, sizes.limit, place);
  const size_t slice_bytes = static_cast<size_t>(sizes.inner) * DTypeSize(params.dtype());
  const DType word = WordOf(slice_bytes, params.data(), output.data());
  const cuda::GatherDims dims = {.outer = sizes.outer,
                                 .limit = sizes.limit,
                                 .count = sizes.count,
                                 .inner = static_cast<int64_t>(slice_bytes / DTypeSize(word))};
  const auto count = static_cast<int64_t>(output.num_bytes() / DTypeSize(word));
  return LaunchKernel(stream, kernels, "Gather", {word, indices.dtype()}, GridOverElements(stream, count),
                      params.data(), indices.data(), output.data(), count, dims, place);
}

absl::Status LaunchCheckIndices(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& indices,
                                int64_t limit, const cuda::DataErrorPlace& place) {
  if (!AreIndices(indices)) {
    return absl::InvalidArgumentError(absl::StrCat("indices are ", TextOf(indices)));
  }
  const int64_t count = indices.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "CheckIndices", {indices.dtype()}, GridOverElements(stream, count),
                      indices.data(), count, limit, place);
}

}  // namespace weir
