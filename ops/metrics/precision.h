// How good positive answers are (tf.metrics): how many of them are right, and how many positives they find.
//
// labels and predictions: bools, or numbers of which all but 0 are positive; of one shape.
#pragma once

#include "graph/graph_builder.h"
#include "ops/metrics/metric.h"

namespace weir::metrics {

// true positives / (true positives + false positives), and 0 where there are none.
Metric Precision(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options = {},
                 SourceLocation where = SourceLocation::Current());

// true positives / (true positives + false negatives), and 0 where there are none.
Metric Recall(GraphBuilder& g, Output labels, Output predictions, const MetricOptions& options = {},
              SourceLocation where = SourceLocation::Current());

}  // namespace weir::metrics
