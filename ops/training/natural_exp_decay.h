// A learning rate that falls exponentially, at a rate given for the natural exponential function:
//
//   learning_rate * exp(-decay_rate)^(step / decay_steps)
//
// (tf.compat.v1.train.natural_exp_decay, which names its nodes after the exponential decay.)
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"

namespace weir {

struct NaturalExpDecayOptions {
  bool staircase = false;  // true: step / decay_steps is rounded down, and the rate falls in steps
  absl::string_view name = "ExponentialDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for decay_steps below 1, numbers that are not finite and a null global_step.
Output NaturalExpDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                       double decay_rate, const NaturalExpDecayOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

}  // namespace weir
