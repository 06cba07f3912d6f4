#include "ops/layers/dense.h"

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir::layers {

Output Dense(GraphBuilder& g, Output x, int64_t units, const Activation& activation,
             const DenseOptions& options, SourceLocation where) {
  if (!x) return {};
  const auto scope = g.NameScope(options.name);
  if (x.shape().rank() != 2 || x.shape().dim(1) == PartialShape::kUnknownDim || units < 1) {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat("Dense '", g.name_scope(),
                                                "': x must be [batch,features] with known features and units "
                                                "at least 1: x is ",
                                                x.shape().ToString(), ", units is ", units)),
        where);
    return {};
  }
  const Shape kernel_shape({x.shape().dim(1), units});
  const ModelVariable kernel =
      MakeVariable(g, "kernel", x.dtype(), kernel_shape, options.kernel_initializer, {}, where);
  Output y = MatMul(g, x, kernel.value, {}, where);
  if (options.use_bias) {
    const ModelVariable bias =
        MakeVariable(g, "bias", x.dtype(), Shape({units}), options.bias_initializer, {}, where);
    y = BiasAdd(g, y, bias.value, {}, where);
  }
  return activation ? activation(g, y, {}, where) : y;
}

}  // namespace weir::layers
