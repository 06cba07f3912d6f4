// Arithmetic, comparison, logic, reduction and matrix product. One op, one function: schema, shapes,
// gradient.
//
// Binary ops broadcast their inputs as numpy does.
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

constexpr char kFloatAndComplexTypes[] = "T: {bfloat16, half, float, double, complex64, complex128}";
constexpr char kSignedAndComplexTypes[] =
    "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}";
constexpr char kArithmeticTypes[] =
    "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128, "
    "uint32, "
    "uint64}";
constexpr char kIndexTypes[] = "Tidx: {int32, int64} = int32";

Output One(GradientContext& g, Output like) { return g.Constant(like.dtype(), 1); }
Output Zero(GradientContext& g, Output like) { return g.Constant(like.dtype(), 0); }

// y = f(x), element by element.
OpDef Unary(std::string name, std::string summary, std::string types, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"x: T"},
          .outputs = {"y: T"},
          .attrs = {std::move(types)},
          .is_elementwise = true,
          .infer_shapes = UnchangedShape,
          .gradient = gradient};
}

// z = f(x, y), element by element of the broadcast inputs.
OpDef Binary(std::string name, std::string summary, std::string types, GradientFunction gradient,
             bool is_commutative = false) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"x: T", "y: T"},
          .outputs = {"z: T"},
          .attrs = {std::move(types)},
          .is_elementwise = true,
          .is_commutative = is_commutative,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = gradient};
}

// ---- Sums, products, quotients ----

Status AddGradient(GradientContext& g) { return SetBroadcastGradients(g, g.grad(0), g.grad(0)); }

OpDef AddOp() {
  return Binary(
      "Add", "Gives x + y; strings are joined.",
      "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
      AddGradient);
}

OpDef AddV2Op() {
  return Binary(
      "AddV2", "Gives x + y.",
      "T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, int64, "
      "complex64, complex128}",
      AddGradient, /*is_commutative=*/true);
}

OpDef AddNOp() {
  return {
      .name = "AddN",
      .summary = "Adds tensors of one shape.",
      .inputs = {"inputs: N * T"},
      .outputs = {"sum: T"},
      .attrs =
          {"N: int >= 1",
           "T: {float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, "
           "half, uint32, uint64, variant}"},
      .is_elementwise = true,
      .is_commutative = true,
      .infer_shapes = MergedShape,
      .gradient = [](GradientContext& g) -> Status {
        for (int i = 0; i < g.num_inputs(); ++i) g.set_input_grad(i, g.grad(0));
        return OkStatus();
      }};
}

OpDef SubOp() {
  return Binary("Sub", "Gives x - y.", kArithmeticTypes, [](GradientContext& g) -> Status {
    return SetBroadcastGradients(g, g.grad(0), Neg(g, g.grad(0)));
  });
}

OpDef MulOp() {
  return Binary(
      "Mul", "Gives x * y.", kArithmeticTypes,
      [](GradientContext& g) -> Status {
        WEIR_RETURN_IF_ERROR(CheckReal(g));
        return SetBroadcastGradients(g, Mul(g, g.grad(0), g.input(1)), Mul(g, g.grad(0), g.input(0)));
      },
      /*is_commutative=*/true);
}

// Of z = x / y with the division that the node itself does: dz/dx = 1/y, dz/dy = -(x/y)/y.
Status QuotientGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const std::string& divide = g.node().op_name();
  const Output y = g.input(1);
  const Output z_over_y = g.Add(divide, {g.output(0), y});
  return SetBroadcastGradients(g, g.Add(divide, {g.grad(0), y}), Neg(g, Mul(g, g.grad(0), z_over_y)));
}

OpDef DivOp() {
  return Binary("Div", "Gives x / y, for integers rounded towards zero.", kArithmeticTypes, QuotientGradient);
}

OpDef RealDivOp() { return Binary("RealDiv", "Gives x / y.", kArithmeticTypes, QuotientGradient); }

OpDef DivNoNanOp() {
  return Binary("DivNoNan", "Gives x / y, and 0 where y is 0.",
                "T: {half, float, bfloat16, double, complex64, complex128}", QuotientGradient);
}

OpDef FloorDivOp() {
  return Binary("FloorDiv", "Gives x / y rounded towards negative infinity.", kArithmeticTypes,
                NotDifferentiable);
}

OpDef FloorModOp() {
  return Binary(
      "FloorMod", "Gives x - floor(x / y) * y, which has the sign of y.",
      "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, half, float, double}",
      [](GradientContext& g) -> Status {
        const Output quotient = g.Add("FloorDiv", {g.input(0), g.input(1)});
        return SetBroadcastGradients(g, g.grad(0), Neg(g, Mul(g, g.grad(0), quotient)));
      });
}

OpDef SquaredDifferenceOp() {
  return Binary(
      "SquaredDifference", "Gives (x - y) * (x - y), with complex numbers (x - y) * conj(x - y).",
      "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
      [](GradientContext& g) -> Status {
        WEIR_RETURN_IF_ERROR(CheckReal(g));
        const Output twice = Scale(g, 2, Sub(g, g.input(0), g.input(1)));
        const Output x = Mul(g, g.grad(0), twice);
        return SetBroadcastGradients(g, x, Neg(g, x));
      },
      /*is_commutative=*/true);
}

OpDef MaximumOp() {
  return Binary(
      "Maximum", "Gives the larger of x and y; NaN if one is.",
      "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}",
      [](GradientContext& g) -> Status {
        const Output x_wins = g.Add("GreaterEqual", {g.input(0), g.input(1)});
        const Output zero = Zero(g, g.grad(0));
        return SetBroadcastGradients(g, Select(g, x_wins, g.grad(0), zero),
                                     Select(g, x_wins, zero, g.grad(0)));
      });
}

OpDef MinimumOp() {
  return Binary(
      "Minimum", "Gives the smaller of x and y; NaN if one is.",
      "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}",
      [](GradientContext& g) -> Status {
        const Output x_wins = g.Add("LessEqual", {g.input(0), g.input(1)});
        const Output zero = Zero(g, g.grad(0));
        return SetBroadcastGradients(g, Select(g, x_wins, g.grad(0), zero),
                                     Select(g, x_wins, zero, g.grad(0)));
      });
}

OpDef PowOp() {
  return Binary("Pow", "Gives x to the power of y.",
                "T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",
                [](GradientContext& g) -> Status {
                  WEIR_RETURN_IF_ERROR(CheckReal(g));
                  const Output x = g.input(0), y = g.input(1);
                  const Output slope = Mul(g, y, g.Add("Pow", {x, Sub(g, y, One(g, y))}));
                  // log x where it is a real number; elsewhere z does not depend smoothly on y.
                  const Output is_positive = g.Add("Greater", {x, Zero(g, x)});
                  const Output safe = Select(g, is_positive, x, One(g, x));
                  const Output log = g.Add("Log", {safe});
                  return SetBroadcastGradients(g, Mul(g, g.grad(0), slope),
                                               Mul(g, g.grad(0), Mul(g, g.output(0), log)));
                });
}

// ---- Functions of one number ----

// dy/dx = gradient(0) * factor.
Status SetScaled(GradientContext& g, Output factor) {
  g.set_input_grad(0, Mul(g, g.grad(0), factor));
  return OkStatus();
}

OpDef NegOp() {
  return Unary("Neg", "Gives -x.", kSignedAndComplexTypes, [](GradientContext& g) -> Status {
    g.set_input_grad(0, Neg(g, g.grad(0)));
    return OkStatus();
  });
}

OpDef SquareOp() {
  return Unary("Square", "Gives x * x.",
               "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
               "complex64, "
               "complex128}",
               [](GradientContext& g) -> Status {
                 WEIR_RETURN_IF_ERROR(CheckReal(g));
                 return SetScaled(g, Mul(g, g.Constant(g.input(0).dtype(), 2), g.input(0)));
               });
}

OpDef SqrtOp() {
  return Unary("Sqrt", "Gives the square root of x.", kFloatAndComplexTypes,
               [](GradientContext& g) -> Status {
                 WEIR_RETURN_IF_ERROR(CheckReal(g));
                 return SetScaled(g, Div(g, g.Constant(g.input(0).dtype(), 0.5), g.output(0)));
               });
}

OpDef RsqrtOp() {
  return Unary("Rsqrt", "Gives 1 / sqrt(x).", kFloatAndComplexTypes, [](GradientContext& g) -> Status {
    WEIR_RETURN_IF_ERROR(CheckReal(g));
    const Output y = g.output(0);
    return SetScaled(g, Mul(g, g.Constant(y.dtype(), -0.5), Mul(g, y, g.Add("Square", {y}))));
  });
}

OpDef ReciprocalOp() {
  return Unary("Reciprocal", "Gives 1 / x.", kSignedAndComplexTypes, [](GradientContext& g) -> Status {
    WEIR_RETURN_IF_ERROR(CheckReal(g));
    return SetScaled(g, Neg(g, g.Add("Square", {g.output(0)})));
  });
}

OpDef ExpOp() {
  return Unary("Exp", "Gives e to the power of x.", kFloatAndComplexTypes, [](GradientContext& g) -> Status {
    WEIR_RETURN_IF_ERROR(CheckReal(g));
    return SetScaled(g, g.output(0));
  });
}

OpDef LogOp() {
  return Unary("Log", "Gives the natural logarithm of x.", kFloatAndComplexTypes,
               [](GradientContext& g) -> Status {
                 WEIR_RETURN_IF_ERROR(CheckReal(g));
                 g.set_input_grad(0, Div(g, g.grad(0), g.input(0)));
                 return OkStatus();
               });
}

OpDef Log1pOp() {
  return Unary("Log1p", "Gives log(1 + x), exact for small x.", kFloatAndComplexTypes,
               [](GradientContext& g) -> Status {
                 WEIR_RETURN_IF_ERROR(CheckReal(g));
                 g.set_input_grad(0, Div(g, g.grad(0), Add(g, One(g, g.input(0)), g.input(0))));
                 return OkStatus();
               });
}

OpDef AbsOp() {
  return Unary("Abs", "Gives the absolute value of x.",
               "T: {bfloat16, half, float, double, int8, int16, int32, int64}",
               [](GradientContext& g) -> Status { return SetScaled(g, g.Add("Sign", {g.input(0)})); });
}

OpDef SignOp() {
  return Unary("Sign", "Gives -1, 0 or 1 as x is negative, zero or positive.", kSignedAndComplexTypes,
               [](GradientContext& g) -> Status {
                 g.set_input_grad(0, ZerosLike(g, g.input(0)));
                 return OkStatus();
               });
}

OpDef FloorOp() {
  return Unary("Floor", "Gives the largest integer that is not larger than x.", kFloatTypes,
               NotDifferentiable);
}

OpDef TanhOp() {
  return Unary("Tanh", "Gives the hyperbolic tangent of x.", kFloatAndComplexTypes,
               [](GradientContext& g) -> Status {
                 WEIR_RETURN_IF_ERROR(CheckReal(g));
                 g.set_input_grad(0, g.Add("TanhGrad", {g.output(0), g.grad(0)}));
                 return OkStatus();
               });
}

OpDef SigmoidOp() {
  return Unary("Sigmoid", "Gives 1 / (1 + exp(-x)).", kFloatAndComplexTypes,
               [](GradientContext& g) -> Status {
                 WEIR_RETURN_IF_ERROR(CheckReal(g));
                 g.set_input_grad(0, g.Add("SigmoidGrad", {g.output(0), g.grad(0)}));
                 return OkStatus();
               });
}

// z = dy * f'(x), expressed by y = f(x); y and dy have one shape.
OpDef FusedGrad(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"y: T", "dy: T"},
          .outputs = {"z: T"},
          .attrs = {kFloatAndComplexTypes},
          .is_elementwise = true,
          .infer_shapes = MergedShape,
          .gradient = gradient};
}

OpDef TanhGradOp() {
  return FusedGrad("TanhGrad", "Gives dy * (1 - y * y): the gradient of Tanh.",
                   [](GradientContext& g) -> Status {
                     WEIR_RETURN_IF_ERROR(CheckReal(g));
                     const Output y = g.input(0), dy = g.input(1);
                     g.set_input_grad(0, Scale(g, -2, Mul(g, Mul(g, g.grad(0), dy), y)));
                     g.set_input_grad(1, g.Add("TanhGrad", {y, g.grad(0)}));
                     return OkStatus();
                   });
}

OpDef SigmoidGradOp() {
  return FusedGrad("SigmoidGrad", "Gives dy * y * (1 - y): the gradient of Sigmoid.",
                   [](GradientContext& g) -> Status {
                     WEIR_RETURN_IF_ERROR(CheckReal(g));
                     const Output y = g.input(0), dy = g.input(1);
                     const Output slope = Sub(g, One(g, y), Scale(g, 2, y));
                     g.set_input_grad(0, Mul(g, Mul(g, g.grad(0), dy), slope));
                     g.set_input_grad(1, g.Add("SigmoidGrad", {y, g.grad(0)}));
                     return OkStatus();
                   });
}

// ---- Questions ----

OpDef Comparison(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"x: T", "y: T"},
          .outputs = {"z: bool"},
          .attrs = {kRealTypes},
          .is_elementwise = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = NotDifferentiable};
}

OpDef LessOp() { return Comparison("Less", "Gives x < y."); }
OpDef LessEqualOp() { return Comparison("LessEqual", "Gives x <= y."); }
OpDef GreaterOp() { return Comparison("Greater", "Gives x > y."); }
OpDef GreaterEqualOp() { return Comparison("GreaterEqual", "Gives x >= y."); }

// With incompatible_shape_error = false, tensors whose shapes do not broadcast are one unequal whole.
Status EqualityShape(ShapeInference& s) {
  if (s.attr<bool>("incompatible_shape_error")) return BroadcastBinaryShape(s);
  auto shape = ShapeInference::Broadcast(s.input(0), s.input(1));
  if (shape.ok() && s.input(0).is_fully_known() && s.input(1).is_fully_known())
    s.set_output(0, *std::move(shape));
  if (!shape.ok()) s.set_output(0, Shape());
  return OkStatus();
}

OpDef Equality(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"x: T", "y: T"},
          .outputs = {"z: bool"},
          .attrs = {"T: type", "incompatible_shape_error: bool = true"},
          .is_elementwise = true,
          .is_commutative = true,
          .infer_shapes = EqualityShape,
          .gradient = NotDifferentiable};
}

OpDef EqualOp() { return Equality("Equal", "Gives x == y."); }
OpDef NotEqualOp() { return Equality("NotEqual", "Gives x != y."); }

OpDef Logical(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"x: bool", "y: bool"},
          .outputs = {"z: bool"},
          .is_elementwise = true,
          .is_commutative = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = NotDifferentiable};
}

OpDef LogicalAndOp() { return Logical("LogicalAnd", "Gives true where x and y are."); }
OpDef LogicalOrOp() { return Logical("LogicalOr", "Gives true where x or y is."); }

OpDef LogicalNotOp() {
  return {.name = "LogicalNot",
          .summary = "Gives true where x is false.",
          .inputs = {"x: bool"},
          .outputs = {"y: bool"},
          .is_elementwise = true,
          .infer_shapes = UnchangedShape,
          .gradient = NotDifferentiable};
}

OpDef NumberTest(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"x: T"},
          .outputs = {"y: bool"},
          .attrs = {kFloatTypes},
          .is_elementwise = true,
          .infer_shapes = UnchangedShape,
          .gradient = NotDifferentiable};
}

OpDef IsFiniteOp() { return NumberTest("IsFinite", "Gives true where x is neither infinite nor NaN."); }
OpDef IsNanOp() { return NumberTest("IsNan", "Gives true where x is NaN."); }

// ---- Reductions ----

OpDef Reduction(std::string name, std::string summary, std::string types, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"input: T", "reduction_indices: Tidx"},
          .outputs = {"output: T"},
          .attrs = {"keep_dims: bool = false", std::move(types), kIndexTypes},
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

OpDef SumOp() {
  return Reduction("Sum", "Adds up the elements along some axes.", kNumberTypes,
                   [](GradientContext& g) -> Status {
                     g.set_input_grad(0, BroadcastToInput(g, g.grad(0)));
                     return OkStatus();
                   });
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

OpDef MeanOp() {
  return Reduction("Mean", "Gives the mean of the elements along some axes.", kNumberTypes,
                   [](GradientContext& g) -> Status {
                     g.set_input_grad(0, BroadcastToInput(g, Div(g, g.grad(0), ElementsPerMean(g))));
                     return OkStatus();
                   });
}

// The gradient of x_i is the product of the others: z / x_i, but exact where elements are zero. With one zero
// among the factors only its own gradient is not 0, with more of them none.
Status ProdGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output x = g.input(0);
  const Output zero = Zero(g, x), one = One(g, x);
  const Output is_zero = g.Add("Equal", {x, zero});
  const Output others = Select(g, is_zero, one, x);
  const AttrMap keep = {{"keep_dims", true}};
  const Output product = g.Add("Prod", {others, g.input(1)}, keep);
  const Output zeros = Sum(g, Cast(g, is_zero, x.dtype()), g.input(1), /*keep_dims=*/true);
  const Output at_zero = Select(g, g.Add("Equal", {zeros, one}), product, zero);
  const Output elsewhere = Select(g, g.Add("Equal", {zeros, zero}), Div(g, product, others), zero);
  g.set_input_grad(0, Mul(g, WithReducedAxes(g, g.grad(0)), Select(g, is_zero, at_zero, elsewhere)));
  return OkStatus();
}

OpDef ProdOp() {
  return Reduction("Prod", "Multiplies the elements along some axes.", kNumberTypes, ProdGradient);
}

// Elements that equal the extreme share its gradient.
Status ExtremeGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output is_extreme = Cast(g, g.Add("Equal", {x, WithReducedAxes(g, g.output(0))}), x.dtype());
  const Output count = Sum(g, is_extreme, g.input(1), /*keep_dims=*/true);
  g.set_input_grad(0, Mul(g, Div(g, is_extreme, count), WithReducedAxes(g, g.grad(0))));
  return OkStatus();
}

OpDef MaxOp() {
  return Reduction("Max", "Gives the largest element along some axes.", kRealTypes, ExtremeGradient);
}
OpDef MinOp() {
  return Reduction("Min", "Gives the smallest element along some axes.", kRealTypes, ExtremeGradient);
}

OpDef LogicalReduction(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"input: bool", "reduction_indices: Tidx"},
          .outputs = {"output: bool"},
          .attrs = {"keep_dims: bool = false", kIndexTypes},
          .infer_shapes = ReductionShape,
          .gradient = NotDifferentiable};
}

OpDef AllOp() { return LogicalReduction("All", "Gives true where all elements along some axes are true."); }
OpDef AnyOp() { return LogicalReduction("Any", "Gives true where some element along some axes is true."); }

OpDef ArgMaxOp() {
  return {
      .name = "ArgMax",
      .summary = "Gives the index of the largest element along an axis, the first of equals.",
      .inputs = {"input: T", "dimension: Tidx"},
      .outputs = {"output: output_type"},
      .attrs = {"T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
                "uint64, bool}",
                "Tidx: {int16, int32, int64} = int32", "output_type: {int16, uint16, int32, int64} = int64"},
      .infer_shapes = [](ShapeInference& s) -> Status {
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
      },
      .gradient = NotDifferentiable};
}

OpDef L2LossOp() {
  return {.name = "L2Loss",
          .summary = "Gives half the sum of the squares of all elements.",
          .inputs = {"t: T"},
          .outputs = {"output: T"},
          .attrs = {"T: {half, bfloat16, float, double}"},
          .infer_shapes = ScalarShape,
          .gradient = [](GradientContext& g) -> Status { return SetScaled(g, g.input(0)); }};
}

// ---- Matrix product ----

Status MatMulShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape a, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRank(1, 2));
  const bool transpose_a = s.attr<bool>("transpose_a"), transpose_b = s.attr<bool>("transpose_b");
  const int64_t inner_a = a.dim(transpose_a ? 0 : 1), inner_b = b.dim(transpose_b ? 1 : 0);
  if (!s.MergeDims(inner_a, inner_b).ok()) {
    return InvalidArgumentError(StrCat("inner dimensions differ: a is ", a.ToString(),
                                       transpose_a ? " (transpose_a)" : "", ", b is ", b.ToString(),
                                       transpose_b ? " (transpose_b)" : ""));
  }
  return SetOutputDims(s, 0, {a.dim(transpose_a ? 1 : 0), b.dim(transpose_b ? 0 : 1)});
}

Output Product(GradientContext& g, Output a, Output b, bool transpose_a, bool transpose_b) {
  return g.Add("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// With C = AB: dA = dC B', dB = A' dC; a transposed input gets the transpose of that.
Status MatMulGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output a = g.input(0), b = g.input(1), dc = g.grad(0);
  const bool transpose_a = g.attr<bool>("transpose_a"), transpose_b = g.attr<bool>("transpose_b");
  g.set_input_grad(
      0, transpose_a ? Product(g, b, dc, transpose_b, true) : Product(g, dc, b, false, !transpose_b));
  g.set_input_grad(
      1, transpose_b ? Product(g, dc, a, true, transpose_a) : Product(g, a, dc, !transpose_a, false));
  return OkStatus();
}

OpDef MatMulOp() {
  return {
      .name = "MatMul",
      .summary = "Multiplies matrix a by matrix b, each transposed first if asked.",
      .inputs = {"a: T", "b: T"},
      .outputs = {"product: T"},
      .attrs = {"transpose_a: bool = false", "transpose_b: bool = false",
                "T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, complex64, "
                "complex128}",
                "grad_a: bool = false", "grad_b: bool = false"},
      .infer_shapes = MatMulShape,
      .gradient = MatMulGradient};
}

}  // namespace

Status RegisterMathOps(OpRegistry& registry) {
  return RegisterAll(registry, {AddOp(),
                                AddV2Op(),
                                AddNOp(),
                                SubOp(),
                                MulOp(),
                                DivOp(),
                                RealDivOp(),
                                DivNoNanOp(),
                                FloorDivOp(),
                                FloorModOp(),
                                SquaredDifferenceOp(),
                                MaximumOp(),
                                MinimumOp(),
                                PowOp(),
                                NegOp(),
                                SquareOp(),
                                SqrtOp(),
                                RsqrtOp(),
                                ReciprocalOp(),
                                ExpOp(),
                                LogOp(),
                                Log1pOp(),
                                AbsOp(),
                                SignOp(),
                                FloorOp(),
                                TanhOp(),
                                SigmoidOp(),
                                TanhGradOp(),
                                SigmoidGradOp(),
                                LessOp(),
                                LessEqualOp(),
                                GreaterOp(),
                                GreaterEqualOp(),
                                EqualOp(),
                                NotEqualOp(),
                                LogicalAndOp(),
                                LogicalOrOp(),
                                LogicalNotOp(),
                                IsFiniteOp(),
                                IsNanOp(),
                                SumOp(),
                                MeanOp(),
                                ProdOp(),
                                MaxOp(),
                                MinOp(),
                                AllOp(),
                                AnyOp(),
                                ArgMaxOp(),
                                L2LossOp(),
                                MatMulOp()});
}

}  // namespace weir
