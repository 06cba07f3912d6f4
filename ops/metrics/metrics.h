// All metrics, as in tf.metrics.
#pragma once

#include "ops/metrics/auc.h"
#include "ops/metrics/mean.h"
#include "ops/metrics/metric.h"
#include "ops/metrics/precision.h"
