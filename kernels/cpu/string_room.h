// Long strings keep their characters outside of their tensor's buffer, where no allocator counts them. A
// kernel that repeats elements asks here first, so that a few bytes of input cannot take all memory: ops then
// end with ResourceExhausted, as they do for other dtypes, and the process goes on.
//
// What is asked for is not kept: the characters count when they are made, not while they live.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/tensor.h"
#include "kernels/kernel_context.h"

namespace weir {

// Bytes outside of the buffers of elements [begin, end) of a tensor; 0 when it holds no strings.
int64_t BytesOutside(const Tensor& tensor, int64_t begin, int64_t end);

// Whether the device has memory for `num_copies` times so many bytes. ResourceExhausted when not.
absl::Status CheckRoom(KernelContext& context, int64_t num_bytes, int64_t num_copies);

// The same for a tensor that is repeated, as a whole, until it has num_elements elements. OK for other
// dtypes.
absl::Status CheckRoomForStrings(KernelContext& context, const Tensor& repeated, int64_t num_elements);

}  // namespace weir
