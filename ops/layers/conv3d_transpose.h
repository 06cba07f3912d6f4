// activation(transposed convolution + bias): the gradient of a convolution, which makes volumes larger.
#pragma once

#include "graph/graph_builder.h"
#include "ops/layers/activation.h"
#include "ops/layers/convolution_options.h"
#include "ops/layers/window.h"

namespace weir::layers {

// x: volumes [batch, depth, height, width, channels], channels known. Gives volumes with `filters` channels,
// whose depth is depth * stride ("SAME") or depth * stride + max(kernel depth - stride, 0) ("VALID"); height
// and width likewise. Variables: kernel [depth, height, width, filters, channels], bias [filters].
// InvalidArgument, in the builder, for other shapes, for sizes below 1, for dilations other than 1, for a
// data_format other than "NDHWC", and for results too large.
Output Conv3DTranspose(GraphBuilder& g, Output x, int64_t filters, Window3D kernel_size,
                       const Activation& activation = nullptr, const Conv3DOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
