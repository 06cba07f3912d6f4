#include "ops/training/dyn_sgd.h"

#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

class StalenessAware final : public Optimizer {
 public:
  explicit StalenessAware(std::unique_ptr<Optimizer> optimizer)
      : Optimizer("DynSgd"), optimizer_(std::move(optimizer)) {}

  absl::StatusOr<std::vector<GradientAndVariable>> ComputeGradients(GraphBuilder& g, Output loss,
                                                                    const GradientOptions& options,
                                                                    SourceLocation where) override {
    WEIR_RETURN_IF_ERROR(Check(g, where));
    return optimizer_->ComputeGradients(g, loss, options, where);
  }

  absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                       const ModelVariable& global_step, SourceLocation where) override {
    WEIR_RETURN_IF_ERROR(Check(g, where));
    if (!global_step.handle) return Fail(g, "needs a global step", where);
    std::vector<GradientAndVariable> scaled = gradients;
    {
      const auto scope = g.NameScope(name());
      const Output age = StalenessPlusOne(g, gradients, global_step, where);
      for (GradientAndVariable& one : scaled) Divide(g, age, &one, where);
    }
    WEIR_RETURN_IF_ERROR(g.status());
    return optimizer_->ApplyGradients(g, scaled, global_step, where);
  }
  bool keeps_local_copies() const override {
    return optimizer_ != nullptr && optimizer_->keeps_local_copies();
  }
  bool measures_staleness() const override { return true; }

 private:
  // The wrapped optimizer updates.
  Node* Update(GraphBuilder&, const ModelVariable&, Output) override { return nullptr; }

  absl::Status Fail(GraphBuilder& g, absl::string_view what, SourceLocation where) const {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(name(), ": ", what)), where);
    return g.status();
  }
  absl::Status Check(GraphBuilder& g, SourceLocation where) const {
    return g.ok() && optimizer_ == nullptr ? Fail(g, "the optimizer is null", where) : g.status();
  }

  // Nothing that is read is newer than the count. Where the variable is elsewhere that would cost a trip.
  static void ReadAfterCount(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                             Node* count) {
    std::set<const Node*> values, handles;
    for (const auto& [gradient, variable] : gradients) {
      if (IsNull(gradient)) continue;
      values.insert(variable.value.node);
      handles.insert(variable.handle.node);
    }
    const int num_nodes = g.graph().num_nodes();
    for (int id = 0; id < num_nodes; ++id) {
      Node* const node = g.graph().node(id);
      const bool reads_rows = absl::StartsWith(node->op_name(), "ResourceGather") && node->num_inputs() > 0 &&
                              handles.contains(node->inputs()[0].node);
      if (!reads_rows && !values.contains(node)) continue;
      if (node->requested_device() == count->requested_device()) g.graph().AddControlInput(node, count);
    }
  }

  // On the counter's device.
  static Output StalenessPlusOne(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                 const ModelVariable& global_step, SourceLocation where) {
    std::vector<Node*> computed;
    for (const auto& [gradient, variable] : gradients) {
      if (IsNull(gradient)) continue;
      const auto* const rows = std::get_if<IndexedSlices>(&gradient);
      computed.push_back(rows != nullptr ? rows->values.node : std::get<Output>(gradient).node);
    }
    ReadAfterCount(g, gradients, global_step.value.node);
    const auto beside_counter = g.ColocationScope(global_step.handle.node);
    Output now;
    {
      const auto after_gradients = g.ControlScope(computed);
      now = ReadVariableOp(g, global_step.handle, global_step.dtype, {.name = "now"}, where);
    }
    return AddV2(g, Sub(g, now, global_step.value, {}, where), ConstOf(g, global_step.dtype, 1, {}, where),
                 {.name = "staleness_plus_one"}, where);
  }

  static void Divide(GraphBuilder& g, Output age, GradientAndVariable* one, SourceLocation where) {
    if (IsNull(one->gradient) || !g.ok()) return;
    const auto beside_variable = g.ColocationScope(one->variable.handle.node);
    const Output divisor = Cast(g, age, one->variable.dtype, {}, where);
    if (auto* const rows = std::get_if<IndexedSlices>(&one->gradient)) {
      rows->values = RealDiv(g, rows->values, divisor, {}, where);
    } else {
      one->gradient = RealDiv(g, std::get<Output>(one->gradient), divisor, {}, where);
    }
  }

  const std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

std::unique_ptr<Optimizer> DynSgd(std::unique_ptr<Optimizer> optimizer) {
  return std::make_unique<StalenessAware>(std::move(optimizer));
}

}  // namespace weir
