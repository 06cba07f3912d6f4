#include "ops/layers/pooling.h"

#include "ops/standard_ops.h"

namespace weir::layers {

Output MaxPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "max_pooling2d" : options.name);
  return MaxPool(g, x, pool_size.PerDimension(options.data_format), strides.PerDimension(options.data_format),
                 options.padding, {.data_format = options.data_format}, where);
}

Output AvgPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "average_pooling2d" : options.name);
  return AvgPool(g, x, pool_size.PerDimension(options.data_format), strides.PerDimension(options.data_format),
                 options.padding, {.data_format = options.data_format}, where);
}

}  // namespace weir::layers
