// A learning rate that falls in a line with noise, times a cosine (Bello et al., 2017), and then stays:
//
//   linear = (decay_steps - step) / decay_steps + noise, with step at most decay_steps
//   learning_rate * ((alpha + linear) * (1 + cos(2 pi * num_periods * step / decay_steps)) / 2 + beta)
//
// The noise is drawn in every step, normally distributed with variance initial_variance / (1 + step)^
// variance_decay. (tf.compat.v1.train.noisy_linear_cosine_decay, whose noise has the graph's seed alone.)
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph_builder.h"

namespace weir {

struct NoisyLinearCosineDecayOptions {
  double initial_variance = 1;  // of the noise; not negative
  double variance_decay = 0.55;
  double num_periods = 0.5;  // of the cosine
  double alpha = 0;          // added to the line
  double beta = 0.001;       // added to the product
  std::optional<int64_t> seed;
  absl::string_view name = "NoisyLinearCosineDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for decay_steps below 1, numbers that are not finite and a null global_step.
Output NoisyLinearCosineDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                              const NoisyLinearCosineDecayOptions& options = {},
                              SourceLocation where = SourceLocation::Current());

}  // namespace weir
