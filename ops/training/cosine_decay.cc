#include "ops/training/cosine_decay.h"

#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {

Output CosineDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                   const CosineDecayOptions& options, SourceLocation where) {
  if (!decay::CheckArguments(g, options.name, global_step, {"decay_steps", decay_steps},
                             {{"learning_rate", learning_rate}, {"alpha", options.alpha}}, where)) {
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const Output step = decay::StepUpTo(g, global_step, decay_steps, where);
  const Output last = decay::Number(g, static_cast<double>(decay_steps), where);
  const Output cosine = decay::HalfCosine(g, RealDiv(g, step, last, {}, where), where);
  const Output scaled = Mul(g, decay::Number(g, 1 - options.alpha, where), cosine, {}, where);
  const Output decayed = AddV2(g, scaled, decay::Number(g, options.alpha, where), {}, where);
  return Mul(g, decay::Number(g, learning_rate, where), decayed, {}, where);
}

}  // namespace weir
