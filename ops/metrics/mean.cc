#include "ops/metrics/mean.h"

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/losses/operands.h"
#include "ops/standard_ops.h"

namespace weir::metrics {
namespace {

MetricOptions Named(MetricOptions options, absl::string_view name) {
  if (options.name.empty()) options.name = name;
  return options;
}

}  // namespace

Metric Mean(GraphBuilder& g, Output values, const MetricOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "mean" : options.name);
  if (!CheckGiven(g, absl::StrCat("metric '", g.name_scope(), "'"), "values", values, where)) return {};
  const Output elements = losses::CastTo(g, values, DType::kFloat32, where);
  const ModelVariable total = MakeTotal(g, "total", Shape(), where);
  const ModelVariable count = MakeTotal(g, "count", Shape(), where);
  const Output sum = WeightedSum(g, elements, options, where);
  const Output weight = WeightedSum(g, OnesLike(g, elements, {}, where), options, where);
  const Output new_total = AddToTotal(g, total, sum, where);
  const Output new_count = AddToTotal(g, count, weight, where);
  return {DivNoNan(g, total.value, count.value, {.name = "value"}, where),
          DivNoNan(g, new_total, new_count, {.name = "update_op"}, where)};
}

Metric Accuracy(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options,
                SourceLocation where) {
  if (!losses::CheckSameShapes(g, "Accuracy", labels, predictions, where)) return {};
  const Output found = losses::CastTo(g, predictions, labels.dtype(), where);
  return Mean(g, Equal(g, found, labels, {}, where), Named(options, "accuracy"), where);
}

Metric MeanSquaredError(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options,
                        SourceLocation where) {
  if (!losses::CheckSameShapes(g, "MeanSquaredError", labels, predictions, where)) return {};
  const Output difference = SquaredDifference(g, losses::CastTo(g, predictions, DType::kFloat32, where),
                                              losses::CastTo(g, labels, DType::kFloat32, where), {}, where);
  return Mean(g, difference, Named(options, "mean_squared_error"), where);
}

}  // namespace weir::metrics
