#include "ops/losses/total_loss.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/regularizers.h"
#include "ops/standard_ops.h"

namespace weir::losses {

namespace {

bool CheckIsScalar(GraphBuilder& g, absl::string_view name, const Output& loss, SourceLocation where) {
  if (!loss.shape().has_rank() || loss.shape().rank() == 0) return true;
  g.SetError(absl::InvalidArgumentError(absl::StrCat(
                 name, ": every loss must be a scalar, but '", loss.name(), "' is ", loss.shape().ToString(),
                 ": a loss of Reduction::kNone and what is collected by hand must be summed up first")),
             where);
  return false;
}

}  // namespace

std::vector<Output> CollectedLosses(GraphBuilder& g, absl::string_view collection) {
  std::vector<Output> losses;
  const auto& collections = g.graph().collections();
  const auto found = collections.find(std::string(collection));
  if (found == collections.end()) return losses;
  for (const std::string& name : found->second) {
    const absl::StatusOr<Output> loss = g.graph().FindValue(name);
    if (loss.ok()) losses.push_back(*loss);
  }
  return losses;
}

Output RegularizationLoss(GraphBuilder& g, SourceLocation where) {
  const std::vector<Output> losses = CollectedLosses(g, kRegularizationLosses);
  for (const Output& loss : losses) {
    if (!CheckIsScalar(g, "total_regularization_loss", loss, where)) return {};
  }
  if (losses.empty()) return Const(g, 0.0f, {.name = "total_regularization_loss"}, where);
  return AddN(g, losses, {.name = "total_regularization_loss"}, where);
}

Output TotalLoss(GraphBuilder& g, const TotalLossOptions& options, SourceLocation where) {
  if (!g.ok()) return {};
  std::vector<Output> losses = CollectedLosses(g);
  if (options.add_regularization_losses) {
    for (const Output& loss : CollectedLosses(g, kRegularizationLosses)) losses.push_back(loss);
  }
  if (losses.empty()) {
    g.SetError(absl::InvalidArgumentError("TotalLoss: the collections of losses are empty"), where);
    return {};
  }
  for (const Output& loss : losses) {
    if (!CheckIsScalar(g, options.name, loss, where)) return {};
  }
  return AddN(g, losses, {.name = options.name}, where);
}

}  // namespace weir::losses
