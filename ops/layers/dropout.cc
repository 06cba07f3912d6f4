#include "ops/layers/dropout.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/standard_ops.h"

namespace weir::layers {
namespace {

// rate while training and 0 otherwise, as a scalar of the dtype.
Output EffectiveRate(GraphBuilder& g, DType dtype, double rate, const std::variant<bool, Output>& training,
                     SourceLocation where) {
  const Output constant = ConstOf(g, dtype, rate, {.name = "rate"}, where);
  if (std::holds_alternative<bool>(training)) return constant;
  return SelectV2(g, std::get<Output>(training), constant, ConstOf(g, dtype, 0, {}, where), {}, where);
}

}  // namespace

Output Dropout(GraphBuilder& g, Output x, double rate, std::variant<bool, Output> training,
               const DropoutOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name);
  if (!HasInput(g, "Dropout", x, where)) return {};
  if (!(rate >= 0 && rate < 1)) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("Dropout '", g.name_scope(), "': rate must be in [0, 1), is ", rate)),
               where);
    return {};
  }
  const bool* const is_training = std::get_if<bool>(&training);
  if (is_training != nullptr && (!*is_training || rate == 0)) return Identity(g, x, {}, where);
  const Output dropped = EffectiveRate(g, x.dtype(), rate, training, where);
  const auto seeds = g.NextRandomSeeds(options.seed);
  const Output random = RandomUniform(g, ShapeOf(g, x, {}, where), x.dtype(),
                                      {.seed = seeds.seed, .seed2 = seeds.seed2}, where);
  const Output is_kept = GreaterEqual(g, random, dropped, {}, where);
  const Output scale =
      Reciprocal(g, Sub(g, ConstOf(g, x.dtype(), 1, {}, where), dropped, {}, where), {}, where);
  const Output mask = Mul(g, Cast(g, is_kept, x.dtype(), {}, where), scale, {}, where);
  return Mul(g, x, mask, {}, where);
}

}  // namespace weir::layers
