#include "ops/shape_functions.h"

#include "graph/types/status_macros.h"

namespace weir {

std::vector<int64_t> DimsOf(const PartialShape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

Status SetOutputDims(ShapeInference& s, int output, absl::Span<const int64_t> dims) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::FromDims(dims));
  s.set_output(output, std::move(shape));
  return OkStatus();
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank, absl::string_view name) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgumentError(StrCat(name, " ", axis, " is outside [", -rank, ",", rank, ")"));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<std::optional<int64_t>> ScalarInput(ShapeInference& s, int index) {
  WEIR_RETURN_IF_ERROR(s.WithRank(index, 0).status());
  const auto values = s.input_integers(index);
  if (!values || values->size() != 1) return std::optional<int64_t>();
  return std::optional<int64_t>(values->front());
}

int64_t MultiplyDims(int64_t a, int64_t b) {
  int64_t product = 0;
  return MultiplyWithoutOverflow(a, b, &product) ? product : kUnknown;
}

int64_t AddDims(int64_t a, int64_t b) {
  int64_t sum = 0;
  const bool is_known = a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, &sum);
  return is_known ? sum : kUnknown;
}

absl::StatusOr<PartialShape> RequestedShape(ShapeInference& s, int index) {
  WEIR_RETURN_IF_ERROR(s.WithRank(index, 1).status());
  if (const auto values = s.input_integers(index)) {
    for (const int64_t value : *values) {
      if (value < 0) {
        return InvalidArgumentError(StrCat(s.input_name(index), " has the negative dimension ", value));
      }
    }
  }
  return s.InputAsShape(index);
}

Status ReductionShape(ShapeInference& s) {
  const PartialShape& input = s.input(0);
  const PartialShape& axes_shape = s.input(1);
  const bool keep_dims = s.attr<bool>("keep_dims");
  if (axes_shape.has_rank() && axes_shape.rank() > 1) {
    return InvalidArgumentError(
        StrCat(s.input_name(1), " must be a scalar or a vector, is ", axes_shape.ToString()));
  }
  if (!input.has_rank()) return OkStatus();
  const auto axes = s.input_integers(1);
  if (!axes) {
    if (keep_dims) s.set_output(0, PartialShape::OfRank(input.rank()));
    if (!keep_dims && input.rank() == 0) s.set_output(0, Shape());
    return OkStatus();
  }
  std::vector<bool> is_reduced(input.rank(), false);
  for (const int64_t axis : *axes) {
    WEIR_ASSIGN_OR_RETURN(const int index, NormalizeAxis(axis, input.rank(), s.input_name(1)));
    is_reduced[index] = true;
  }
  std::vector<int64_t> dims;
  for (int i = 0; i < input.rank(); ++i) {
    if (!is_reduced[i]) dims.push_back(input.dim(i));
    if (is_reduced[i] && keep_dims) dims.push_back(1);
  }
  return SetOutputDims(s, 0, dims);
}

}  // namespace weir
