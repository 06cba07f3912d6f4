// activation(transposed convolution + bias): the gradient of a convolution, which makes images larger.
#pragma once

#include "graph/graph_builder.h"
#include "ops/layers/activation.h"
#include "ops/layers/convolution_options.h"
#include "ops/layers/window.h"

namespace weir::layers {

// x: images [batch, height, width, channels], channels known; data_format may be "NCHW". Gives images with
// `filters` channels, whose height is height * stride ("SAME") or height * stride + max(kernel height -
// stride, 0) ("VALID"); the width likewise. Variables: kernel [height, width, filters, channels], bias
// [filters]. InvalidArgument, in the builder, for other shapes, for sizes below 1, for dilations other than
// 1, and for results too large.
Output Conv2DTranspose(GraphBuilder& g, Output x, int64_t filters, Window kernel_size,
                       const Activation& activation = nullptr, const Conv2DOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
