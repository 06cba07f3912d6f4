#include "ops/layers/layer_ends.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"

namespace weir::layers {

bool HasInput(GraphBuilder& g, absl::string_view layer, const Output& x, SourceLocation where) {
  return CheckGiven(g, absl::StrCat(layer, " '", g.name_scope(), "'"), "x", x, where);
}

Output Activate(GraphBuilder& g, absl::string_view layer, Output y, const Activation& activation,
                SourceLocation where) {
  if (!activation || !y) return y;
  const Output activated = activation(g, y, {}, where);
  const std::string asker = absl::StrCat(layer, " '", g.name_scope(), "'");
  return CheckGiven(g, asker, "what the activation gave", activated, where) ? activated : Output();
}

}  // namespace weir::layers
