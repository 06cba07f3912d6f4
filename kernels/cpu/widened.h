// 16-bit floating types computed in single precision: formulas then stand once, for float.
//
// Thread safety: pure functions; each may split its work among the context's threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "graph/types/float16.h"
#include "kernels/kernel_context.h"

namespace weir {

// The type a kernel for elements of T computes in.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>, float, T>;

// The same where dtypes are known at run time.
inline bool IsSixteenBit(DType dtype) { return dtype == DType::kHalf || dtype == DType::kBfloat16; }
inline DType ComputeDType(DType dtype) { return IsSixteenBit(dtype) ? DType::kFloat32 : dtype; }

// Calls convert(begin, count) for blocks of elements on several threads.
void ConvertBlocks(KernelContext& context, int64_t count,
                   absl::FunctionRef<void(int64_t begin, int64_t count)> convert);

// The tensor itself, or a copy of a 16-bit one in single precision.
absl::StatusOr<Tensor> Widen(KernelContext& context, const Tensor& tensor);

// A tensor to compute an output into: the output itself or, for a 16-bit one, a temporary in single precision
// that Narrow then rounds.
absl::StatusOr<Tensor> WideOutput(KernelContext& context, const Tensor& output);

// Rounds what was computed in a WideOutput into the output. Does nothing when they are one tensor.
void Narrow(KernelContext& context, const Tensor& wide, Tensor* output);

}  // namespace weir
