#include "ops/layers/conv2d_transpose.h"

#include <string>

#include "ops/layers/layer_ends.h"
#include "ops/layers/transposed_convolution.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {

Output Conv2DTranspose(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
                       const Activation& activation, const Conv2DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "conv2d_transpose" : options.name);
  const std::string format = options.data_format.empty() ? "NHWC" : options.data_format;
  const TransposedOperands operands =
      MakeTransposedOperands(g, x,
                             {.layer = "Conv2DTranspose",
                              .operand = "images",
                              .data_format = format,
                              .filters = filters,
                              .kernel_size = {kernel_size.height, kernel_size.width},
                              .strides = {options.strides.height, options.strides.width},
                              .dilations = {options.dilations.height, options.dilations.width},
                              .padding = options.padding},
                             KernelOf(options), where);
  if (!operands.kernel) return {};
  Output y =
      Conv2DBackpropInput(g, operands.result_shape, operands.kernel, x, options.strides.PerDimension(format),
                          options.padding, {.data_format = format}, where);
  if (options.use_bias) y = AddBias(g, y, filters, format, BiasOf(options), where);
  return Activate(g, "Conv2DTranspose", y, activation, where);
}

}  // namespace weir::layers
