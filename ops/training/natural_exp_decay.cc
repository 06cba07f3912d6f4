#include "ops/training/natural_exp_decay.h"

#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {

Output NaturalExpDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                       double decay_rate, const NaturalExpDecayOptions& options, SourceLocation where) {
  if (!decay::CheckArguments(g, options.name, global_step, {"decay_steps", decay_steps},
                             {{"learning_rate", learning_rate}, {"decay_rate", decay_rate}}, where)) {
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const Output progress = decay::Progress(g, global_step, decay_steps, options.staircase, where);
  const Output rate = Exp(g, decay::Number(g, -decay_rate, where), {}, where);
  return Mul(g, decay::Number(g, learning_rate, where), Pow(g, rate, progress, {}, where), {}, where);
}

}  // namespace weir
