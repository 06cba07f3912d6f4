// Layers: functions that add the variables and ops of one layer of a network; losses, regularizers and
// metrics.
#pragma once

#include "ops/layers/activation.h"
#include "ops/layers/layers.h"
#include "ops/layers/window.h"
#include "ops/losses/losses.h"
#include "ops/metrics/metrics.h"
#include "ops/regularizers.h"
