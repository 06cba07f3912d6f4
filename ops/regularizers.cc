#include "ops/regularizers.h"

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir::regularizers {
namespace {

// scale * size, after a check of the scale.
Output Scaled(GraphBuilder& g, double scale, Output size) {
  if (!size) return {};
  if (!CheckFinite(g, "regularizer", {{"scale", scale}}, SourceLocation())) return {};
  if (scale < 0) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat("regularizer: scale must not be negative, is ", scale)));
    return {};
  }
  return Mul(g, ConstOf(g, size.dtype(), scale, {.name = "scale"}), size);
}

}  // namespace

Regularizer L1(double scale) {
  return [scale](GraphBuilder& g, Output weights) {
    const auto scope = g.NameScope("l1_regularizer");
    return Scaled(g, scale, ReduceSum(g, Abs(g, weights)));
  };
}

Regularizer L2(double scale) {
  return [scale](GraphBuilder& g, Output weights) {
    const auto scope = g.NameScope("l2_regularizer");
    return Scaled(g, scale, L2Loss(g, weights));
  };
}

Regularizer L1L2(double l1_scale, double l2_scale) {
  return [l1 = L1(l1_scale), l2 = L2(l2_scale)](GraphBuilder& g, Output weights) {
    const auto scope = g.NameScope("l1_l2_regularizer");
    const Output absolute = l1(g, weights);
    const Output squares = l2(g, weights);
    return AddV2(g, absolute, squares);
  };
}

}  // namespace weir::regularizers
