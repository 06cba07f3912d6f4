// A learning rate that falls along half a cosine (Loshchilov and Hutter, 2016) and stays at its lowest value:
//
//   learning_rate * ((1 - alpha) * (1 + cos(pi * min(step, decay_steps) / decay_steps)) / 2 + alpha)
//
// (tf.compat.v1.train.cosine_decay.)
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"

namespace weir {

struct CosineDecayOptions {
  double alpha = 0;  // the lowest value, as a fraction of learning_rate
  absl::string_view name = "CosineDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for decay_steps below 1, numbers that are not finite and a null global_step.
Output CosineDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                   const CosineDecayOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir
