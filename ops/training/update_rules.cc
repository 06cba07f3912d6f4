// The update rules of optimizers: ResourceApply* changes variables in place.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/variable_shapes.h"

namespace weir {
namespace {

// The inputs of an update rule: handles of one variable type first, scalars and one gradient after them.
Status UpdateShape(ShapeInference& s, int num_handles, int gradient) {
  for (int i = 0; i < num_handles; ++i) WEIR_RETURN_IF_ERROR(CheckFitsVariable(s, i, gradient));
  for (int i = num_handles; i < s.num_inputs(); ++i) {
    if (i != gradient) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  }
  return OkStatus();
}

}  // namespace

std::vector<OpDef> UpdateRuleOps() {
  return {
      {.name = "ResourceApplyGradientDescent",
       .summary = "Subtracts alpha * delta from a variable.",
       .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 1, 2); },
       .gradient = NotDifferentiable},
      {.name = "ResourceApplyMomentum",
       .summary =
           "accum = accum * momentum + grad; var -= lr * accum, or with Nesterov's momentum lr * (grad + "
           "momentum "
           "* accum).",
       .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 2, 3); },
       .gradient = NotDifferentiable},
      {.name = "ResourceApplyKerasMomentum",
       .summary =
           "accum = accum * momentum - lr * grad; var += accum, or with Nesterov's momentum momentum * "
           "accum - lr "
           "* grad.",
       .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 2, 3); },
       .gradient = NotDifferentiable},
      {.name = "ResourceApplyAdam",
       .summary = "m += (1 - beta1) * (grad - m); v += (1 - beta2) * (grad^2 - v); var -= lr * sqrt(1 - "
                  "beta2_power) / (1 "
                  "- beta1_power) * m / (sqrt(v) + epsilon).",
       .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 3, 9); },
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
