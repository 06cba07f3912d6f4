// The area under the ROC curve (tf.metrics.auc): how probable it is that a positive example gets a higher
// score than a negative one. 0.5 is guessing.
//
// The curve is known at num_thresholds points, between which it is taken for straight; scores that crowd
// between two thresholds make the result coarse.
#pragma once

#include "graph/graph_builder.h"
#include "ops/metrics/metric.h"

namespace weir::metrics {

struct AucOptions {
  int num_thresholds = 200;  // from 2 to 100,000
  std::variant<double, Output> weights = 1.0;
  absl::string_view name = "auc";
};

// labels: bools, or numbers of which all but 0 are positive. predictions: scores from 0 to 1, of the same
// shape.
Metric Auc(GraphBuilder& g, Output labels, Output predictions, const AucOptions& options = {},
           SourceLocation where = SourceLocation::Current());

}  // namespace weir::metrics
