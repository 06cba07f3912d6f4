#include "ops/losses/operands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir::losses {

bool CheckSameShapes(GraphBuilder& g, absl::string_view name, const Output& labels, const Output& predictions,
                     SourceLocation where) {
  if (!g.ok()) return false;
  for (const auto& [argument, x] : {std::pair("labels", labels), std::pair("predictions", predictions)}) {
    if (x && !CheckGiven(g, name, argument, x, where)) return false;
  }
  if (labels && predictions && labels.shape().IsCompatibleWith(predictions.shape())) return true;
  const auto shape_of = [](const Output& x) { return x ? x.shape().ToString() : "missing"; };
  g.SetError(absl::InvalidArgumentError(
                 absl::StrCat(name, ": labels and predictions must have one shape: labels are ",
                              shape_of(labels), ", predictions are ", shape_of(predictions))),
             where);
  return false;
}

Output CastTo(GraphBuilder& g, Output x, DType dtype, SourceLocation where) {
  return x && x.dtype() != dtype ? Cast(g, x, dtype, {}, where) : x;
}

LossOptions Named(LossOptions options, absl::string_view name) {
  if (options.name.empty()) options.name = name;
  return options;
}

}  // namespace weir::losses
