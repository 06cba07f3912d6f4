#include "ops/layers/conv3d_transpose.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/layers/transposed_convolution.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {

Output Conv3DTranspose(GraphBuilder& g, Output x, int64_t filters, Window3D kernel_size,
                       const Activation& activation, const Conv3DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "conv3d_transpose" : options.name);
  if (!options.data_format.empty() && options.data_format != "NDHWC") {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat("Conv3DTranspose '", g.name_scope(),
                                                "': data_format must be NDHWC, is ", options.data_format)),
        where);
    return {};
  }
  const Window3D &strides = options.strides, &dilations = options.dilations;
  const TransposedOperands operands =
      MakeTransposedOperands(g, x,
                             {.layer = "Conv3DTranspose",
                              .operand = "volumes",
                              .data_format = "NDHWC",
                              .filters = filters,
                              .kernel_size = {kernel_size.depth, kernel_size.height, kernel_size.width},
                              .strides = {strides.depth, strides.height, strides.width},
                              .dilations = {dilations.depth, dilations.height, dilations.width},
                              .padding = options.padding},
                             KernelOf(options), where);
  if (!operands.kernel) return {};
  Output y = Conv3DBackpropInputV2(g, operands.result_shape, operands.kernel, x, strides.PerDimension(),
                                   options.padding, {}, where);
  if (options.use_bias) y = AddBias(g, y, filters, "NHWC", BiasOf(options), where);
  return Activate(g, "Conv3DTranspose", y, activation, where);
}

}  // namespace weir::layers
