// 16-bit floating types computed in single precision: formulas then stand once, for float.
#pragma once

#include <algorithm>
#include <type_traits>

#include "absl/status/statusor.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/float16_rows.h"
#include "kernels/kernel_context.h"

namespace weir {

// The type a kernel for elements of T computes in.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>, float, T>;

// The same where dtypes are known at run time.
inline bool IsSixteenBit(DType dtype) { return dtype == DType::kHalf || dtype == DType::kBfloat16; }
inline DType ComputeDType(DType dtype) { return IsSixteenBit(dtype) ? DType::kFloat32 : dtype; }

// Calls convert(begin, count) for blocks of elements on several threads.
template <typename Convert>
void ConvertBlocks(KernelContext& context, int64_t count, const Convert& convert) {
  constexpr int64_t kBlock = 1 << 14;
  constexpr double kNanosecondsPerBlock = 0.1 * kBlock;
  context.threads().ParallelFor((count + kBlock - 1) / kBlock, kNanosecondsPerBlock,
                                [&](int64_t begin, int64_t end) {
                                  convert(begin * kBlock, std::min(count, end * kBlock) - begin * kBlock);
                                });
}

// The tensor itself, or a copy of a 16-bit one in single precision.
template <typename T>
absl::StatusOr<Tensor> Widen(KernelContext& context, const Tensor& tensor) {
  if constexpr (std::is_same_v<T, ComputeType<T>>) {
    return tensor;
  } else {
    WEIR_ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(DType::kFloat32, tensor.shape()));
    const T* const source = tensor.flat<T>().data();
    float* const target = wide.flat<float>().data();
    ConvertBlocks(context, tensor.num_elements(),
                  [=](int64_t begin, int64_t count) { ToFloats(source + begin, target + begin, count); });
    return wide;
  }
}

// An output to compute into: the tensor itself, or a temporary in single precision for Narrow.
template <typename T>
absl::StatusOr<Tensor> WideOutput(KernelContext& context, const Tensor& output) {
  if constexpr (std::is_same_v<T, ComputeType<T>>) {
    return output;
  } else {
    return context.AllocateTemporary(DType::kFloat32, output.shape());
  }
}

// Rounds what was computed in a WideOutput into the output.
template <typename T>
void Narrow(KernelContext& context, const Tensor& wide, Tensor* output) {
  if constexpr (!std::is_same_v<T, ComputeType<T>>) {
    const float* const source = wide.flat<float>().data();
    T* const target = output->flat<T>().data();
    ConvertBlocks(context, wide.num_elements(),
                  [=](int64_t begin, int64_t count) { FromFloats(source + begin, target + begin, count); });
  }
}

}  // namespace weir
