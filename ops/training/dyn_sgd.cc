#include "ops/training/dyn_sgd.h"

#include <utility>
#include <variant>
#include <vector>

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

  // On the counter's device.
  static Output StalenessPlusOne(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                 const ModelVariable& global_step, SourceLocation where) {
    std::vector<Node*> computed;
    for (const auto& [gradient, variable] : gradients) {
      if (IsNull(gradient)) continue;
      const auto* const rows = std::get_if<IndexedSlices>(&gradient);
      computed.push_back(rows != nullptr ? rows->values.node : std::get<Output>(gradient).node);
      // Nothing that is read is newer than the count. Where the variable is elsewhere that would cost a trip.
      const Node* const value = variable.value.node;
      if (value != nullptr && value->requested_device() == global_step.value.node->requested_device()) {
        g.graph().AddControlInput(variable.value.node, global_step.value.node);
      }
    }
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
