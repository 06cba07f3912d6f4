// activation(convolution of sequences with the kernel + bias)
#pragma once

#include "graph/graph_builder.h"
#include "ops/layers/activation.h"
#include "ops/layers/convolution_options.h"

namespace weir::layers {

// x: sequences [batch, length, channels], channels known; data_format may be "NCW". Gives sequences with
// `filters` channels. Variables: kernel [kernel_size, channels, filters], bias [filters]. InvalidArgument, in
// the builder, for other shapes and for sizes below 1.
Output Conv1D(GraphBuilder& g, Output x, int64_t filters, int64_t kernel_size,
              const Activation& activation = nullptr, const Conv1DOptions& options = {},
              SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
