// All losses, as in tf.losses.
#pragma once

#include "ops/losses/cross_entropy.h"
#include "ops/losses/regression.h"
#include "ops/losses/total_loss.h"
#include "ops/losses/weighted_loss.h"
