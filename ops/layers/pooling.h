// The largest or mean element of every window of an image, sequence or volume,
// channel by channel.
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

// x: images [batch, height, width, channels].
Output MaxPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output AvgPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides,
                 const PoolingOptions& options = {}, SourceLocation where = SourceLocation::Current());

struct Pooling1DOptions {
  std::string padding = "VALID";    // or "SAME"
  std::string data_format = "NWC";  // or "NCW"
  absl::string_view name = "";      // "" is "max_pooling1d" or "average_pooling1d"
};

// x: sequences [batch, length, channels].
Output MaxPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride,
                 const Pooling1DOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output AvgPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride,
                 const Pooling1DOptions& options = {}, SourceLocation where = SourceLocation::Current());

struct Pooling3DOptions {
  std::string padding = "VALID";  // or "SAME"
  absl::string_view name = "";    // "" is "max_pooling3d" or "average_pooling3d"
};

// x: volumes [batch, depth, height, width, channels].
Output MaxPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const Pooling3DOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output AvgPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const Pooling3DOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
