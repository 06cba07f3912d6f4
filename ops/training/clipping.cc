#include "ops/training/clipping.h"

#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

Output ValuesOf(const Gradient& gradient) {
  const auto* const rows = std::get_if<IndexedSlices>(&gradient);
  return rows != nullptr ? rows->values : std::get<Output>(gradient);
}

// The gradient with other values.
Gradient WithValues(const Gradient& gradient, Output values) {
  const auto* const rows = std::get_if<IndexedSlices>(&gradient);
  if (rows == nullptr) return values;
  return IndexedSlices{values, rows->indices, rows->dense_shape};
}

// Adds nodes beside the gradient's that change its values.
Gradient Change(GraphBuilder& g, const Gradient& gradient,
                const std::function<Output(Output values)>& change) {
  if (IsNull(gradient) || !g.ok()) return gradient;
  const Output values = ValuesOf(gradient);
  const auto beside = g.ColocationScope(values.node);
  return WithValues(gradient, change(values));
}

bool Refuse(GraphBuilder& g, bool is_wrong, absl::string_view what, double value, SourceLocation where) {
  if (!is_wrong) return false;
  g.SetError(absl::InvalidArgumentError(absl::StrCat(what, ", is ", value)), where);
  return true;
}

// sqrt(sum of squares) along the axes, which are kept. The derivative at zero is zero.
Output Norm(GraphBuilder& g, Output x, const std::vector<int32_t>& axes, SourceLocation where) {
  const ReduceOptions keep = {.keep_dims = true};
  const Output squares = Mul(g, x, x, {}, where);
  const Output sum =
      axes.empty() ? ReduceSum(g, squares, keep, where) : ReduceSum(g, squares, axes, keep, where);
  const Output is_positive = Greater(g, sum, ConstOf(g, x.dtype(), 0, {}, where), {}, where);
  const Output safe = SelectV2(g, is_positive, sum, OnesLike(g, sum, {}, where), {}, where);
  return SelectV2(g, is_positive, Sqrt(g, safe, {}, where), sum, {}, where);
}

// clip_norm * min(1 / norm, 1 / clip_norm); NaN for a norm that is not finite.
Output GlobalScale(GraphBuilder& g, Output norm, double clip_norm, SourceLocation where) {
  const Output limit = ConstOf(g, norm.dtype(), clip_norm, {.name = "clip_norm"}, where);
  const Output one = ConstOf(g, norm.dtype(), 1, {}, where);
  const Output smaller =
      Minimum(g, RealDiv(g, one, norm, {}, where), RealDiv(g, one, limit, {}, where), {}, where);
  const Output nan_unless_finite = Sub(g, norm, norm, {}, where);
  return AddV2(g, Mul(g, limit, smaller, {}, where), nan_unless_finite, {}, where);
}

}  // namespace

Gradient ClipByValue(GraphBuilder& g, const Gradient& gradient, double minimum, double maximum,
                     SourceLocation where) {
  const auto scope = g.NameScope("clip_by_value");
  if (Refuse(g, !(minimum <= maximum), absl::StrCat("ClipByValue: maximum must be at least ", minimum),
             maximum, where)) {
    return {};
  }
  return Change(g, gradient, [&](Output x) {
    const Output below = Minimum(g, x, ConstOf(g, x.dtype(), maximum, {}, where), {}, where);
    return Maximum(g, below, ConstOf(g, x.dtype(), minimum, {}, where), {}, where);
  });
}

Gradient ClipByNorm(GraphBuilder& g, const Gradient& gradient, double clip_norm,
                    const std::vector<int32_t>& axes, SourceLocation where) {
  const auto scope = g.NameScope("clip_by_norm");
  if (Refuse(g, !(clip_norm >= 0 && std::isfinite(clip_norm)),
             "ClipByNorm: clip_norm must be finite and not negative", clip_norm, where))
    return {};
  return Change(g, gradient, [&](Output x) {
    const Output limit = ConstOf(g, x.dtype(), clip_norm, {.name = "clip_norm"}, where);
    const Output divisor = Maximum(g, Norm(g, x, axes, where), limit, {}, where);
    return RealDiv(g, Mul(g, x, limit, {}, where), divisor, {}, where);
  });
}

Output GlobalNorm(GraphBuilder& g, const std::vector<Gradient>& gradients, SourceLocation where) {
  if (!g.ok()) return {};
  const auto scope = g.NameScope("global_norm");
  std::vector<Output> half_squares;
  for (const Gradient& gradient : gradients) {
    if (IsNull(gradient)) continue;
    const Output values = ValuesOf(gradient);
    const auto beside = g.ColocationScope(values.node);
    half_squares.push_back(L2Loss(g, values, {}, where));
  }
  if (half_squares.empty()) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("GlobalNorm: there is no gradient among the ", gradients.size(), " given")),
               where);
    return {};
  }
  const Output sum = ReduceSum(g, Pack(g, half_squares, {}, where), {}, where);
  if (!sum) return {};
  return Sqrt(g, Mul(g, sum, ConstOf(g, sum.dtype(), 2, {}, where), {}, where), {}, where);
}

ClippedGradients ClipByGlobalNorm(GraphBuilder& g, const std::vector<Gradient>& gradients, double clip_norm,
                                  const ClipByGlobalNormOptions& options, SourceLocation where) {
  const bool is_wrong = !(clip_norm > 0 && std::isfinite(clip_norm));
  if (Refuse(g, is_wrong, "ClipByGlobalNorm: clip_norm must be positive and finite", clip_norm, where)) {
    return {std::vector<Gradient>(gradients.size()), {}};
  }
  ClippedGradients result = {gradients, options.use_norm};
  if (!result.global_norm) result.global_norm = GlobalNorm(g, gradients, where);
  if (!g.ok()) return result;
  const auto scope = g.NameScope("clip_by_global_norm");
  const Output scale = GlobalScale(g, result.global_norm, clip_norm, where);
  for (Gradient& gradient : result.gradients) {
    gradient = Change(g, gradient, [&](Output x) {
      const Output factor =
          scale && scale.dtype() != x.dtype() ? Cast(g, scale, x.dtype(), {}, where) : scale;
      return Mul(g, x, factor, {}, where);
    });
  }
  return result;
}

std::vector<GradientAndVariable> ClipByGlobalNorm(GraphBuilder& g, std::vector<GradientAndVariable> gradients,
                                                  double clip_norm, const ClipByGlobalNormOptions& options,
                                                  SourceLocation where) {
  std::vector<Gradient> flows;
  for (const GradientAndVariable& one : gradients) flows.push_back(one.gradient);
  ClippedGradients clipped = ClipByGlobalNorm(g, flows, clip_norm, options, where);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].gradient = std::move(clipped.gradients[i]);
  return gradients;
}

}  // namespace weir
