#include "ops/training/polynomial_decay.h"

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"

namespace weir {

Output PolynomialDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                       const PolynomialDecayOptions& options, SourceLocation where) {
  if (decay_steps < 1) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat(options.name, ": decay_steps is ", decay_steps, ", must be at least 1")),
               where);
    return {};
  }
  auto name_scope = g.NameScope(options.name);
  const auto number = [&](double value) { return Const(g, static_cast<float>(value)); };
  const float range = static_cast<float>(learning_rate) - static_cast<float>(options.end_learning_rate);
  const Output last = number(static_cast<double>(decay_steps));
  const Output step = Minimum(g, Cast(g, global_step, DType::kFloat32), last);
  Output left = Sub(g, number(1), RealDiv(g, step, last));
  if (options.power != 1) left = Pow(g, left, number(options.power));
  return AddV2(g, Mul(g, number(range), left), number(options.end_learning_rate));
}

}  // namespace weir
