#include "ops/training/polynomial_decay.h"

#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {
namespace {

// How many times decay_steps it takes to reach the step: at least one.
Output Cycles(GraphBuilder& g, Output step, Output decay_steps, SourceLocation where) {
  const Output is_start = Equal(g, step, decay::Number(g, 0, where), {}, where);
  const Output passed = Ceil(g, RealDiv(g, step, decay_steps, {}, where), {}, where);
  return SelectV2(g, is_start, decay::Number(g, 1, where), passed, {}, where);
}

}  // namespace

Output PolynomialDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                       const PolynomialDecayOptions& options, SourceLocation where) {
  if (!decay::CheckArguments(g, options.name, global_step, {"decay_steps", decay_steps},
                             {{"learning_rate", learning_rate},
                              {"end_learning_rate", options.end_learning_rate},
                              {"power", options.power}},
                             where)) {
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const auto number = [&](double value) { return decay::Number(g, value, where); };
  const float range = static_cast<float>(learning_rate) - static_cast<float>(options.end_learning_rate);
  Output last = number(static_cast<double>(decay_steps));
  Output step = decay::StepOf(g, global_step, where);
  if (options.cycle) {
    last = Mul(g, last, Cycles(g, step, last, where), {}, where);
  } else {
    step = Minimum(g, step, last, {}, where);
  }
  Output left = Sub(g, number(1), RealDiv(g, step, last));
  if (options.power != 1) left = Pow(g, left, number(options.power));
  return AddV2(g, Mul(g, number(range), left), number(options.end_learning_rate));
}

}  // namespace weir
