#include "ops/losses/regression.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/losses/operands.h"
#include "ops/standard_ops.h"

namespace weir::losses {
namespace {

// The weighted loss of what `compare` gives for labels and predictions in float.
Output Compare(GraphBuilder& g, absl::string_view name, Output labels, Output predictions,
               const LossOptions& options, SourceLocation where,
               const std::function<Output(Output labels, Output predictions)>& compare) {
  const LossOptions named = Named(options, name);
  if (!CheckSameShapes(g, named.name, labels, predictions, where)) return {};
  const auto scope = g.NameScope(named.name);
  const Output found = CastTo(g, predictions, DType::kFloat32, where);
  const Output losses = compare(CastTo(g, labels, DType::kFloat32, where), found);
  return Weigh(g, losses, named, where);
}

}  // namespace

Output AbsoluteDifference(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options,
                          SourceLocation where) {
  return Compare(g, "absolute_difference", labels, predictions, options, where,
                 [&](Output y, Output x) { return Abs(g, Sub(g, x, y, {}, where), {}, where); });
}

Output MeanSquaredError(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options,
                        SourceLocation where) {
  return Compare(g, "mean_squared_error", labels, predictions, options, where,
                 [&](Output y, Output x) { return SquaredDifference(g, x, y, {}, where); });
}

Output HuberLoss(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options, double delta,
                 SourceLocation where) {
  if (CheckFinite(g, "huber_loss", {{"delta", delta}}, where) && delta < 0) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("huber_loss: delta must not be negative, is ", delta)),
               where);
  }
  return Compare(g, "huber_loss", labels, predictions, options, where, [&](Output y, Output x) {
    const Output limit = Const(g, static_cast<float>(delta), {}, where);
    const Output distance = Abs(g, Sub(g, x, y, {}, where), {}, where);
    const Output quadratic = Minimum(g, distance, limit, {}, where);
    const Output linear = Sub(g, distance, quadratic, {}, where);
    const Output half = Mul(g, Const(g, 0.5f, {}, where), Mul(g, quadratic, quadratic, {}, where), {}, where);
    return AddV2(g, half, Mul(g, limit, linear, {}, where), {}, where);
  });
}

Output CosineDistance(GraphBuilder& g, Output labels, Output predictions, int axis,
                      const LossOptions& options, SourceLocation where) {
  return Compare(g, "cosine_distance_loss", labels, predictions, options, where, [&](Output y, Output x) {
    const Output products = Mul(g, x, y, {}, where);
    const Output sum = ReduceSum(g, products, {axis}, {.keep_dims = true}, where);
    return Sub(g, Const(g, 1.0f, {}, where), sum, {}, where);
  });
}

}  // namespace weir::losses
