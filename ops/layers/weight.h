// A variable of a layer, with what layers let their users choose for each: its first value and its
// regularizer.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/regularizers.h"
#include "ops/variable.h"

namespace weir::layers {

struct WeightOptions {
  Initializer initializer;
  Regularizer regularizer;  // none if empty
  bool trainable = true;
};

// "<layer>/<name>" in the layer's name scope. The regularizer's output, "<layer>/<name>/Regularizer/...", is
// computed beside the variable and put into the collection "regularization_losses". InvalidArgument, in the
// builder, for sizes that are negative or too many numbers for a tensor.
ModelVariable MakeWeight(GraphBuilder& g, absl::string_view name, DType dtype,
                         const std::vector<int64_t>& dims, const WeightOptions& options,
                         SourceLocation where);

// x + a new weight "bias" of x's channels.
Output AddBias(GraphBuilder& g, Output x, int64_t channels, absl::string_view data_format,
               const WeightOptions& options, SourceLocation where);

}  // namespace weir::layers
