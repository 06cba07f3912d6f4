// activation(convolution of volumes with the kernel + bias)
#pragma once

#include "graph/graph_builder.h"
#include "ops/layers/activation.h"
#include "ops/layers/convolution_options.h"
#include "ops/layers/window.h"

namespace weir::layers {

// x: volumes [batch, depth, height, width, channels], channels known. Gives
// volumes with `filters` channels. Variables: kernel [depth, height, width,
// channels, filters], bias [filters]. InvalidArgument, in the builder, for
// other shapes, for sizes below 1, and for a data_format other than "NDHWC".
Output Conv3D(GraphBuilder& g, Output x, int64_t filters, Window3D kernel_size,
              const Activation& activation = nullptr, const Conv3DOptions& options = {},
              SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
