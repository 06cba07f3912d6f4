// Batches of matrices that broadcast: tensors whose last two dimensions are a matrix's, and all before them
// the batch's.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/types/shape.h"

namespace weir {

// Precondition: the shape has rank 2 or more.
inline Shape BatchOf(const Shape& shape) { return Shape(shape.dims().subspan(0, shape.rank() - 2)); }

// Which matrix of an operand each matrix of the broadcast batch takes. A value, safe to share between
// threads.
class BroadcastBatch {
 public:
  // Precondition: `own` broadcasts to `batch`.
  BroadcastBatch(const Shape& own, const Shape& batch) {
    int64_t stride = 1, matrices = 1;
    for (int i = batch.rank() - 1; i >= 0; --i) {
      const int at = i - (batch.rank() - own.rank());
      const int64_t dim = at < 0 ? 1 : own.dim(at);
      axes_.push_back({batch.dim(i), matrices, dim == 1 ? 0 : stride});
      stride *= dim;
      matrices *= batch.dim(i);
    }
    is_same_ = own == batch;
  }

  int64_t MatrixOf(int64_t index) const {
    if (is_same_) return index;
    int64_t matrix = 0;
    for (const Axis& axis : axes_) matrix += index / axis.matrices % axis.dim * axis.stride;
    return matrix;
  }

 private:
  struct Axis {
    int64_t dim, matrices, stride;
  };
  std::vector<Axis> axes_;
  bool is_same_ = false;
};

}  // namespace weir
