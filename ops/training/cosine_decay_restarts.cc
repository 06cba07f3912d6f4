#include "ops/training/cosine_decay_restarts.h"

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {
namespace {

struct Period {
  Output index;
  Output completed;  // the part of it that has passed, from 0 to 1
};

// progress: in lengths of period 0.
Period PeriodAt(GraphBuilder& g, Output progress, double t_mul, SourceLocation where) {
  if (t_mul == 1) {
    const Output index = Floor(g, progress, {}, where);
    return {index, Sub(g, progress, index, {}, where)};
  }
  // The periods before period i take (1 - t_mul^i) / (1 - t_mul) together.
  const Output one = decay::Number(g, 1, where);
  const Output ratio = decay::Number(g, t_mul, where);
  const Output shrinking = Sub(g, one, ratio, {}, where);
  const Output power = Log(g, Sub(g, one, Mul(g, progress, shrinking, {}, where), {}, where), {}, where);
  const Output index = Floor(g, RealDiv(g, power, Log(g, ratio, {}, where), {}, where), {}, where);
  const Output length = Pow(g, ratio, index, {}, where);
  const Output before = RealDiv(g, Sub(g, one, length, {}, where), shrinking, {}, where);
  return {index, RealDiv(g, Sub(g, progress, before, {}, where), length, {}, where)};
}

}  // namespace

Output CosineDecayRestarts(GraphBuilder& g, double learning_rate, Output global_step,
                           int64_t first_decay_steps, const CosineDecayRestartsOptions& options,
                           SourceLocation where) {
  if (!decay::CheckArguments(g, options.name, global_step, {"first_decay_steps", first_decay_steps},
                             {{"learning_rate", learning_rate},
                              {"t_mul", options.t_mul},
                              {"m_mul", options.m_mul},
                              {"alpha", options.alpha}},
                             where)) {
    return {};
  }
  if (!(options.t_mul >= 1)) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat(options.name, ": t_mul is ", options.t_mul, ", must be at least 1")),
               where);
    return {};
  }
  const auto scope = g.NameScope(options.name);
  const Output progress = decay::Progress(g, global_step, first_decay_steps, false, where);
  const Period period = PeriodAt(g, progress, options.t_mul, where);
  const Output height = Pow(g, decay::Number(g, options.m_mul, where), period.index, {}, where);
  const Output cosine = Mul(g, height, decay::HalfCosine(g, period.completed, where), {}, where);
  const Output scaled = Mul(g, decay::Number(g, 1 - options.alpha, where), cosine, {}, where);
  const Output decayed = AddV2(g, scaled, decay::Number(g, options.alpha, where), {}, where);
  return Mul(g, decay::Number(g, learning_rate, where), decayed, {}, where);
}

}  // namespace weir
