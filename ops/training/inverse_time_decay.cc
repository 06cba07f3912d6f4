#include "ops/training/inverse_time_decay.h"

#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {

Output InverseTimeDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                        double decay_rate, const InverseTimeDecayOptions& options, SourceLocation where) {
  if (!decay::CheckArguments(g, options.name, global_step, {"decay_steps", decay_steps},
                             {{"learning_rate", learning_rate}, {"decay_rate", decay_rate}}, where)) {
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const Output progress = decay::Progress(g, global_step, decay_steps, options.staircase, where);
  const Output growth = Mul(g, decay::Number(g, decay_rate, where), progress, {}, where);
  const Output divisor = AddV2(g, decay::Number(g, 1, where), growth, {}, where);
  return RealDiv(g, decay::Number(g, learning_rate, where), divisor, {}, where);
}

}  // namespace weir
