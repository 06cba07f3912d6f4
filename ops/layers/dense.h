// activation(x * kernel + bias)
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/layers/activation.h"
#include "ops/partitioner.h"
#include "ops/regularizers.h"

namespace weir::layers {

struct DenseOptions {
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Partitioner partitioner;  // of the kernel and of the bias
  bool trainable = true;
  absl::string_view name = "dense";
};

// x: [..., features] of rank 2 or more, features known. Gives [..., units]. No activation: linear. Variables:
// kernel [features, units], bias [units]. InvalidArgument, in the builder, for other shapes or units below 1.
Output Dense(GraphBuilder& g, Output x, int64_t units, const Activation& activation = nullptr,
             const DenseOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
