// A learning rate that falls along half a cosine again and again (Loshchilov and Hutter, 2016). Period i
// takes first_decay_steps * t_mul^i steps and begins at m_mul^i of the rate:
//
//   learning_rate * ((1 - alpha) * m_mul^i * (1 + cos(pi * completed part of period i)) / 2 + alpha)
//
// (tf.compat.v1.train.cosine_decay_restarts.)
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"

namespace weir {

struct CosineDecayRestartsOptions {
  double t_mul = 2;  // every period is so many times as long as the one before, at least 1
  double m_mul = 1;  // every period begins at so much of where the one before began
  double alpha = 0;  // the lowest value, as a fraction of learning_rate
  absl::string_view name = "SGDRDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for first_decay_steps or t_mul below 1, numbers that are not finite and a null global_step.
Output CosineDecayRestarts(GraphBuilder& g, double learning_rate, Output global_step,
                           int64_t first_decay_steps, const CosineDecayRestartsOptions& options = {},
                           SourceLocation where = SourceLocation::Current());

}  // namespace weir
