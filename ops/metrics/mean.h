// Means over all batches (tf.metrics): sum(elements * weights) / sum(weights), and 0 before the first batch.
#pragma once

#include "graph/graph_builder.h"
#include "ops/metrics/metric.h"

namespace weir::metrics {

// Of real numbers of any shape.
Metric Mean(GraphBuilder& g, Output values, const MetricOptions& options = {},
            SourceLocation where = SourceLocation::Current());

// How often predictions equal labels; both of one shape and numbers. Predictions are cast to the labels'
// dtype.
Metric Accuracy(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options = {},
                SourceLocation where = SourceLocation::Current());

// (predictions - labels)^2; both of one shape and numbers.
Metric MeanSquaredError(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options = {},
                        SourceLocation where = SourceLocation::Current());

}  // namespace weir::metrics
