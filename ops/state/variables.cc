// Variables: handles, reading, assigning.
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

OpDef Assignment(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = [](ShapeInference& s) { return CheckFitsVariable(s, 0, 1); },
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> VariablesOps() {
  return {
      {.name = "VarHandleOp",
       .summary =
           "Gives the handle of a variable, which is shared by all handles of the same container and name.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(ScalarShape(s));
         s.set_output_resource(0, {s.attr<DType>("dtype"), s.attr<PartialShape>("shape")});
         return OkStatus();
       },
       .gradient = NotDifferentiable},
      {.name = "ReadVariableOp",
       .summary = "Gives the value of a variable.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
         WEIR_RETURN_IF_ERROR(CheckDType(s, 0, s.attr<DType>("dtype")));
         s.set_output(0, VariableType(s, 0).shape);
         return OkStatus();
       },
       // The handle stands for the variable: what flows into the value is the variable's gradient.
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.flow(0));
         return OkStatus();
       }},
      Assignment("AssignVariableOp", "Sets a variable, and makes it if need be."),
      Assignment("AssignAddVariableOp", "Adds to a variable."),
      Assignment("AssignSubVariableOp", "Subtracts from a variable."),
      {.name = "VarIsInitializedOp",
       .summary = "Gives whether a variable has been set.",
       .infer_shapes = ScalarShape,
       .gradient = NotDifferentiable},
      {.name = "DisableCopyOnRead",
       .summary = "Does nothing: reads of a variable never copy it.",
       .infer_shapes = NoOutputs,
       .gradient = NotDifferentiable},
      {.name = "DestroyResourceOp",
       .summary = "Deletes the resource behind a handle.",
       .infer_shapes = NoOutputs,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
