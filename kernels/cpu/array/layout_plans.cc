#include "kernels/cpu/array/layout_plans.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"

namespace weir {
namespace {

Dims DimsOf(const Shape& shape) { return Dims(shape.dims().begin(), shape.dims().end()); }

}  // namespace

absl::Status WrongLength(absl::string_view name, const Tensor& found, int rank) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have one element per dimension, ", rank, ", is ", found.ToString()));
}

absl::StatusOr<JoinPlan> PlanConcat(absl::Span<const Shape* const> inputs, const Tensor& axis_input) {
  const Shape& first = *inputs[0];
  if (first.is_scalar())
    return absl::InvalidArgumentError("Can't concatenate scalars (use tf.stack instead)");
  WEIR_ASSIGN_OR_RETURN(const int axis, ReadAxis(axis_input, first.rank(), "axis"));
  Dims dims = DimsOf(first);
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Shape& shape = *inputs[i];
    bool fits = shape.rank() == first.rank();
    for (int d = 0; d < first.rank() && fits; ++d) fits = d == axis || shape.dim(d) == first.dim(d);
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("Dimensions of inputs should match: values[0] is ",
                                                     first.ToString(), ", values[", i, "] is ",
                                                     shape.ToString(), ", axis = ", axis));
    }
    if (__builtin_add_overflow(dims[axis], shape.dim(axis), &dims[axis])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension ", axis, " of the result does not fit in 63 bits, from values[", i, "] on"));
    }
  }
  WEIR_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
  return JoinPlan{.shape = std::move(shape), .axis = axis};
}

absl::StatusOr<JoinPlan> PlanPack(absl::Span<const Shape* const> inputs, int64_t axis_attr) {
  const Shape& element = *inputs[0];
  WEIR_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_attr, element.rank() + 1, "axis"));
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (*inputs[i] == element) continue;
    return absl::InvalidArgumentError(absl::StrCat("Shapes of all inputs must match: values[0] is ",
                                                   element.ToString(), ", values[", i, "] is ",
                                                   inputs[i]->ToString()));
  }
  Dims dims = DimsOf(element);
  dims.insert(dims.begin() + axis, static_cast<int64_t>(inputs.size()));
  WEIR_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
  return JoinPlan{.shape = std::move(shape), .axis = axis};
}

absl::StatusOr<ViewPlan> PlanSlice(const Shape& input, const Tensor& begin_input, const Tensor& size_input) {
  const int rank = input.rank();
  WEIR_ASSIGN_OR_RETURN(const Dims begin, ReadIntegers(begin_input, "begin"));
  WEIR_ASSIGN_OR_RETURN(Dims size, ReadIntegers(size_input, "size"));
  if (static_cast<int>(begin.size()) != rank) return WrongLength("begin", begin_input, rank);
  if (static_cast<int>(size.size()) != rank) return WrongLength("size", size_input, rank);
  ViewPlan plan = {.shape = {}, .view = {0, RowMajorStrides(input.dims())}, .is_whole = true};
  for (int i = 0; i < rank; ++i) {
    const int64_t dim = input.dim(i);
    if (begin[i] < 0 || begin[i] > dim) {
      return absl::InvalidArgumentError(
          absl::StrCat("begin[", i, "] = ", begin[i], " is not in [0, ", dim, "]"));
    }
    if (size[i] == -1) size[i] = dim - begin[i];
    if (size[i] < 0 || size[i] > dim - begin[i]) {
      return absl::InvalidArgumentError(absl::StrCat("size[", i, "] = ", size[i], " is not in [0, ",
                                                     dim - begin[i], "], as begin[", i, "] = ", begin[i],
                                                     " and the dimension is ", dim));
    }
    plan.view.offset += begin[i] * plan.view.strides[i];
    plan.is_whole &= size[i] == dim;
  }
  WEIR_ASSIGN_OR_RETURN(plan.shape, Shape::FromDims(size));
  return plan;
}

absl::StatusOr<ViewPlan> PlanTranspose(const Shape& x, const Tensor& perm_input) {
  const int rank = x.rank();
  WEIR_ASSIGN_OR_RETURN(const Dims perm, ReadIntegers(perm_input, "perm"));
  if (static_cast<int>(perm.size()) != rank) return WrongLength("perm", perm_input, rank);
  const Dims strides = RowMajorStrides(x.dims());
  std::vector<bool> seen(rank, false);
  Dims dims(rank);
  ViewPlan plan = {.shape = {}, .view = {0, Dims(rank)}, .is_whole = true};
  for (int i = 0; i < rank; ++i) {
    WEIR_ASSIGN_OR_RETURN(const int from, ResolveAxis(perm[i], rank, absl::StrCat("perm[", i, "]")));
    if (seen[from]) {
      return absl::InvalidArgumentError(
          absl::StrCat("perm must be a permutation, is ", perm_input.ToString()));
    }
    seen[from] = true;
    dims[i] = x.dim(from);
    plan.view.strides[i] = strides[from];
    plan.is_whole &= from == i;
  }
  plan.shape = Shape(absl::MakeConstSpan(dims));
  return plan;
}

absl::Status CheckSelect(const Shape& condition, const Shape& t, const Shape& e) {
  if (t != e) {
    return absl::InvalidArgumentError(
        absl::StrCat("t and e must have one shape, are ", t.ToString(), " and ", e.ToString()));
  }
  const bool chooses_rows = condition.rank() == 1 && t.rank() >= 1 && t.dim(0) == condition.dim(0);
  if (condition.is_scalar() || condition == t || chooses_rows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("condition must be a scalar, a vector as long as t's dimension 0, or of t's shape ",
                   t.ToString(), ", is ", condition.ToString()));
}

}  // namespace weir
