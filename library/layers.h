// Layers: functions that add the variables and ops of one layer of a network; losses and regularizers.
#pragma once

#include "ops/layers/activation.h"
#include "ops/layers/layers.h"
#include "ops/layers/window.h"
#include "ops/losses/losses.h"
#include "ops/regularizers.h"
