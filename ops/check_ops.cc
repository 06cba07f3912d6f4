// Ops that fail a step when something is wrong.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

OpDef CheckNumericsOp() {
  return {.name = "CheckNumerics",
          .summary = "Gives its input, or fails with the message when an element is infinite or NaN.",
          .inputs = {"tensor: T"},
          .outputs = {"output: T"},
          .attrs = {"T: {bfloat16, half, float, double}", "message: string"},
          .is_stateful = true,
          .infer_shapes = UnchangedShape,
          .gradient = [](GradientContext& g) -> Status {
            const std::string message = "in the gradient of: ";
            g.set_input_grad(0, g.Add("CheckNumerics", {g.grad(0)},
                                      {{"message", message + g.attr<std::string>("message")}}));
            return OkStatus();
          }};
}

OpDef AssertOp() {
  return {.name = "Assert",
          .summary = "Fails, showing some elements of data, when the condition is false.",
          .inputs = {"condition: bool", "data: T"},
          .attrs = {"T: list(type) >= 1", "summarize: int = 3"},
          .is_stateful = true,
          .infer_shapes = [](ShapeInference& s) { return s.WithRank(0, 0).status(); },
          .gradient = NotDifferentiable};
}

}  // namespace

Status RegisterCheckOps(OpRegistry& registry) {
  return RegisterAll(registry, {CheckNumericsOp(), AssertOp()});
}

}  // namespace weir
