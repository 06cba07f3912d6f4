// The largest or mean element of every window of an image, sequence or volume, channel by channel.
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/layers/window.h"

namespace weir::layers {

struct PoolingOptions {
  std::string padding = "VALID";  // or "SAME"
  std::string data_format;        // "" has channels last; the layer says what others there are
  absl::string_view name = "";    // "" is the layer's: "max_pooling2d", "average_pooling1d"...
};

// x: images [batch, height, width, channels] (NHWC); data_format may be "NCHW".
Output MaxPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output AvgPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());

// x: sequences [batch, length, channels] (NWC); data_format may be "NCW".
Output MaxPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output AvgPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());

// x: volumes [batch, depth, height, width, channels] (NDHWC, the only format).
Output MaxPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output AvgPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
