// activation(convolution of x with the kernel + bias)
#pragma once

#include "graph/graph_builder.h"
#include "ops/layers/activation.h"
#include "ops/layers/convolution_options.h"
#include "ops/layers/window.h"

namespace weir::layers {

// x: images [batch, height, width, channels], channels known; data_format may be "NCHW". Gives images with
// `filters` channels. Variables: kernel [height, width, channels, filters], bias [filters]. InvalidArgument,
// in the builder, for other shapes and for sizes below 1.
Output Conv2D(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
              const Activation& activation = nullptr, const Conv2DOptions& options = {},
              SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
