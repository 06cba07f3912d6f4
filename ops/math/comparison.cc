// Comparison and logic, of numbers, truth values and bits.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/elementwise_op.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

OpDef Comparison(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = NotDifferentiable};
}

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
          .is_elementwise = true,
          .infer_shapes = EqualityShape,
          .gradient = NotDifferentiable};
}

OpDef Logical(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = NotDifferentiable};
}

OpDef Bitwise(std::string name, std::string summary) {
  return Binary(std::move(name), std::move(summary), NotDifferentiable);
}

OpDef NumberTest(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = UnchangedShape,
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> ComparisonOps() {
  return {
      Comparison("Less", "Gives x < y."),
      Comparison("LessEqual", "Gives x <= y."),
      Comparison("Greater", "Gives x > y."),
      Comparison("GreaterEqual", "Gives x >= y."),
      Equality("Equal", "Gives x == y."),
      Equality("NotEqual", "Gives x != y."),
      {.name = "ApproximateEqual",
       .summary = "Gives true where x and y, of one shape, differ by less than the tolerance.",
       .is_elementwise = true,
       .infer_shapes = MergedShape,
       .gradient = NotDifferentiable},
      Logical("LogicalAnd", "Gives true where x and y are."),
      Logical("LogicalOr", "Gives true where x or y is."),
      {.name = "LogicalNot",
       .summary = "Gives true where x is false.",
       .is_elementwise = true,
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      NumberTest("IsFinite", "Gives true where x is neither infinite nor NaN."),
      NumberTest("IsInf", "Gives true where x is infinite."),
      NumberTest("IsNan", "Gives true where x is NaN."),
      Bitwise("BitwiseAnd", "Gives the bits that x and y both have."),
      Bitwise("BitwiseOr", "Gives the bits that x or y has."),
      Bitwise("BitwiseXor", "Gives the bits that only one of x and y has."),
      Bitwise("LeftShift", "Gives x with its bits moved up by y; y is limited to the bits of x."),
      Bitwise("RightShift",
              "Gives x with its bits moved down by y; the sign stays, y is limited to the bits of x."),
      NumberTest("Invert", "Gives x with every bit changed."),
      NumberTest("PopulationCount", "Gives how many bits of x are 1."),
  };
}

}  // namespace weir
