#include "ops/training/downpour.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/training/local_copies.h"
#include "ops/training/local_steps.h"

namespace weir {
namespace {

// When to exchange what.
struct Exchange {
  Hyperparameter learning_rate;
  int64_t push_period;
  int64_t push_remainder;
  int64_t fetch_period;
  double pushed_part;  // of the sum
};

class LocalSteps final : public Optimizer {
 public:
  LocalSteps(std::string name, std::unique_ptr<Optimizer> optimizer, const Exchange& exchange)
      : Optimizer(std::move(name)), optimizer_(std::move(optimizer)), exchange_(exchange) {}

  absl::StatusOr<std::vector<GradientAndVariable>> ComputeGradients(GraphBuilder& g, Output loss,
                                                                    const GradientOptions& options,
                                                                    SourceLocation where) override;
  absl::StatusOr<Node*> ApplyGradients(GraphBuilder& g, const std::vector<GradientAndVariable>& gradients,
                                       const ModelVariable& global_step, SourceLocation where) override;
  bool keeps_local_copies() const override { return true; }
  bool measures_staleness() const override {
    return optimizer_ != nullptr && optimizer_->measures_staleness();
  }

 private:
  // The wrapped optimizer updates.
  Node* Update(GraphBuilder&, const ModelVariable&, Output) override { return nullptr; }

  absl::Status Fail(GraphBuilder& g, absl::string_view what, SourceLocation where) const {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(name(), ": ", what)), where);
    return g.status();
  }
  absl::Status Check(GraphBuilder& g, SourceLocation where) const;

  const std::unique_ptr<Optimizer> optimizer_;
  const Exchange exchange_;
  std::vector<LocalCopy> copies_;
  ModelVariable step_;
};

absl::Status LocalSteps::Check(GraphBuilder& g, SourceLocation where) const {
  if (!g.ok()) return g.status();
  if (optimizer_ == nullptr) return Fail(g, "the optimizer is null", where);
  const int64_t least = std::min(exchange_.push_period, exchange_.fetch_period);
  if (least < 1) {
    return Fail(g, absl::StrCat("the steps between two exchanges must be at least 1, are ", least), where);
  }
  if (optimizer_->measures_staleness() && std::max(exchange_.push_period, exchange_.fetch_period) > 1) {
    return Fail(g,
                "the wrapped optimizer (DynSgd) divides by the staleness of one step's gradient, and what is "
                "pushed here is of several steps, or of values that were fetched in an earlier one",
                where);
  }
  exchange_.learning_rate.Check(g, name(), "learning_rate", where);
  return g.status();
}

absl::StatusOr<std::vector<GradientAndVariable>> LocalSteps::ComputeGradients(GraphBuilder& g, Output loss,
                                                                              const GradientOptions& options,
                                                                              SourceLocation where) {
  WEIR_RETURN_IF_ERROR(Check(g, where));
  if (!copies_.empty()) return Fail(g, "the model reads local copies already", where);
  const int first_new = g.graph().num_nodes();
  WEIR_ASSIGN_OR_RETURN(const std::vector<ModelVariable> chosen, ChosenVariables(g, name(), options, where));
  WEIR_ASSIGN_OR_RETURN(copies_, MakeLocalCopies(g, name(), chosen, where));
  const auto scope = g.NameScope(name());
  step_ = MakeLocalStep(g, where);
  const Output is_due = IsDue(g, step_.value, exchange_.fetch_period, 0, where);
  const auto fetch = [&] {
    std::vector<Node*> assigned;
    for (const LocalCopy& copy : copies_) {
      Output now;
      {
        const auto beside_center = g.ColocationScope(copy.center.handle.node);
        now = ReadVariableOp(g, copy.center.handle, copy.center.dtype, {.name = "fetch"}, where);
      }
      const auto beside_copy = g.ColocationScope(copy.local.handle.node);
      assigned.push_back(AssignVariableOp(g, copy.local.handle, now, {}, where));
    }
    return assigned;
  };
  Node* const fetched = When(g, is_due, fetch, where);
  std::vector<Output> current;
  for (const LocalCopy& copy : copies_) {
    const auto beside_copy = g.ColocationScope(copy.local.handle.node);
    const auto after_fetch = g.ControlScope({fetched});
    current.push_back(ReadVariableOp(g, copy.local.handle, copy.local.dtype, {.name = "read"}, where));
  }
  ReadInstead(g, copies_, current, first_new);
  if (!g.ok()) return g.status();
  std::vector<ModelVariable> locals;
  for (const LocalCopy& copy : copies_) locals.push_back(copy.local);
  WEIR_ASSIGN_OR_RETURN(std::vector<GradientAndVariable> gradients,
                        optimizer_->ComputeGradients(g, loss, {.variables = locals}, where));
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].variable = copies_[i].center;
  return gradients;
}

absl::StatusOr<Node*> LocalSteps::ApplyGradients(GraphBuilder& g,
                                                 const std::vector<GradientAndVariable>& gradients,
                                                 const ModelVariable& global_step, SourceLocation where) {
  WEIR_RETURN_IF_ERROR(Check(g, where));
  WEIR_RETURN_IF_ERROR(CheckLocalGradients(g, name(), gradients, copies_, where));
  const auto scope = g.NameScope(name());
  WEIR_ASSIGN_OR_RETURN(const GradientSums sums, GradientSums::Make(g, name(), gradients, "accrued", where));
  std::vector<Node*> moved = {sums.added()};
  for (const auto& [gradient, center] : gradients) {
    if (IsNull(gradient)) continue;
    const ModelVariable& local = CopyOfCenter(copies_, center)->local;
    const auto beside_copy = g.ColocationScope(local.handle.node);
    const Output rate = exchange_.learning_rate.In(g, local.dtype, "learning_rate");
    moved.push_back(
        AssignSubVariableOp(g, local.handle, Mul(g, rate, std::get<Output>(gradient), {}, where), {}, where));
  }
  absl::Status status;
  const auto push = [&]() -> std::vector<Node*> {
    const absl::StatusOr<Node*> update =
        optimizer_->ApplyGradients(g, sums.Read(g, exchange_.pushed_part, where), global_step, where);
    status = update.status();
    if (!update.ok()) return {};
    std::vector<Node*> ends = sums.Clear(g, *update, where);
    ends.push_back(*update);
    return ends;
  };
  const Output is_due = IsDue(g, step_.value, exchange_.push_period, exchange_.push_remainder, where);
  Node* const pushed = When(g, is_due, push, where);
  WEIR_RETURN_IF_ERROR(status);
  moved.push_back(pushed);
  return EndLocalStep(g, step_, moved, where);
}

}  // namespace

std::unique_ptr<Optimizer> Downpour(std::unique_ptr<Optimizer> optimizer, const DownpourOptions& options) {
  return std::make_unique<LocalSteps>("Downpour", std::move(optimizer),
                                      Exchange{options.learning_rate, options.n_push, 0, options.n_fetch, 1});
}

std::unique_ptr<Optimizer> AccumulatedGradientNormalization(std::unique_ptr<Optimizer> optimizer,
                                                            const AccumulatedGradientOptions& options) {
  return std::make_unique<LocalSteps>("AccumulatedGradientNormalization", std::move(optimizer),
                                      Exchange{options.learning_rate, options.steps, options.steps - 1,
                                               options.steps, 1 / static_cast<double>(options.steps)});
}

}  // namespace weir
