// Losses of a batch, weighted and made one number: what all losses of this folder end with
// (tf.losses.compute_weighted_loss).
//
// A loss adds its result to the collection "losses" (LossOptions::collection), from which total_loss.h takes
// it. Errors stick in the builder.
#pragma once

#include <string>
#include <variant>

#include "graph/graph_builder.h"

namespace weir::losses {

// How losses * weights become one number. Where the divisor is 0 the result is 0.
enum class Reduction {
  kNone,                 // they do not: the weighted losses
  kSum,                  // their sum
  kMean,                 // the sum divided by the sum of the weights
  kSumOverBatchSize,     // the sum divided by the number of losses
  kSumByNonzeroWeights,  // the sum divided by the number of losses whose weight is not 0
};

struct LossOptions {
  // A number, or a tensor: a scalar, or of the losses' rank with every dimension equal to theirs or 1.
  std::variant<double, Output> weights = 1.0;
  Reduction reduction = Reduction::kSumByNonzeroWeights;
  std::string collection = "losses";  // "": none
  absl::string_view name = "";        // "": the function's, as TensorFlow writes it
};

// losses: numbers of any shape. Gives a tensor of their dtype, computed in float. InvalidArgument when the
// weights do not fit; where that is known only in a step, the step fails.
Output ComputeWeightedLoss(GraphBuilder& g, Output losses, const LossOptions& options = {},
                           SourceLocation where = SourceLocation::Current());

}  // namespace weir::losses
