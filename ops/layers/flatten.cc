#include "ops/layers/flatten.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/standard_ops.h"

namespace weir::layers {

Output Flatten(GraphBuilder& g, Output x, const FlattenOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name);
  if (!HasInput(g, "Flatten", x, where)) return {};
  int64_t features = x.shape().rank() < 1 ? -1 : 1;
  for (int i = 1; i < x.shape().rank(); ++i) {
    if (!MultiplyWithoutOverflow(features, x.shape().dim(i), &features)) features = -1;
  }
  if (features < 0 || features > std::numeric_limits<int32_t>::max()) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("Flatten '", g.name_scope(),
                                                       "': all dimensions of x but the first "
                                                       "must be known, x is ",
                                                       x.shape().ToString())),
               where);
    return {};
  }
  const Output shape = ConstIntegers(g, {-1, static_cast<int32_t>(features)}, {.name = "shape"}, where);
  return Reshape(g, x, shape, {}, where);
}

}  // namespace weir::layers
