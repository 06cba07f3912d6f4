// Losses of classifiers (tf.losses): how far scores or probabilities are from labels.
//
//   Output loss = losses::SparseSoftmaxCrossEntropy(g, labels, logits);
//
// Each gives the weighted loss of weighted_loss.h, one loss for each example or, where classes are not
// exclusive, for each element. Errors, InvalidArgument, stick in the builder.
#pragma once

#include "graph/graph_builder.h"
#include "ops/losses/weighted_loss.h"

namespace weir::losses {

// The cross entropy of softmax(logits) with labels that are distributions. Both are [..., classes]. With
// label_smoothing s, labels become labels * (1 - s) + s / classes. No gradient flows into the labels.
Output SoftmaxCrossEntropy(GraphBuilder& g, Output onehot_labels, Output logits,
                           const LossOptions& options = {}, double label_smoothing = 0,
                           SourceLocation where = SourceLocation::Current());

// The same for labels that are numbers of classes (int32 or int64): labels [...], logits [..., classes],
// known ranks. Labels of the logits' rank may end in a dimension of 1, which is dropped, and so may the
// weights.
Output SparseSoftmaxCrossEntropy(GraphBuilder& g, Output labels, Output logits,
                                 const LossOptions& options = {},
                                 SourceLocation where = SourceLocation::Current());

// The cross entropy of sigmoid(logits) with labels from 0 to 1, elementwise. With label_smoothing s, labels
// become labels * (1 - s) + s / 2.
Output SigmoidCrossEntropy(GraphBuilder& g, Output multi_class_labels, Output logits,
                           const LossOptions& options = {}, double label_smoothing = 0,
                           SourceLocation where = SourceLocation::Current());

// -labels * log(predictions + epsilon) - (1 - labels) * log(1 - predictions + epsilon), for probabilities.
Output LogLoss(GraphBuilder& g, Output labels, Output predictions, const LossOptions& options = {},
               double epsilon = 1e-7, SourceLocation where = SourceLocation::Current());

// max(0, 1 - (2 * labels - 1) * logits), for labels 0 and 1.
Output HingeLoss(GraphBuilder& g, Output labels, Output logits, const LossOptions& options = {},
                 SourceLocation where = SourceLocation::Current());

}  // namespace weir::losses
