#include "ops/metrics/precision.h"

#include <string>

#include "ops/losses/operands.h"
#include "ops/standard_ops.h"

namespace weir::metrics {
namespace {

struct Totals {
  Output before, after;
};

// The weight of all elements for which `condition` is true, in the variable "<name>/count".
Totals CountOf(GraphBuilder& g, absl::string_view name, Output condition, const MetricOptions& options,
               SourceLocation where) {
  const auto scope = g.NameScope(name);
  const ModelVariable count = MakeTotal(g, "count", Shape(), where);
  const Output elements = Cast(g, condition, DType::kFloat32, {}, where);
  return {count.value, AddToTotal(g, count, WeightedSum(g, elements, options, where), where)};
}

Output AsBool(GraphBuilder& g, Output x, SourceLocation where) {
  return x && x.dtype() != DType::kBool ? Cast(g, x, DType::kBool, {}, where) : x;
}

// part / (part + rest)
Output Share(GraphBuilder& g, Output part, Output rest, absl::string_view name, SourceLocation where) {
  return DivNoNan(g, part, AddV2(g, part, rest, {}, where), {.name = name}, where);
}

// Of the elements of which `whole` is true, the share of those of which `other` is true as well.
Metric ShareOf(GraphBuilder& g, Output whole, Output other, absl::string_view wrong_name,
               const MetricOptions& options, SourceLocation where) {
  const Output in_whole = AsBool(g, whole, where), in_other = AsBool(g, other, where);
  const Totals right =
      CountOf(g, "true_positives", LogicalAnd(g, in_whole, in_other, {}, where), options, where);
  const Output is_wrong = LogicalAnd(g, in_whole, LogicalNot(g, in_other, {}, where), {}, where);
  const Totals wrong = CountOf(g, wrong_name, is_wrong, options, where);
  return {Share(g, right.before, wrong.before, "value", where),
          Share(g, right.after, wrong.after, "update_op", where)};
}

}  // namespace

Metric Precision(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options,
                 SourceLocation where) {
  if (!losses::CheckSameShapes(g, "Precision", labels, predictions, where)) return {};
  const auto scope = g.NameScope(options.name.empty() ? "precision" : options.name);
  return ShareOf(g, predictions, labels, "false_positives", options, where);
}

Metric Recall(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options,
              SourceLocation where) {
  if (!losses::CheckSameShapes(g, "Recall", labels, predictions, where)) return {};
  const auto scope = g.NameScope(options.name.empty() ? "recall" : options.name);
  return ShareOf(g, labels, predictions, "false_negatives", options, where);
}

}  // namespace weir::metrics
