// All learning rates that change with the global step, as in tf.compat.v1.train. Each gives a scalar for an
// optimizer:
//
//   const ModelVariable step = GlobalStep(g);
//   Node* train = Momentum(CosineDecay(g, 0.1, step.value, 10'000), 0.9).Minimize(g, loss, step).value();
#pragma once

#include "ops/training/cosine_decay.h"
#include "ops/training/cosine_decay_restarts.h"
#include "ops/training/exponential_decay.h"
#include "ops/training/inverse_time_decay.h"
#include "ops/training/linear_cosine_decay.h"
#include "ops/training/natural_exp_decay.h"
#include "ops/training/noisy_linear_cosine_decay.h"
#include "ops/training/piecewise_constant.h"
#include "ops/training/polynomial_decay.h"
