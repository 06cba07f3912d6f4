#include "ops/losses/weighted_loss.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/losses/operands.h"
#include "ops/standard_ops.h"

namespace weir::losses {
namespace {

Output AsFloat(GraphBuilder& g, Output x, SourceLocation where) {
  return x && x.dtype() != DType::kFloat32 ? Cast(g, x, DType::kFloat32, {}, where) : x;
}

bool MayFit(const PartialShape& weights, const PartialShape& losses) {
  if (!weights.has_rank() || weights.rank() == 0 || !losses.has_rank()) return true;
  if (weights.rank() != losses.rank()) return false;
  for (int i = 0; i < weights.rank(); ++i) {
    const int64_t a = weights.dim(i), b = losses.dim(i);
    if (a != 1 && a != b && a != PartialShape::kUnknownDim && b != PartialShape::kUnknownDim) return false;
  }
  return true;
}

// Whether no step can show that they do not fit.
bool SurelyFits(const PartialShape& weights, const PartialShape& losses) {
  if (weights.has_rank() && weights.rank() == 0) return true;
  if (!weights.has_rank() || !losses.has_rank()) return false;
  for (int i = 0; i < weights.rank(); ++i) {
    const int64_t a = weights.dim(i);
    if (a != 1 && (a == PartialShape::kUnknownDim || a != losses.dim(i))) return false;
  }
  return true;
}

// The weights as a float tensor that multiplies the losses without making them larger.
Output WeightsFor(GraphBuilder& g, Output weights, Output losses, SourceLocation where) {
  if (!weights || !losses) return {};
  if (!MayFit(weights.shape(), losses.shape())) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("loss '", g.name_scope(),
                                "': weights must be a scalar, or have each dimension of the losses "
                                "or 1 in its place: weights are ",
                                weights.shape().ToString(), ", losses are ", losses.shape().ToString())),
               where);
    return {};
  }
  const Output numbers = AsFloat(g, weights, where);
  if (SurelyFits(weights.shape(), losses.shape())) return numbers;
  return BroadcastTo(g, numbers, ShapeOf(g, losses, {}, where), {}, where);
}

Output Count(GraphBuilder& g, Output losses, SourceLocation where) {
  return AsFloat(g, Size(g, losses, {}, where), where);
}

// How many losses have a weight that is not 0.
Output CountPresent(GraphBuilder& g, Output losses, const std::variant<double, Output>& given, Output weights,
                    SourceLocation where) {
  const double* const number = std::get_if<double>(&given);
  if (number != nullptr && *number != 0) return Count(g, losses, where);
  const Output zero = Const(g, 0.0f, {}, where);
  const Output present = AsFloat(g, NotEqual(g, weights, zero, {}, where), where);
  const Output of_each = Mul(g, present, OnesLike(g, losses, {}, where), {}, where);
  return ReduceSum(g, of_each, {}, where);
}

Output Reduce(GraphBuilder& g, Output losses, Output weights, const LossOptions& options,
              SourceLocation where) {
  const Output weighted = Mul(g, losses, weights, {}, where);
  if (options.reduction == Reduction::kNone) return weighted;
  const Output sum = ReduceSum(g, weighted, {}, where);
  if (options.reduction == Reduction::kSum) return sum;
  Output divisor;
  switch (options.reduction) {
    case Reduction::kMean:
      divisor = ReduceSum(g, Mul(g, OnesLike(g, losses, {}, where), weights, {}, where), {}, where);
      break;
    case Reduction::kSumOverBatchSize:
      divisor = Count(g, losses, where);
      break;
    default:
      divisor = CountPresent(g, losses, options.weights, weights, where);
  }
  return DivNoNan(g, sum, divisor, {.name = "value"}, where);
}

}  // namespace

Output Weigh(GraphBuilder& g, Output losses, const LossOptions& options, SourceLocation where) {
  const std::string asker = absl::StrCat("loss '", g.name_scope(), "'");
  if (!CheckGiven(g, asker, "losses", losses, where)) return {};
  const double* const number = std::get_if<double>(&options.weights);
  const Output given = number != nullptr ? Const(g, static_cast<float>(*number), {.name = "weights"}, where)
                                         : std::get<Output>(options.weights);
  const bool has_weights =
      number != nullptr ? CheckFinite(g, asker, {{"the weight", *number}}, where)
                        : CheckGiven(g, asker, "the weights", std::get<Output>(options.weights), where);
  if (!has_weights) return {};
  const Output numbers = AsFloat(g, losses, where);
  const Output weights = WeightsFor(g, given, numbers, where);
  if (!g.ok()) return {};
  Output loss = Reduce(g, numbers, weights, options, where);
  if (losses.dtype() != DType::kFloat32) loss = Cast(g, loss, losses.dtype(), {}, where);
  if (loss && !options.collection.empty()) {
    g.graph().collections()[options.collection].push_back(loss.name());
  }
  return loss;
}

Output ComputeWeightedLoss(GraphBuilder& g, Output losses, const LossOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "weighted_loss" : options.name);
  return Weigh(g, losses, options, where);
}

}  // namespace weir::losses
