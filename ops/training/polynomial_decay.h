// A learning rate that falls from one value to another while the global step counts to decay_steps, and stays
// there:
//
//   (learning_rate - end) * (1 - min(step, decay_steps) / decay_steps)^power + end
//
// Power 1, the default, is a straight line. With `cycle` the rate rises again after every decay_steps: the
// formula then has the smallest multiple of decay_steps that step has not passed in place of decay_steps.
// (tf.compat.v1.train.polynomial_decay.)
#pragma once

#include "graph/graph_builder.h"

namespace weir {

struct PolynomialDecayOptions {
  double end_learning_rate = 0.0001;
  double power = 1.0;
  bool cycle = false;
  absl::string_view name = "PolynomialDecay";
};

// A float scalar for an optimizer's learning rate. global_step: an integer scalar. InvalidArgument, in the
// builder, for decay_steps below 1, numbers that are not finite and a null global_step.
Output PolynomialDecay(GraphBuilder& g, double learning_rate, Output global_step, int64_t decay_steps,
                       const PolynomialDecayOptions& options = {},
                       SourceLocation where = SourceLocation::Current());

}  // namespace weir
