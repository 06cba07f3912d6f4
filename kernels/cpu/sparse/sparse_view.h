// A sparse tensor in the inputs of a kernel: indices [count, rank], values [count], shape [rank].
//
// Indices may be hostile: a kernel that reaches memory by them calls CheckInBounds first. Those that only
// move indices take any, as TensorFlow's do. Lives as long as the tensors it was made from. Thread safe:
// reads only.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/kernel_context.h"

namespace weir {

class SparseView {
 public:
  // InvalidArgument when ranks or counts do not fit, or a dimension is negative.
  static absl::StatusOr<SparseView> Read(const Tensor& indices, const Tensor& values, const Tensor& shape);
  // Of inputs `first`, `first` + 1 and `first` + 2.
  static absl::StatusOr<SparseView> Read(const KernelContext& context, int first);

  int64_t count() const { return indices_.shape().dim(0); }
  int rank() const { return static_cast<int>(dims_.size()); }
  const Dims& dims() const { return dims_; }
  const Tensor& indices() const { return indices_; }
  const Tensor& values() const { return values_; }
  // The coordinates of element i.
  absl::Span<const int64_t> index(int64_t i) const {
    return indices_.flat<int64_t>().subspan(i * rank(), rank());
  }

  // InvalidArgument, naming the first element that is outside of the shape.
  absl::Status CheckInBounds() const;

 private:
  SparseView(const Tensor& indices, const Tensor& values, Dims dims)
      : indices_(indices), values_(values), dims_(std::move(dims)) {}

  Tensor indices_, values_;
  Dims dims_;
};

// Less than 0, 0 or more as `a` comes before `b`, is it, or comes after it in row-major order.
int CompareIndices(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// The order in which the elements are sorted by their indices; equal ones keep theirs.
std::vector<int64_t> RowMajorOrder(const SparseView& sparse);

// "[1,2]"
std::string IndexText(absl::Span<const int64_t> index);

// to[k] = from[order[k]]. Precondition: same dtype.
void GatherValues(const Tensor& from, absl::Span<const int64_t> order, Tensor& to);

// An output vector of dimensions.
absl::Status SetShapeOutput(KernelContext& context, int output, absl::Span<const int64_t> dims);

}  // namespace weir
