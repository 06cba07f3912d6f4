// Variables: handles, reading, assigning, and the update rules of optimizers.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The type of the variable behind a handle; unknown for a handle from elsewhere.
ResourceType VariableType(const ShapeInference& s, int input) {
  return s.input_resource(input).value_or(ResourceType());
}

Status CheckDType(const ShapeInference& s, int handle, DType dtype) {
  const DType variable = VariableType(s, handle).dtype;
  if (variable == DType::kInvalid || variable == dtype) return OkStatus();
  return InvalidArgumentError(StrCat("dtypes differ: the variable behind ", s.input_name(handle), " is ",
                                     DTypeName(variable), ", the op's is ", DTypeName(dtype)));
}

// That input `value` has the dtype and may have the shape of the variable behind input `handle`.
Status CheckFitsVariable(const ShapeInference& s, int handle, int value) {
  WEIR_RETURN_IF_ERROR(s.WithRank(handle, 0).status());
  WEIR_RETURN_IF_ERROR(CheckDType(s, handle, s.input_type(value)));
  const PartialShape shape = VariableType(s, handle).shape;
  if (shape.IsCompatibleWith(s.input(value))) return OkStatus();
  return InvalidArgumentError(StrCat("shapes differ: the variable behind ", s.input_name(handle), " is ",
                                     shape.ToString(), ", ", s.input_name(value), " is ",
                                     s.input(value).ToString()));
}

OpDef VarHandleOp() {
  return {
      .name = "VarHandleOp",
      .summary =
          "Gives the handle of a variable, which is shared by all handles of the same container and name.",
      .outputs = {"resource: resource"},
      .attrs = {"container: string = ''", "shared_name: string = ''", "debug_name: string = ''",
                "dtype: type", "shape: shape", "allowed_devices: list(string) = []"},
      .is_stateful = true,
      .infer_shapes = [](ShapeInference& s) -> Status {
        WEIR_RETURN_IF_ERROR(ScalarShape(s));
        s.set_output_resource(0, {s.attr<DType>("dtype"), s.attr<PartialShape>("shape")});
        return OkStatus();
      },
      .gradient = NotDifferentiable};
}

OpDef ReadVariableOp() {
  return {.name = "ReadVariableOp",
          .summary = "Gives the value of a variable.",
          .inputs = {"resource: resource"},
          .outputs = {"value: dtype"},
          .attrs = {"dtype: type"},
          .is_stateful = true,
          .infer_shapes = [](ShapeInference& s) -> Status {
            WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
            WEIR_RETURN_IF_ERROR(CheckDType(s, 0, s.attr<DType>("dtype")));
            s.set_output(0, VariableType(s, 0).shape);
            return OkStatus();
          },
          // The handle stands for the variable: what flows into the value is the variable's gradient.
          .gradient = [](GradientContext& g) -> Status {
            g.set_input_grad(0, g.grad(0));
            return OkStatus();
          }};
}

OpDef Assignment(std::string name, std::string summary, std::vector<std::string> attrs) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .inputs = {"resource: resource", "value: dtype"},
          .attrs = std::move(attrs),
          .is_stateful = true,
          .infer_shapes = [](ShapeInference& s) { return CheckFitsVariable(s, 0, 1); },
          .gradient = NotDifferentiable};
}

OpDef AssignVariableOp() {
  return Assignment("AssignVariableOp", "Sets a variable, and makes it if need be.",
                    {"dtype: type", "validate_shape: bool = false"});
}

OpDef AssignAddVariableOp() {
  return Assignment("AssignAddVariableOp", "Adds to a variable.", {"dtype: type"});
}
OpDef AssignSubVariableOp() {
  return Assignment("AssignSubVariableOp", "Subtracts from a variable.", {"dtype: type"});
}

OpDef VarIsInitializedOp() {
  return {.name = "VarIsInitializedOp",
          .summary = "Gives whether a variable has been set.",
          .inputs = {"resource: resource"},
          .outputs = {"is_initialized: bool"},
          .is_stateful = true,
          .infer_shapes = ScalarShape,
          .gradient = NotDifferentiable};
}

OpDef DestroyResourceOp() {
  return {.name = "DestroyResourceOp",
          .summary = "Deletes the resource behind a handle.",
          .inputs = {"resource: resource"},
          .attrs = {"ignore_lookup_error: bool = true"},
          .is_stateful = true,
          .infer_shapes = NoOutputs,
          .gradient = NotDifferentiable};
}

// ---- Update rules ----

// The inputs of an update rule: handles of one variable type first, scalars and one gradient after them.
Status UpdateShape(ShapeInference& s, int num_handles, int gradient) {
  for (int i = 0; i < num_handles; ++i) WEIR_RETURN_IF_ERROR(CheckFitsVariable(s, i, gradient));
  for (int i = num_handles; i < s.num_inputs(); ++i) {
    if (i != gradient) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  }
  return OkStatus();
}

OpDef ResourceApplyGradientDescentOp() {
  return {.name = "ResourceApplyGradientDescent",
          .summary = "Subtracts alpha * delta from a variable.",
          .inputs = {"var: resource", "alpha: T", "delta: T"},
          .attrs = {kNumberTypes, "use_locking: bool = false"},
          .is_stateful = true,
          .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 1, 2); },
          .gradient = NotDifferentiable};
}

OpDef ResourceApplyMomentumOp() {
  return {.name = "ResourceApplyMomentum",
          .summary =
              "accum = accum * momentum + grad; var -= lr * accum, or with Nesterov's momentum lr * (grad + "
              "momentum "
              "* accum).",
          .inputs = {"var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"},
          .attrs = {kNumberTypes, "use_locking: bool = false", "use_nesterov: bool = false"},
          .is_stateful = true,
          .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 2, 3); },
          .gradient = NotDifferentiable};
}

OpDef ResourceApplyKerasMomentumOp() {
  return {.name = "ResourceApplyKerasMomentum",
          .summary =
              "accum = accum * momentum - lr * grad; var += accum, or with Nesterov's momentum momentum * "
              "accum - lr "
              "* grad.",
          .inputs = {"var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"},
          .attrs = {kNumberTypes, "use_locking: bool = false", "use_nesterov: bool = false"},
          .is_stateful = true,
          .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 2, 3); },
          .gradient = NotDifferentiable};
}

OpDef ResourceApplyAdamOp() {
  return {.name = "ResourceApplyAdam",
          .summary =
              "m += (1 - beta1) * (grad - m); v += (1 - beta2) * (grad^2 - v); var -= lr * sqrt(1 - "
              "beta2_power) / (1 "
              "- beta1_power) * m / (sqrt(v) + epsilon).",
          .inputs = {"var: resource", "m: resource", "v: resource", "beta1_power: T", "beta2_power: T",
                     "lr: T", "beta1: T", "beta2: T", "epsilon: T", "grad: T"},
          .attrs = {kNumberTypes, "use_locking: bool = false", "use_nesterov: bool = false"},
          .is_stateful = true,
          .infer_shapes = [](ShapeInference& s) { return UpdateShape(s, 3, 9); },
          .gradient = NotDifferentiable};
}

}  // namespace

Status RegisterStateOps(OpRegistry& registry) {
  return RegisterAll(registry, {VarHandleOp(), ReadVariableOp(), AssignVariableOp(), AssignAddVariableOp(),
                                AssignSubVariableOp(), VarIsInitializedOp(), DestroyResourceOp(),
                                ResourceApplyGradientDescentOp(), ResourceApplyMomentumOp(),
                                ResourceApplyKerasMomentumOp(), ResourceApplyAdamOp()});
}

}  // namespace weir
