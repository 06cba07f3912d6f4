#include "ops/training/local_steps.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "ops/initializers.h"
#include "ops/standard_ops.h"

namespace weir {

ModelVariable MakeLocalVariable(GraphBuilder& g, absl::string_view name, const Output& initial_value,
                                SourceLocation where) {
  const auto root = g.NameScope("");
  Node* const anchor = Group(g, {}, {.name = absl::StrCat(name, "/worker")}, where);
  if (!g.ok()) return {};
  const auto beside_anchor = g.ColocationScope(anchor);
  return MakeVariable(g, name, initial_value, {.trainable = false, .is_local = true}, where);
}

ModelVariable MakeLocalZeros(GraphBuilder& g, const ModelVariable& like, absl::string_view name,
                             SourceLocation where) {
  return MakeLocalVariable(g, absl::StrCat(like.name, "/", name),
                           initializers::Zeros()(g, like.dtype, like.shape), where);
}

ModelVariable MakeLocalStep(GraphBuilder& g, SourceLocation where) {
  return MakeLocalVariable(g, "local_step", Const(g, int64_t{0}, {}, where), where);
}

Node* When(GraphBuilder& g, Output is_due, const std::function<std::vector<Node*>()>& body,
           SourceLocation where) {
  if (!g.ok()) return nullptr;
  const SwitchOutputs branch = Switch(g, is_due, is_due, {}, where);
  const Output pivot = Identity(g, branch.output_true, {.name = "is_due"}, where);
  if (!g.ok()) return nullptr;
  std::vector<Node*> nodes;
  {
    const auto if_due = g.ControlScope({pivot.node});
    nodes = body();
  }
  Output done;
  {
    const auto after = g.ControlScope(nodes);
    done = Identity(g, pivot, {.name = "done"}, where);
  }
  const Output skipped = Identity(g, branch.output_false, {.name = "skipped"}, where);
  return NodeOf(Merge(g, {skipped, done}, {}, where).output);
}

Output IsDue(GraphBuilder& g, Output step, int64_t period, int64_t remainder, SourceLocation where) {
  return Equal(g, FloorMod(g, step, Const(g, period, {}, where), {}, where), Const(g, remainder, {}, where),
               {}, where);
}

absl::StatusOr<Node*> EndLocalStep(GraphBuilder& g, const ModelVariable& step,
                                   const std::vector<Node*>& nodes, SourceLocation where) {
  if (!g.ok()) return g.status();
  const auto beside_step = g.ColocationScope(step.handle.node);
  const Output one = Const(g, int64_t{1}, {}, where);
  const auto after = g.ControlScope(nodes);
  Node* const train = AssignAddVariableOp(g, step.handle, one, {.name = "train"}, where);
  if (!g.ok()) return g.status();
  g.graph().collections()["train_op"] = {train->name()};
  return train;
}

absl::StatusOr<GradientSums> GradientSums::Make(GraphBuilder& g, absl::string_view asker,
                                                const std::vector<GradientAndVariable>& gradients,
                                                absl::string_view name, SourceLocation where) {
  GradientSums made(gradients);
  std::vector<Node*> added;
  for (const auto& [gradient, variable] : gradients) {
    made.sums_.emplace_back();
    if (IsNull(gradient)) continue;
    const Output* const dense = std::get_if<Output>(&gradient);
    if (dense == nullptr) {
      g.SetError(absl::InvalidArgumentError(absl::StrCat(
                     asker, ": the gradient of the variable '", variable.name,
                     "' is of some of its rows: only dense gradients can be added up over several steps")),
                 where);
      return g.status();
    }
    made.sums_.back() = MakeLocalZeros(g, variable, name, where);
    if (!g.ok()) return g.status();
    const auto beside_sum = g.ColocationScope(made.sums_.back().handle.node);
    added.push_back(AssignAddVariableOp(g, made.sums_.back().handle, *dense, {}, where));
  }
  made.added_ = Group(g, added, {.name = "added"}, where);
  if (!g.ok()) return g.status();
  return made;
}

std::vector<GradientAndVariable> GradientSums::Read(GraphBuilder& g, double factor,
                                                    SourceLocation where) const {
  const auto after_adding = g.ControlScope({added_});
  std::vector<GradientAndVariable> result = gradients_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (!sums_[i].handle) continue;
    const auto beside_sum = g.ColocationScope(sums_[i].handle.node);
    Output sum = ReadVariableOp(g, sums_[i].handle, sums_[i].dtype, {.name = "sum"}, where);
    if (factor != 1) sum = Mul(g, sum, ConstOf(g, sums_[i].dtype, factor, {}, where), {}, where);
    result[i].gradient = sum;
  }
  return result;
}

std::vector<Node*> GradientSums::Clear(GraphBuilder& g, Node* after, SourceLocation where) const {
  const auto after_node = g.ControlScope({after});
  std::vector<Node*> cleared;
  for (const ModelVariable& sum : sums_) {
    if (!sum.handle) continue;
    const auto beside_sum = g.ColocationScope(sum.handle.node);
    cleared.push_back(
        AssignVariableOp(g, sum.handle, initializers::Zeros()(g, sum.dtype, sum.shape), {}, where));
  }
  return cleared;
}

}  // namespace weir
