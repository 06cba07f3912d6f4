// A learning rate that falls in a line times a cosine (Bello et al., 2017), and then stays:
//
//   linear = (decay_steps - step) / decay_steps, with step at most decay_steps
//   learning_rate * ((alpha + linear) * (1 + cos(2 pi * num_periods * step / decay_steps)) / 2 + beta)
//
// (tf.compat.v1.train.linear_cosine_decay.)
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"

namespace weir {

struct LinearCosineDecayOptions {
  double num_periods = 0.5;  // of the cosine
  double alpha = 0;          // added to the line
  double beta = 0.001;       // added to the product
  absl::string_view name = "LinearCosineDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for decay_steps below 1, numbers that are not finite and a null global_step.
Output LinearCosineDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                         const LinearCosineDecayOptions& options = {},
                         SourceLocation where = SourceLocation::Current());

}  // namespace weir
