// The largest elements of the rows of a tensor.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

Status TopKShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 1));
  std::optional<int64_t> k;
  if (s.num_inputs() == 1) {
    k = s.attr<int64_t>("k");
  } else {
    WEIR_ASSIGN_OR_RETURN(k, ScalarInput(s, 1));
  }
  if (k && *k < 0) return InvalidArgumentError(StrCat("k is ", *k, ", must not be negative"));
  if (!input.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(input);
  if (k && dims.back() != kUnknown && *k > dims.back()) {
    return InvalidArgumentError(StrCat("k is ", *k, ", more than the last dimension of ", input.ToString()));
  }
  dims.back() = k.value_or(kUnknown);
  for (int i = 0; i < 2; ++i) WEIR_RETURN_IF_ERROR(SetOutputDims(s, i, dims));
  return OkStatus();
}

// The last dimension of a forward tensor as an int64 scalar.
Output LastDim(GradientContext& g, Output forward) {
  const PartialShape& shape = forward.shape();
  if (shape.has_rank() && shape.dim(shape.rank() - 1) != kUnknown) {
    return g.Constant(DType::kInt64, static_cast<double>(shape.dim(shape.rank() - 1)));
  }
  const Output dims = g.Add("Shape", {forward}, {{"out_type", DType::kInt64}});
  const Output last = Sub(g, g.Add("Size", {dims}), g.Constant(DType::kInt32, 1));
  return g.Add("GatherV2", {dims, last, g.Constant(DType::kInt32, 0)});
}

// Every gradient goes to the element that was chosen.
Status TopKGradient(GradientContext& g) {
  if (!g.grad(0)) return OkStatus();
  const Output input = g.input(0);
  const Output one = g.Constant(DType::kInt64, 1);
  const Output size = g.Add("Size", {input}, {{"out_type", DType::kInt64}});
  const Output columns = LastDim(g, input);
  const Output rows = g.Add("FloorDiv", {size, g.Add("Maximum", {columns, one})});
  const Output per_row = g.Add("Pack", {std::vector<Output>{rows, LastDim(g, g.output(0))}});
  const Output places = Reshape(g, Cast(g, g.output(1), DType::kInt64), per_row);
  const Output range = g.Add("Range", {g.Constant(DType::kInt64, 0), rows, one});
  const Output starts = g.Add("ExpandDims", {Mul(g, range, columns), g.Constant(DType::kInt32, 1)});
  const Output targets = Reshape(g, Add(g, places, starts), g.Integers({-1}));
  const Output flat = Reshape(g, g.grad(0), g.Integers({-1}));
  g.set_input_grad(0, ReshapeLike(g, g.Add("UnsortedSegmentSum", {flat, targets, size}), input));
  return OkStatus();
}

// `reduction_dimension` is the last one: kernels take no other.
Status ApproxTopKShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 1));
  if (!input.has_rank()) return OkStatus();
  WEIR_RETURN_IF_ERROR(
      NormalizeAxis(s.attr<int64_t>("reduction_dimension"), input.rank(), "reduction_dimension").status());
  return TopKShape(s);
}

Status NthElementShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 1));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> n, ScalarInput(s, 1));
  if (n && *n < 0) return InvalidArgumentError(StrCat("n must be non-negative but is ", *n));
  if (!input.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(input);
  if (n && dims.back() != kUnknown && *n >= dims.back()) {
    return InvalidArgumentError(
        StrCat("Input must have last dimension > n = ", *n, ", is ", input.ToString()));
  }
  dims.pop_back();
  return SetOutputDims(s, 0, dims);
}

// The elements that are equal to the one that was chosen share its gradient.
Status NthElementGradient(GradientContext& g) {
  const Output last = g.Constant(DType::kInt32, -1);
  const auto column = [&](Output a) { return g.Add("ExpandDims", {a, last}); };
  const Output chosen = Cast(g, g.Add("Equal", {column(g.output(0)), g.input(0)}), g.grad(0).dtype());
  const Output count = Sum(g, chosen, last, /*keep_dims=*/true);
  g.set_input_grad(0, Mul(g, Div(g, chosen, count), column(g.grad(0))));
  return OkStatus();
}

OpDef TopK(std::string name) {
  return {.name = std::move(name),
          .summary =
              "Gives the k largest elements of every row, and where they are; the first of equal ones first.",
          .infer_shapes = TopKShape,
          .gradient = TopKGradient};
}

}  // namespace

std::vector<OpDef> TopKOps() {
  OpDef approximate = TopK("ApproxTopK");
  approximate.summary =
      "Gives the k largest elements of every row, or the k least, and where they are; the first of equal "
      "ones "
      "first.";
  approximate.infer_shapes = ApproxTopKShape;
  return {TopK("TopKV2"),
          TopK("TopK"),
          std::move(approximate),
          {.name = "NthElement",
           .summary = "Gives the n-th least element of every row, or the n-th largest if reversed.",
           .infer_shapes = NthElementShape,
           .gradient = NthElementGradient}};
}

}  // namespace weir
