// The gradient of a softmax, which those of the losses need too.
#pragma once

#include "ops/gradient_formulas.h"

namespace weir {

// sum over c of a[..., c], as [..., 1]
inline Output SumOfRows(GradientContext& g, Output a) {
  return formulas::Sum(g, a, g.Integers({-1}), /*keep_dims=*/true);
}

// p * (d - sum(d * p)): from the gradient d of a softmax p to that of its logits.
inline Output SoftmaxBack(GradientContext& g, Output d, Output p) {
  using namespace formulas;  // NOLINT: a formula
  return Mul(g, Sub(g, d, SumOfRows(g, Mul(g, d, p))), p);
}

}  // namespace weir
