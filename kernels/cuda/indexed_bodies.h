// Kernels that indices lead to slices and rows, for GPUs and for the host, where tests run them.
//
// Indices are looked at here: of one that is out of range note is taken (data_error.h), and nothing is read
// or written at it.
#pragma once

#include <cstdint>

#include "kernels/cuda/data_error.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/host_device.h"

namespace weir::cuda {

// The kinds of what is found wrong.
inline constexpr int kFoundBadIndex = 0;

WEIR_HOST_DEVICE inline bool IsIn(int64_t index, int64_t limit) {
  return static_cast<uint64_t>(index) < static_cast<uint64_t>(limit);
}

// The output is [batches, outer, count, inner], the params [batches, outer, limit, inner], the indices
// [batches, count]. Elements are words, of which a slice has a whole number.
struct GatherDims {
  int64_t outer, limit, count, inner;
};

template <typename Word, typename Index>
WEIR_HOST_DEVICE void GatherBody(ThreadPosition thread, const Word* params, const Index* indices,
                                 Word* output, int64_t n, const GatherDims& dims,
                                 const DataErrorPlace& place) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const int64_t slice = i / dims.inner, plane = slice / dims.count;
    const int64_t index = indices[plane / dims.outer * dims.count + slice % dims.count];
    if (IsIn(index, dims.limit)) {
      output[i] = params[(plane * dims.limit + index) * dims.inner + i % dims.inner];
    } else {
      output[i] = 0;
      NoteDataError(place, kFoundBadIndex);
    }
  }
}

template <typename Index>
WEIR_HOST_DEVICE void CheckIndicesBody(ThreadPosition thread, const Index* indices, int64_t n, int64_t limit,
                                       const DataErrorPlace& place) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    if (!IsIn(indices[i], limit)) NoteDataError(place, kFoundBadIndex);
  }
}

// visitor.template operator()<Index>()
template <typename Visitor>
void VisitIndices(const Visitor& visitor) {
  visitor.template operator()<int32_t>();
  visitor.template operator()<int64_t>();
}

}  // namespace weir::cuda
