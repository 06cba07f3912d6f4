// The update rules of optimizers: ResourceApply* changes variables in place, ResourceSparseApply* some of
// their rows.
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

// Input `gradient` has a row for each of the indices, shaped like those of the variable behind `handle`.
Status CheckRows(ShapeInference& s, int handle, int gradient, int indices) {
  WEIR_RETURN_IF_ERROR(s.WithRank(handle, 0).status());
  WEIR_RETURN_IF_ERROR(CheckDType(s, handle, s.input_type(gradient)));
  WEIR_ASSIGN_OR_RETURN(const PartialShape ids, s.WithRank(indices, 1));
  const PartialShape& variable = VariableType(s, handle).shape;
  if (!variable.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(variable);
  if (!dims.empty()) dims[0] = ids.has_rank() ? ids.dim(0) : kUnknown;
  WEIR_ASSIGN_OR_RETURN(const PartialShape wanted, PartialShape::FromDims(dims));
  if (!dims.empty() && wanted.IsCompatibleWith(s.input(gradient))) return OkStatus();
  return InvalidArgumentError(StrCat(s.input_name(gradient), " is ", s.input(gradient).ToString(),
                                     " for rows ", ids.ToString(), " of the variable behind ",
                                     s.input_name(handle), ", which is ", variable.ToString()));
}

// Handles of variables of one type first, then scalars, one gradient, and the indices of a sparse rule.
Status UpdateShape(ShapeInference& s) {
  int gradient = -1, indices = -1;
  for (int i = 0; i < s.num_inputs(); ++i) {
    const std::string name = s.input_name(i);
    if (name == "grad" || name == "delta") gradient = i;
    if (name == "indices") indices = i;
  }
  for (int i = 0; i < s.num_inputs(); ++i) {
    if (s.input_type(i) == DType::kResource) {
      WEIR_RETURN_IF_ERROR(indices < 0 ? CheckFitsVariable(s, i, gradient)
                                       : CheckRows(s, i, gradient, indices));
    } else if (i != gradient && i != indices) {
      WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
    }
  }
  return OkStatus();
}

OpDef Rule(std::string op, std::string summary) {
  return {.name = std::move(op),
          .summary = std::move(summary),
          .infer_shapes = UpdateShape,
          .gradient = NotDifferentiable};
}

// Adds a rule for whole variables, and one of the same formula for some of their rows.
void AddBoth(const std::string& name, const std::string& summary, std::vector<OpDef>& ops) {
  ops.push_back(Rule("ResourceApply" + name, summary));
  ops.push_back(Rule("ResourceSparseApply" + name, StrCat("For the rows that indices name: ", summary)));
}

}  // namespace

std::vector<OpDef> UpdateRulesOps() {
  std::vector<OpDef> ops = {
      Rule("ResourceApplyGradientDescent", "Subtracts alpha * delta from a variable."),
      Rule("ResourceApplyAdam",
           "m += (1 - beta1) * (grad - m); v += (1 - beta2) * (grad^2 - v); var -= lr * sqrt(1 - "
           "beta2_power) / "
           "(1 - beta1_power) * m / (sqrt(v) + epsilon)."),
      Rule("ResourceApplyAdamWithAmsgrad",
           "Adam, divided by the root of the largest v so far, which is vhat."),
      Rule("ResourceApplyAdaMax",
           "m += (1 - beta1) * (grad - m); v = max(beta2 * v, |grad|); var -= lr / (1 - beta1_power) * m / "
           "(v + "
           "epsilon)."),
      Rule("ResourceApplyAddSign",
           "m = beta * m + (1 - beta) * grad; var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * "
           "grad."),
      Rule("ResourceApplyPowerSign",
           "m = beta * m + (1 - beta) * grad; var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * "
           "grad."),
  };
  AddBoth(
      "Momentum",
      "accum = accum * momentum + grad; var -= lr * accum, or with Nesterov's momentum lr * (grad + momentum "
      "* accum).",
      ops);
  AddBoth(
      "KerasMomentum",
      "accum = accum * momentum - lr * grad; var += accum, or with Nesterov's momentum momentum * accum - lr "
      "* grad.",
      ops);
  AddBoth("Adagrad", "accum += grad^2; var -= lr * grad / sqrt(accum).", ops);
  AddBoth("AdagradV2", "accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon).", ops);
  AddBoth(
      "AdagradDA",
      "Adagrad with dual averaging: gradient_accumulator += grad; gradient_squared_accumulator += grad^2; "
      "var "
      "steps from zero along the sum of all gradients, shrunk by l1 and l2 for each of global_step steps.",
      ops);
  AddBoth(
      "RMSProp",
      "ms += (1 - rho) * (grad^2 - ms); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom.",
      ops);
  AddBoth(
      "CenteredRMSProp",
      "mg += (1 - rho) * (grad - mg); ms += (1 - rho) * (grad^2 - ms); mom = momentum * mom + lr * grad / "
      "sqrt(ms - mg^2 + epsilon); var -= mom.",
      ops);
  AddBoth("Adadelta",
          "accum = rho * accum + (1 - rho) * grad^2; update = sqrt(accum_update + epsilon) / sqrt(accum + "
          "epsilon) * grad; accum_update = rho * accum_update + (1 - rho) * update^2; var -= lr * update.",
          ops);
  AddBoth("Ftrl", "Follows the regularized leader, with l1, l2 and a learning rate for each element.", ops);
  AddBoth("FtrlV2", "Ftrl of a gradient that pulls the variable towards zero: grad + 2 * l2_shrinkage * var.",
          ops);
  AddBoth("ProximalGradientDescent",
          "prox = var - alpha * grad; var = sign(prox) * max(|prox| - alpha * l1, 0) / (1 + alpha * l2).",
          ops);
  AddBoth("ProximalAdagrad", "Proximal gradient descent with Adagrad's learning rate.", ops);
  return ops;
}

}  // namespace weir
