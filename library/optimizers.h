// Optimizers, synchronous replicas, asynchronous schemes with copies on workers or with a look at staleness,
// clipping of gradients, moving averages, scaled losses, and learning rates that change with the global step.
#pragma once

#include "ops/training/adadelta.h"
#include "ops/training/adagrad.h"
#include "ops/training/adam.h"
#include "ops/training/clipping.h"
#include "ops/training/downpour.h"
#include "ops/training/dyn_sgd.h"
#include "ops/training/elastic_averaging.h"
#include "ops/training/exponential_moving_average.h"
#include "ops/training/ftrl.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/learning_rates.h"
#include "ops/training/local_steps.h"
#include "ops/training/loss_scale_optimizer.h"
#include "ops/training/momentum.h"
#include "ops/training/optimizer.h"
#include "ops/training/rms_prop.h"
#include "ops/training/sync_replicas.h"
