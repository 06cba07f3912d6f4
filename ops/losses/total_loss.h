// The losses that a model has gathered: those of ops/losses and those of the layers' regularizers.
//
//   losses::SparseSoftmaxCrossEntropy(g, labels, logits);
//   Node* train = Adam().Minimize(g, losses::TotalLoss(g), GlobalStep(g)).value();
#pragma once

#include <vector>

#include "graph/graph_builder.h"

namespace weir::losses {

// The outputs named by a collection, in the order in which they came; those that are not in the graph any
// more are left out.
std::vector<Output> CollectedLosses(GraphBuilder& g, absl::string_view collection = "losses");

// The sum of the regularizers' losses, a scalar; 0 without any. InvalidArgument for one that is no scalar.
Output RegularizationLoss(GraphBuilder& g, SourceLocation where = SourceLocation::Current());

struct TotalLossOptions {
  bool add_regularization_losses = true;
  absl::string_view name = "total_loss";
};

// The sum of all losses, which must be scalars. InvalidArgument, in the builder, when there are none, and for
// one that is no scalar, with its name.
Output TotalLoss(GraphBuilder& g, const TotalLossOptions& options = {},
                 SourceLocation where = SourceLocation::Current());

}  // namespace weir::losses
