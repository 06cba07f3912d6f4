// Variables of one step.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/variable_shapes.h"

namespace weir {
namespace {

Status HandleShape(ShapeInference& s) {
  s.set_output(0, Shape());
  s.set_output_resource(0, {s.attr<DType>("dtype"), s.attr<PartialShape>("shape")});
  return OkStatus();
}

Status ValueShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_RETURN_IF_ERROR(CheckDType(s, 0, s.attr<DType>("dtype")));
  s.set_output(0, VariableType(s, 0).shape);
  return OkStatus();
}

}  // namespace

std::vector<OpDef> TemporaryVariablesOps() {
  return {
      {.name = "WeirTemporaryVariable",
       .summary = "Gives the handle of a variable of zeros, which is there until it is destroyed or its step "
                  "has ended.",
       .outputs = {"handle: resource"},
       .attrs = {"shape: shape", "dtype: type", "var_name: string = ''"},
       .is_stateful = true,
       .infer_shapes = HandleShape,
       .gradient = NotDifferentiable},
      {.name = "WeirDestroyTemporaryVariable",
       .summary = "Gives the last value of the step's variable of that name, whose name is free then.",
       .inputs = {"handle: resource"},
       .outputs = {"value: dtype"},
       .attrs = {"dtype: type", "var_name: string"},
       .is_stateful = true,
       .infer_shapes = ValueShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
