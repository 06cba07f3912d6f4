// Ops that fail a step when something is wrong.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {}  // namespace

std::vector<OpDef> ChecksOps() {
  return {
      {.name = "CheckNumerics",
       .summary = "Gives its input, or fails with the message when an element is infinite or NaN.",
       .infer_shapes = UnchangedShape,
       .gradient = [](GradientContext& g) -> Status {
         const std::string message = "in the gradient of: ";
         g.set_input_grad(
             0, g.Add("CheckNumerics", {g.grad(0)}, {{"message", message + g.attr<std::string>("message")}}));
         return OkStatus();
       }},
      {.name = "Assert",
       .summary = "Fails, showing some elements of data, when the condition is false.",
       .infer_shapes = [](ShapeInference& s) { return s.WithRank(0, 0).status(); },
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
