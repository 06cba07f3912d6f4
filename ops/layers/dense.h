// activation(x * kernel + bias)
#pragma once

#include <string>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/layers/activation.h"

namespace weir::layers {

struct DenseOptions {
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  absl::string_view name = "dense";
};

// x: [batch, features], features known. Gives [batch, units]. No activation: linear.
Output Dense(GraphBuilder& g, Output x, int64_t units, const Activation& activation = nullptr,
             const DenseOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
