#include "ops/metrics/auc.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/losses/operands.h"
#include "ops/losses/weighted_loss.h"
#include "ops/standard_ops.h"

namespace weir::metrics {
namespace {

// From just below 0 to just above 1, so that all scores lie between them: float [count, 1].
Output Thresholds(GraphBuilder& g, int count, SourceLocation where) {
  constexpr double kMargin = 1e-7;
  std::vector<float> values = {static_cast<float>(0 - kMargin)};
  for (int i = 1; i + 1 < count; ++i) values.push_back(static_cast<float>(i * 1.0 / (count - 1)));
  values.push_back(static_cast<float>(1 + kMargin));
  return Const(g, Tensor::FromSpan<float>(Shape({count, 1}), values), {.name = "thresholds"}, where);
}

// All elements in one row: [1, n].
Output AsRow(GraphBuilder& g, Output x, SourceLocation where) {
  return Reshape(g, x, ConstIntegers(g, {1, -1}, {}, where), {}, where);
}

struct Counts {
  Output before, after;
};

// What the counters of one kind are at every threshold, without and with this batch.
Counts CountAt(GraphBuilder& g, absl::string_view name, Output is_counted, Output weights, int count,
               SourceLocation where) {
  const ModelVariable total = MakeTotal(g, name, Shape({count}), where);
  const Output each = Mul(g, Cast(g, is_counted, DType::kFloat32, {}, where), weights, {}, where);
  return {total.value, AddToTotal(g, total, ReduceSum(g, each, {1}, {}, where), where)};
}

// Elements [begin, end) of a vector; an end of 0 is its end.
Output Part(GraphBuilder& g, Output x, int begin, int end, SourceLocation where) {
  return StridedSlice(g, x, ConstIntegers(g, {begin}, {}, where), ConstIntegers(g, {end}, {}, where),
                      ConstIntegers(g, {1}, {}, where), {.end_mask = end == 0 ? 1 : 0}, where);
}

// The sum of the trapezoids below the points (false positive rate, true positive rate).
Output Area(GraphBuilder& g, Output tp, Output fn, Output tn, Output fp, absl::string_view name,
            SourceLocation where) {
  const Output tiny = Const(g, 1e-6f, {}, where);  // keeps the divisors from zero
  const auto plus = [&](Output a, Output b) { return AddV2(g, a, b, {}, where); };
  const Output y = RealDiv(g, plus(tp, tiny), plus(plus(tp, fn), tiny), {}, where);
  const Output x = RealDiv(g, fp, plus(plus(fp, tn), tiny), {}, where);
  const Output widths = Sub(g, Part(g, x, 0, -1, where), Part(g, x, 1, 0, where), {}, where);
  const Output heights = RealDiv(g, plus(Part(g, y, 0, -1, where), Part(g, y, 1, 0, where)),
                                 Const(g, 2.0f, {}, where), {}, where);
  return ReduceSum(g, Mul(g, widths, heights, {}, where), {.name = name}, where);
}

}  // namespace

Metric Auc(GraphBuilder& g, Output labels, Output predictions, const AucOptions& options,
           SourceLocation where) {
  if (!losses::CheckSameShapes(g, "Auc", labels, predictions, where)) return {};
  const int count = options.num_thresholds;
  if (count < 2 || count > 100'000) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat("Auc: num_thresholds must be from 2 to 100000, is ", count)),
        where);
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const Output scores = AsRow(g, Cast(g, predictions, DType::kFloat32, {}, where), where);
  const Output truths = AsRow(g, Cast(g, labels, DType::kBool, {}, where), where);
  const Output ones = OnesLike(g, Cast(g, predictions, DType::kFloat32, {}, where), {}, where);
  const Output weights = AsRow(g,
                               losses::ComputeWeightedLoss(g, ones,
                                                           {.weights = options.weights,
                                                            .reduction = losses::Reduction::kNone,
                                                            .collection = "",
                                                            .name = "weights"},
                                                           where),
                               where);
  const Output yes = Greater(g, scores, Thresholds(g, count, where), {}, where);
  const Output no = LogicalNot(g, yes, {}, where), falsehoods = LogicalNot(g, truths, {}, where);
  const auto count_both = [&](absl::string_view name, Output answer, Output truth) {
    return CountAt(g, name, LogicalAnd(g, answer, truth, {}, where), weights, count, where);
  };
  const Counts tp = count_both("true_positives", yes, truths);
  const Counts fn = count_both("false_negatives", no, truths);
  const Counts tn = count_both("true_negatives", no, falsehoods);
  const Counts fp = count_both("false_positives", yes, falsehoods);
  return {Area(g, tp.before, fn.before, tn.before, fp.before, "value", where),
          Area(g, tp.after, fn.after, tn.after, fp.after, "update_op", where)};
}

}  // namespace weir::metrics
