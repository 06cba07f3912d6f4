#include "ops/losses/total_loss.h"

#include <string>

#include "ops/regularizers.h"
#include "ops/standard_ops.h"

namespace weir::losses {

std::vector<Output> CollectedLosses(GraphBuilder& g, absl::string_view collection) {
  std::vector<Output> losses;
  const auto& collections = g.graph().collections();
  const auto found = collections.find(std::string(collection));
  if (found == collections.end()) return losses;
  for (const std::string& name : found->second) {
    const absl::StatusOr<Output> loss = g.graph().FindOutput(name);
    if (loss.ok()) losses.push_back(*loss);
  }
  return losses;
}

Output RegularizationLoss(GraphBuilder& g, SourceLocation where) {
  const std::vector<Output> losses = CollectedLosses(g, kRegularizationLosses);
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
  return AddN(g, losses, {.name = options.name}, where);
}

}  // namespace weir::losses
