// A learning rate that is multiplied by decay_rate over every decay_steps steps:
//
//   learning_rate * decay_rate^(step / decay_steps)
//
// (tf.compat.v1.train.exponential_decay.)
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"

namespace weir {

struct ExponentialDecayOptions {
  bool staircase = false;  // true: step / decay_steps is rounded down, and the rate falls in steps
  absl::string_view name = "ExponentialDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for decay_steps below 1, numbers that are not finite and a null global_step.
Output ExponentialDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                        double decay_rate, const ExponentialDecayOptions& options = {},
                        SourceLocation where = SourceLocation::Current());

}  // namespace weir
