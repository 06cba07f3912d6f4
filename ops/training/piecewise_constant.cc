#include "ops/training/piecewise_constant.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"
#include "ops/training/decay.h"

namespace weir {

Output PiecewiseConstant(GraphBuilder& g, Output global_step, const std::vector<int64_t>& boundaries,
                         const std::vector<double>& values, const PiecewiseConstantOptions& options,
                         SourceLocation where) {
  const bool ascend =
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end();
  if (!ascend || values.size() != boundaries.size() + 1) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   options.name, ": boundaries must ascend, with one value more than boundaries: they are [",
                   absl::StrJoin(boundaries, ", "), "], the values are [", absl::StrJoin(values, ", "), "]")),
               where);
    return {};
  }
  if (!decay::CheckStep(g, options.name, global_step, where)) return {};
  for (const double value : values) {
    if (!CheckFinite(g, options.name, {{"each of the values", value}}, where)) return {};
  }
  const auto name_scope = g.NameScope(options.name);
  Output rate = Const(g, static_cast<float>(values[0]), {}, where);
  for (size_t i = 0; i < boundaries.size(); ++i) {
    const Output is_after = Greater(g, global_step, Const(g, boundaries[i], {}, where), {}, where);
    rate = SelectV2(g, is_after, Const(g, static_cast<float>(values[i + 1]), {}, where), rate, {}, where);
  }
  return rate;
}

}  // namespace weir
