// Sums, means and extremes along axes.
#include <string>
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

OpDef Reduction(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ReductionShape,
          .gradient = gradient};
}

// The shape of a reduction's result as it is with keep_dims, as a vector; axes known or not.
Output KeptShape(GradientContext& g) {
  const Output input = g.input(0);
  const std::vector<int32_t>* known = nullptr;
  std::vector<int32_t> kept;
  if (g.input(1).node->op_name() == "Const" && input.shape().is_fully_known()) {
    kept.assign(input.shape().dims().begin(), input.shape().dims().end());
    const auto& axes = g.input(1).node->attr<Tensor>("value");
    for (int64_t i = 0; i < axes.num_elements(); ++i) {
      const int64_t axis = axes.dtype() == DType::kInt64 ? axes.flat<int64_t>()[i] : axes.flat<int32_t>()[i];
      kept[axis < 0 ? axis + static_cast<int64_t>(kept.size()) : axis] = 1;
    }
    known = &kept;
  }
  if (known != nullptr) return g.Integers(*known);
  // With s the shape of the input: s where an axis is kept and 1 where it is reduced. Axes count from the
  // back as well.
  const Output shape = g.Add("Shape", {input});
  const Output rank = g.Add("Size", {shape});
  const Output axes = g.Add("FloorMod", {Cast(g, g.input(1), DType::kInt32), rank});
  const Output flat_axes = Reshape(g, axes, g.Integers({-1}));
  const Output marks = g.Add("UnsortedSegmentSum", {g.Add("OnesLike", {flat_axes}), flat_axes, rank});
  const Output is_reduced = g.Add("Greater", {marks, g.Constant(DType::kInt32, 0)});
  return Select(g, is_reduced, g.Constant(DType::kInt32, 1), shape);
}

// `reduced` (of the reduction's output shape) with its reduced axes back, as dimensions of 1.
Output WithReducedAxes(GradientContext& g, Output reduced) {
  if (g.attr<bool>("keep_dims")) return reduced;
  // A scalar broadcasts to everything as it is.
  if (g.node().output_shape(0).rank() == 0) return reduced;
  return Reshape(g, reduced, KeptShape(g));
}

Output BroadcastToInput(GradientContext& g, Output reduced) {
  return BroadcastTo(g, WithReducedAxes(g, reduced), ShapeOf(g, g.input(0)));
}

// How many elements of the input one element of the output is the mean of, in the input's dtype.
Output ElementsPerMean(GradientContext& g) {
  const PartialShape& input = g.input(0).shape();
  const PartialShape& output = g.node().output_shape(0);
  const DType dtype = g.input(0).dtype();
  if (input.is_fully_known() && output.is_fully_known()) {
    const int64_t count = output.ToShape().num_elements();
    return g.Constant(dtype, count == 0 ? 1.0 : static_cast<double>(input.ToShape().num_elements() / count));
  }
  const Output input_size = g.Add("Size", {g.input(0)});
  if (output.rank() == 0) return Cast(g, input_size, dtype);
  const Output output_size = g.Add("Maximum", {g.Add("Size", {g.output(0)}), g.Constant(DType::kInt32, 1)});
  return Cast(g, g.Add("FloorDiv", {input_size, output_size}), dtype);
}

// The gradient of x_i is the product of the others: of those before it and of those behind it. No division,
// so that it is right for zeros, and where the product of all overflows.
Status ProdGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output x = g.input(0), shape = ShapeOf(g, x);
  const Output zero = g.Constant(DType::kInt32, 0), one = g.Constant(DType::kInt32, 1);
  const Output rank = g.Add("Size", {shape});
  const Output axes =
      Reshape(g, g.Add("FloorMod", {Cast(g, g.input(1), DType::kInt32), rank}), g.Integers({-1}));
  const Output kept = g.Add("ListDiff", {g.Add("Range", {zero, rank, one}), axes});
  const Output order = g.Add("ConcatV2", {std::vector<Output>{axes, kept}, zero});
  const auto dims = [&](Output of) { return g.Add("GatherV2", {shape, of, zero}); };
  const auto size = [&](Output of) { return g.Add("Prod", {dims(of), zero}); };
  const Output factors = Reshape(g, g.Add("Transpose", {x, order}),
                                 g.Add("Pack", {std::vector<Output>{size(axes), size(kept)}}));
  const auto product = [&](bool of_later) {
    return g.Add("Cumprod", {factors, zero}, {{"exclusive", true}, {"reverse", of_later}});
  };
  const Output others = Reshape(g, Mul(g, product(false), product(true)), dims(order));
  const Output factor = g.Add("Transpose", {others, g.Add("InvertPermutation", {order})});
  g.set_input_grad(0, ReshapeLike(g, Mul(g, WithReducedAxes(g, g.grad(0)), factor), x));
  return OkStatus();
}

// Elements that equal the extreme share its gradient.
Status ExtremeGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output is_extreme = Cast(g, g.Add("Equal", {x, WithReducedAxes(g, g.output(0))}), x.dtype());
  const Output count = Sum(g, is_extreme, g.input(1), /*keep_dims=*/true);
  g.set_input_grad(0, Mul(g, Div(g, is_extreme, count), WithReducedAxes(g, g.grad(0))));
  return OkStatus();
}

Status ArgShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ScalarInput(s, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 1));
  if (!input.has_rank()) return OkStatus();
  if (!axis) {
    s.set_output(0, PartialShape::OfRank(input.rank() - 1));
    return OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(const int index, NormalizeAxis(*axis, input.rank(), "dimension"));
  std::vector<int64_t> dims = DimsOf(input);
  dims.erase(dims.begin() + index);
  return SetOutputDims(s, 0, dims);
}

OpDef ArgReduction(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ArgShape,
          .gradient = NotDifferentiable};
}

OpDef LogicalReduction(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ReductionShape,
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> ReductionOps() {
  return {
      Reduction("Sum", "Adds up the elements along some axes.",
                [](GradientContext& g) -> Status {
                  g.set_input_grad(0, BroadcastToInput(g, g.grad(0)));
                  return OkStatus();
                }),
      Reduction("Mean", "Gives the mean of the elements along some axes.",
                [](GradientContext& g) -> Status {
                  g.set_input_grad(0, BroadcastToInput(g, Div(g, g.grad(0), ElementsPerMean(g))));
                  return OkStatus();
                }),
      Reduction("Prod", "Multiplies the elements along some axes.", ProdGradient),
      Reduction("Max", "Gives the largest element along some axes.", ExtremeGradient),
      Reduction("Min", "Gives the smallest element along some axes.", ExtremeGradient),
      LogicalReduction("All", "Gives true where all elements along some axes are true."),
      LogicalReduction("Any", "Gives true where some element along some axes is true."),
      ArgReduction("ArgMax", "Gives the index of the largest element along an axis, the first of equals."),
      ArgReduction("ArgMin", "Gives the index of the smallest element along an axis, the first of equals."),
      Reduction("EuclideanNorm", "Gives the square root of the sum of squares along some axes.",
                [](GradientContext& g) -> Status {
                  WEIR_RETURN_IF_ERROR(CheckReal(g));
                  const Output norm = WithReducedAxes(g, g.output(0));
                  const Output gradient = WithReducedAxes(g, g.grad(0));
                  g.set_input_grad(0, Div(g, g.input(0), Div(g, norm, gradient)));
                  return OkStatus();
                }),
      {.name = "L2Loss",
       .summary = "Gives half the sum of the squares of all elements.",
       .infer_shapes = ScalarShape,
       .gradient = [](GradientContext& g) -> Status { return SetScaled(g, g.input(0)); }},
  };
}

}  // namespace weir
