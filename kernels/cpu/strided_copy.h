// Copies elements between two strided views: the one loop nest behind Transpose, Slice, Concat, Tile, Pad...
//
// Works on any dtype: plain bytes by element size, strings and handles by assignment.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "graph/types/dtype.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/thread_pool.h"

namespace weir {

// A view of a tensor's elements: element (i0, i1, ...) is at offset + sum of ik * strides[k], counted in
// elements. A stride may be 0 (repeated) or negative (reversed).
struct StridedView {
  int64_t offset = 0;
  Dims strides;
};

// The strides of a dense row-major array.
Dims RowMajorStrides(absl::Span<const int64_t> dims);

// target[view of target] = source[view of source] for every index below `dims`. Preconditions: same dtype,
// views of rank dims.size() that lie inside their tensors, target elements distinct, no overlap between the
// two.
void StridedCopy(absl::Span<const int64_t> dims, const Tensor& source, const StridedView& source_view,
                 Tensor& target, const StridedView& target_view, ThreadPool& threads);

// Elements [offset, offset + count) become `count` copies of value[0]. Precondition: same dtype.
void FillElements(const Tensor& value, Tensor& target, int64_t offset, int64_t count);
// Zero, false or "".
void ClearElements(Tensor& target, int64_t offset, int64_t count);
// Contiguous elements. Precondition: same dtype.
void CopyElements(const Tensor& source, int64_t source_offset, Tensor& target, int64_t target_offset,
                  int64_t count);

}  // namespace weir
