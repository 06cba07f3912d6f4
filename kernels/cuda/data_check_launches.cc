#include "kernels/cuda/data_check_launches.h"

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// A type that has the size of any element and whose alignment its buffers have.
DType WordOf(size_t num_bytes) {
  return num_bytes % 8 == 0 ? DType::kUint64 : num_bytes % 4 == 0 ? DType::kUint32 : DType::kUint8;
}

}  // namespace

absl::Status LaunchCheckNumerics(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                                 const cuda::DataErrorPlace& place) {
  const int64_t count = x.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "CheckNumerics", {x.dtype()}, GridOverElements(stream, count),
                      x.data(), count, place);
}

absl::Status LaunchChoose(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& value,
                          const Tensor& old, const volatile cuda::DataError* errors, Tensor& to) {
  const auto fits = [&](const Tensor& from) {
    return from.dtype() == to.dtype() && from.shape() == to.shape() && IsPlainBytes(from.dtype());
  };
  if (!fits(value) || !fits(old)) {
    return absl::InvalidArgumentError(absl::StrCat("Choose: ", TypeString(value.dtype(), value.shape()),
                                                   " or ", TypeString(old.dtype(), old.shape()),
                                                   " does not give ", TypeString(to.dtype(), to.shape())));
  }
  if (to.num_bytes() == 0) return absl::OkStatus();
  const DType word = WordOf(to.num_bytes());
  const auto count = static_cast<int64_t>(to.num_bytes() / DTypeSize(word));
  return LaunchKernel(stream, kernels, "Choose", {word}, GridOverElements(stream, count), value.data(),
                      old.data(), to.data(), count, errors);
}

}  // namespace weir
