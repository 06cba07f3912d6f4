#include "ops/training/linear_cosine_decay.h"

#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {

Output LinearCosineDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                         const LinearCosineDecayOptions& options, SourceLocation where) {
  if (!decay::CheckArguments(g, options.name, global_step, {"decay_steps", decay_steps},
                             {{"learning_rate", learning_rate},
                              {"num_periods", options.num_periods},
                              {"alpha", options.alpha},
                              {"beta", options.beta}},
                             where)) {
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const Output step = decay::StepUpTo(g, global_step, decay_steps, where);
  const Output last = decay::Number(g, static_cast<double>(decay_steps), where);
  const Output linear = RealDiv(g, Sub(g, last, step, {}, where), last, {}, where);
  const Output fraction =
      Mul(g, decay::Number(g, 2 * options.num_periods, where), RealDiv(g, step, last, {}, where), {}, where);
  const Output raised = AddV2(g, decay::Number(g, options.alpha, where), linear, {}, where);
  const Output product = Mul(g, raised, decay::HalfCosine(g, fraction, where), {}, where);
  const Output decayed = AddV2(g, product, decay::Number(g, options.beta, where), {}, where);
  return Mul(g, decay::Number(g, learning_rate, where), decayed, {}, where);
}

}  // namespace weir
