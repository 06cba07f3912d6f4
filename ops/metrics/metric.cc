#include "ops/metrics/metric.h"

#include "ops/losses/weighted_loss.h"
#include "ops/standard_ops.h"

namespace weir::metrics {

ModelVariable MakeTotal(GraphBuilder& g, absl::string_view name, const Shape& shape, SourceLocation where) {
  const ModelVariable total = MakeVariable(g, name, DType::kFloat32, shape, initializers::Zeros(),
                                           {.trainable = false, .is_local = true}, where);
  if (total.handle) g.graph().collections()["metric_variables"].push_back(total.handle.name());
  return total;
}

Output AddToTotal(GraphBuilder& g, const ModelVariable& total, Output amount, SourceLocation where) {
  if (!g.ok()) return {};
  const auto beside_total = g.ColocationScope(total.handle.node);
  Node* const added = AssignAddVariableOp(g, total.handle, amount, {}, where);
  const auto after_adding = g.ControlScope({added});
  return ReadVariableOp(g, total.handle, DType::kFloat32, {}, where);
}

Output WeightedSum(GraphBuilder& g, Output elements, const MetricOptions& options, SourceLocation where) {
  return losses::ComputeWeightedLoss(
      g, elements,
      {.weights = options.weights, .reduction = losses::Reduction::kSum, .collection = "", .name = "sum"},
      where);
}

}  // namespace weir::metrics
