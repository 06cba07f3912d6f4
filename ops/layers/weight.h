// A variable of a layer, with what layers let their users choose for each: its first value, its regularizer,
// and into how many parts it is cut.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/partitioner.h"
#include "ops/regularizers.h"

namespace weir::layers {

struct WeightOptions {
  Initializer initializer;
  Regularizer regularizer;  // none if empty
  bool trainable = true;
  Partitioner partitioner;  // one part if empty
};

// Those of a kernel and of a bias, out of the options of a layer that has both.
template <typename LayerOptions>
WeightOptions KernelOf(const LayerOptions& options) {
  return {options.kernel_initializer, options.kernel_regularizer, options.trainable, options.partitioner};
}
template <typename LayerOptions>
WeightOptions BiasOf(const LayerOptions& options) {
  return {options.bias_initializer, options.bias_regularizer, options.trainable, options.partitioner};
}

// "<layer>/<name>" in the layer's name scope. The regularizer's output, "<layer>/<name>/Regularizer/...", is
// computed beside the variable and put into the collection "regularization_losses". InvalidArgument, in the
// builder, for sizes that are negative or too many numbers for a tensor.
//
// With a partitioner its parts are variables "<layer>/<name>/part_0" and so on (ops/partitioned_variable.h),
// each with a regularizer of its own. Gives what a step reads: the value, or all parts as one tensor.
Output AddWeight(GraphBuilder& g, absl::string_view name, DType dtype, const std::vector<int64_t>& dims,
                 const WeightOptions& options, SourceLocation where);

// x + a new weight "bias" of x's channels.
Output AddBias(GraphBuilder& g, Output x, int64_t channels, absl::string_view data_format,
               const WeightOptions& options, SourceLocation where);

}  // namespace weir::layers
