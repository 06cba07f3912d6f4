#include "ops/training/loss_scale_optimizer.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

Output ValuesOf(const Gradient& gradient) {
  const auto* const rows = std::get_if<IndexedSlices>(&gradient);
  return rows != nullptr ? rows->values : std::get<Output>(gradient);
}

Output CastLike(GraphBuilder& g, Output x, const Output& like, SourceLocation where) {
  return x && like && x.dtype() != like.dtype() ? Cast(g, x, like.dtype(), {}, where) : x;
}

// The gradient times the factor, beside the gradient.
Gradient Scaled(GraphBuilder& g, const Gradient& gradient, Output factor, SourceLocation where) {
  if (IsNull(gradient)) return gradient;
  const Output values = ValuesOf(gradient);
  const auto beside = g.ColocationScope(values.node);
  const Output scaled = Mul(g, values, CastLike(g, factor, values, where), {}, where);
  const auto* const rows = std::get_if<IndexedSlices>(&gradient);
  if (rows == nullptr) return scaled;
  return IndexedSlices{scaled, rows->indices, rows->dense_shape};
}

// Whether no gradient has an infinite element or NaN.
Output AreFinite(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients, SourceLocation where) {
  std::vector<Output> each;
  for (const GradientAndVariable& one : gradients) {
    if (IsNull(one.gradient)) continue;
    const Output values = ValuesOf(one.gradient);
    const auto beside = g.ColocationScope(values.node);
    const Output flat =
        Reshape(g, IsFinite(g, values, {}, where), ConstIntegers(g, {-1}, {}, where), {}, where);
    each.push_back(All(g, flat, Const(g, 0, {}, where), {}, where));
  }
  if (each.empty()) return Const(g, true, {}, where);
  return All(g, Pack(g, each, {}, where), Const(g, 0, {}, where), {}, where);
}

absl::Status CheckRange(const LossScale& scale) {
  const auto check = [](bool is_good, absl::string_view rule, double value) {
    if (is_good) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(rule, ", is ", value));
  };
  if (const auto* const fixed = std::get_if<FixedLossScale>(&scale)) {
    return check(fixed->value >= 1 && std::isfinite(fixed->value),
                 "the loss scale must be at least 1 and finite", fixed->value);
  }
  const auto& dynamic = std::get<DynamicLossScale>(scale);
  WEIR_RETURN_IF_ERROR(check(dynamic.initial_loss_scale >= 1 && std::isfinite(dynamic.initial_loss_scale),
                             "initial_loss_scale must be at least 1 and finite", dynamic.initial_loss_scale));
  WEIR_RETURN_IF_ERROR(check(dynamic.increment_period >= 1, "increment_period must be at least 1",
                             static_cast<double>(dynamic.increment_period)));
  return check(dynamic.multiplier > 1 && std::isfinite(dynamic.multiplier),
               "multiplier must be above 1 and finite", dynamic.multiplier);
}

}  // namespace

LossScaleOptimizer::LossScaleOptimizer(std::unique_ptr<Optimizer> optimizer, LossScale scale)
    : Optimizer("LossScaleOptimizer"), optimizer_(std::move(optimizer)), options_(scale) {}

absl::Status LossScaleOptimizer::MakeScale(GraphBuilder& g, SourceLocation where) {
  if (!g.ok()) return g.status();
  if (scale_) return absl::OkStatus();
  const absl::Status usable =
      optimizer_ == nullptr ? absl::InvalidArgumentError("the optimizer is null") : CheckRange(options_);
  if (!usable.ok()) {
    g.SetError(absl::Status(usable.code(), absl::StrCat(name(), ": ", usable.message())), where);
    return g.status();
  }
  const auto root = g.NameScope("");
  if (const auto* const fixed = std::get_if<FixedLossScale>(&options_)) {
    scale_ = Const(g, static_cast<float>(fixed->value), {.name = "loss_scale"}, where);
    return g.status();
  }
  const auto initial = static_cast<float>(std::get<DynamicLossScale>(options_).initial_loss_scale);
  current_scale_ =
      MakeVariable(g, "current_loss_scale", Tensor::Scalar(initial), {.trainable = false}, where);
  good_steps_ = MakeVariable(g, "good_steps", Tensor::Scalar<int64_t>(0), {.trainable = false}, where);
  scale_ = current_scale_.value;
  return g.status();
}

absl::StatusOr<std::vector<GradientAndVariable>> LossScaleOptimizer::ComputeGradients(
    GraphBuilder& g, Output loss, const GradientOptions& options, SourceLocation where) {
  WEIR_RETURN_IF_ERROR(MakeScale(g, where));
  const Output scaled = Mul(g, loss, CastLike(g, scale_, loss, where), {.name = "scaled_loss"}, where);
  WEIR_ASSIGN_OR_RETURN(std::vector<GradientAndVariable> gradients,
                        optimizer_->ComputeGradients(g, scaled, options, where));
  const Output factor = Reciprocal(g, scale_, {}, where);
  for (GradientAndVariable& one : gradients) one.gradient = Scaled(g, one.gradient, factor, where);
  if (!g.ok()) return g.status();
  return gradients;
}

absl::StatusOr<Node*> LossScaleOptimizer::ApplyGradients(GraphBuilder& g,
                                                         const std::vector<GradientAndVariable>& gradients,
                                                         const ModelVariable& global_step,
                                                         SourceLocation where) {
  WEIR_RETURN_IF_ERROR(MakeScale(g, where));
  if (std::holds_alternative<FixedLossScale>(options_)) {
    return optimizer_->ApplyGradients(g, gradients, global_step, where);
  }
  const Output is_finite = AreFinite(g, gradients, where);
  const SwitchOutputs branch = Switch(g, is_finite, is_finite, {}, where);
  const Output pivot = Identity(g, branch.output_true, {.name = "gradients_are_finite"}, where);
  if (!g.ok()) return g.status();
  Node* update = nullptr;
  {
    // The updates run, and the step counts, only where the pivot does. Slots are made outside of that.
    const auto if_finite = g.ControlScope({pivot.node});
    WEIR_ASSIGN_OR_RETURN(update, optimizer_->ApplyGradients(g, gradients, global_step, where));
  }
  Output applied;
  {
    const auto after_update = g.ControlScope({update});
    applied = Identity(g, pivot, {.name = "applied"}, where);
  }
  const Output skipped = Identity(g, branch.output_false, {.name = "skipped"}, where);
  std::vector<Node*> ends = UpdateScale(g, is_finite, where);
  ends.push_back(NodeOf(Merge(g, {skipped, applied}, {}, where).output));
  Node* const train = Group(g, ends, {.name = name()}, where);
  if (!g.ok()) return g.status();
  g.graph().collections()["train_op"] = {train->name()};
  return train;
}

// Runs after all gradients, and so after all that read the scale for them.
std::vector<Node*> LossScaleOptimizer::UpdateScale(GraphBuilder& g, Output is_finite, SourceLocation where) {
  const auto& options = std::get<DynamicLossScale>(options_);
  const auto beside_scale = g.ColocationScope(current_scale_.handle.node);
  const auto scope = g.NameScope(absl::StrCat(name(), "/loss_scale"));
  const Output scale = current_scale_.value;
  const Output zero = Const(g, int64_t{0}, {}, where);
  const Output next_good = AddV2(g, good_steps_.value, Const(g, int64_t{1}, {}, where), {}, where);
  const Output is_due = GreaterEqual(g, next_good, Const(g, options.increment_period, {}, where), {}, where);
  const Output multiplier = Const(g, static_cast<float>(options.multiplier), {}, where);
  const Output larger = Mul(g, scale, multiplier, {}, where);
  const Output may_grow = LogicalAnd(g, is_due, IsFinite(g, larger, {}, where), {}, where);
  const Output smaller =
      Maximum(g, RealDiv(g, scale, multiplier, {}, where), Const(g, 1.0f, {}, where), {}, where);
  const Output next_scale =
      SelectV2(g, is_finite, SelectV2(g, may_grow, larger, scale, {}, where), smaller, {}, where);
  const Output next_steps = SelectV2(g, LogicalAnd(g, is_finite, LogicalNot(g, is_due, {}, where), {}, where),
                                     next_good, zero, {}, where);
  return {AssignVariableOp(g, current_scale_.handle, next_scale, {}, where),
          AssignVariableOp(g, good_steps_.handle, next_steps, {}, where)};
}

Node* LossScaleOptimizer::Update(GraphBuilder& g, const ModelVariable& variable, Output) {
  g.SetError(
      absl::InternalError(absl::StrCat(name(), ": the wrapped optimizer updates '", variable.name, "'")));
  return nullptr;
}

}  // namespace weir
