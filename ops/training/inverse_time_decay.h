// A learning rate that falls like the inverse of the time:
//
//   learning_rate / (1 + decay_rate * step / decay_steps)
//
// (tf.compat.v1.train.inverse_time_decay.)
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"

namespace weir {

struct InverseTimeDecayOptions {
  bool staircase = false;  // true: step / decay_steps is rounded down, and the rate falls in steps
  absl::string_view name = "InverseTimeDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for decay_steps below 1, numbers that are not finite and a null global_step.
Output InverseTimeDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                        double decay_rate, const InverseTimeDecayOptions& options = {},
                        SourceLocation where = SourceLocation::Current());

}  // namespace weir
