// Losses of regressions (tf.losses): how far predictions are from labels.
//
//   Output loss = losses::MeanSquaredError(g, labels, predictions);
//
// labels and predictions: real numbers of one shape, cast to float. Each gives the weighted loss of
// weighted_loss.h. Errors, InvalidArgument, stick in the builder.
#pragma once

#include "graph/graph_builder.h"
#include "ops/losses/weighted_loss.h"

namespace weir::losses {

// |predictions - labels|
Output AbsoluteDifference(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options = {},
                          SourceLocation where = SourceLocation::Current());

// (predictions - labels)^2
Output MeanSquaredError(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options = {},
                        SourceLocation where = SourceLocation::Current());

// With d = |predictions - labels|: d^2 / 2 up to delta, then delta * (d - delta / 2). delta is not negative.
Output HuberLoss(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options = {},
                 double delta = 1, SourceLocation where = SourceLocation::Current());

// 1 - sum(labels * predictions) along the axis, which is kept; for vectors of length 1 that is one less the
// cosine of their angle. axis may count from the back.
Output CosineDistance(GraphBuilder& g, Output labels, Output predictions, int axis,
                      const LossOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir::losses
