// The largest or mean element of every window of an image, channel by channel.
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/layers/window.h"

namespace weir::layers {

struct PoolingOptions {
  std::string padding = "VALID";     // or "SAME"
  std::string data_format = "NHWC";  // or "NCHW"
  absl::string_view name = "";       // "" is "max_pooling2d" or "average_pooling2d"
};

Output MaxPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output AvgPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
