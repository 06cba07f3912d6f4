// Plans of ops that join tensors, choose between them, or put their elements in another order. The CPU's
// kernels and those for GPUs call these, so that a mistake has one text wherever it is found.
//
// All errors are InvalidArgument. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/strided_copy.h"

namespace weir {

// "perm must have one element per dimension, 2, is ..."
absl::Status WrongLength(absl::string_view name, const Tensor& found, int rank);

// Tensors one behind the other along an axis of the result.
struct JoinPlan {
  Shape shape;
  int axis = 0;
};
// Precondition of both: there is a tensor. `axis` of a concatenation: one integer in the host's memory.
absl::StatusOr<JoinPlan> PlanConcat(absl::Span<const Shape* const> inputs, const Tensor& axis);
absl::StatusOr<JoinPlan> PlanPack(absl::Span<const Shape* const> inputs, int64_t axis);

// The elements of a tensor that make up a result of that shape. It is the tensor itself where `is_whole`.
struct ViewPlan {
  Shape shape;
  StridedView view;
  bool is_whole = false;
};
// The integers are in the host's memory.
absl::StatusOr<ViewPlan> PlanSlice(const Shape& input, const Tensor& begin, const Tensor& size);
absl::StatusOr<ViewPlan> PlanTranspose(const Shape& x, const Tensor& perm);

// Whether a condition can choose between t and e: it has their shape, is a scalar, or chooses rows.
absl::Status CheckSelect(const Shape& condition, const Shape& t, const Shape& e);

}  // namespace weir
