#include "ops/training/noisy_linear_cosine_decay.h"

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {
namespace {

Output Noise(GraphBuilder& g, Output step, const NoisyLinearCosineDecayOptions& options,
             SourceLocation where) {
  const Output time = AddV2(g, decay::Number(g, 1, where), step, {}, where);
  const Output divisor = Pow(g, time, decay::Number(g, options.variance_decay, where), {}, where);
  const Output variance = RealDiv(g, decay::Number(g, options.initial_variance, where), divisor, {}, where);
  const auto seeds = g.NextRandomSeeds(options.seed);
  const Output normal = RandomStandardNormal(g, ConstIntegers(g, {}, {}, where), DType::kFloat32,
                                             {.seed = seeds.seed, .seed2 = seeds.seed2}, where);
  return Mul(g, normal, Sqrt(g, variance, {}, where), {}, where);
}

}  // namespace

Output NoisyLinearCosineDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                              const NoisyLinearCosineDecayOptions& options, SourceLocation where) {
  if (!decay::CheckArguments(g, options.name, global_step, {"decay_steps", decay_steps},
                             {{"learning_rate", learning_rate},
                              {"initial_variance", options.initial_variance},
                              {"variance_decay", options.variance_decay},
                              {"num_periods", options.num_periods},
                              {"alpha", options.alpha},
                              {"beta", options.beta}},
                             where)) {
    return {};
  }
  if (options.initial_variance < 0) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(options.name, ": initial_variance is ",
                                                       options.initial_variance, ", must not be negative")),
               where);
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const Output step = decay::StepUpTo(g, global_step, decay_steps, where);
  const Output last = decay::Number(g, static_cast<double>(decay_steps), where);
  const Output linear = RealDiv(g, Sub(g, last, step, {}, where), last, {}, where);
  const Output noisy = AddV2(g, linear, Noise(g, step, options, where), {}, where);
  const Output fraction =
      Mul(g, decay::Number(g, 2 * options.num_periods, where), RealDiv(g, step, last, {}, where), {}, where);
  const Output raised = AddV2(g, decay::Number(g, options.alpha, where), noisy, {}, where);
  const Output product = Mul(g, raised, decay::HalfCosine(g, fraction, where), {}, where);
  const Output decayed = AddV2(g, product, decay::Number(g, options.beta, where), {}, where);
  return Mul(g, decay::Number(g, learning_rate, where), decayed, {}, where);
}

}  // namespace weir
