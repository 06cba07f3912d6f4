// What the layers of transposed convolutions, of images and of volumes, do before their op: check what they
// are given, make the kernel, and compute the shape of the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "ops/layers/weight.h"

namespace weir::layers {

// x: [batch, ..., channels], or [batch, channels, ...] for a format that begins with "NC". The lists have a
// number for each dimension that the window slides along.
struct TransposedConvolution {
  absl::string_view layer;    // which errors begin with: "Conv2DTranspose"
  absl::string_view operand;  // what x is: "images"
  std::string data_format;
  int64_t filters = 0;
  std::vector<int64_t> kernel_size, strides, dilations;
  std::string padding;
};

struct TransposedOperands {
  Output kernel;        // [window..., filters, channels]
  Output result_shape;  // int32: a side is side * stride, "VALID" also + max(kernel size - stride, 0)
};

// Null outputs, and InvalidArgument in the builder: for other shapes, sizes below 1, dilations other than 1
// and results too large.
TransposedOperands MakeTransposedOperands(GraphBuilder& g, Output x, const TransposedConvolution& convolution,
                                          const WeightOptions& kernel, SourceLocation where);

}  // namespace weir::layers
