// The classifiers of the fashion_mnist examples.
#pragma once

#include <string>

#include "graph/graph_builder.h"

namespace weir::examples {

struct Model {
  Output images;       // fed: float [?, 784]
  Output labels;       // fed: int32 [?]
  Output is_training;  // may be fed: bool, false unless fed; turns dropout on
  Output loss;         // float
  Output num_correct;  // float: how many of the batch are classified right
};

// kind: "mlp" (784-300-100-10) or "cnn" (two convolutions with pooling, one dense layer with dropout);
// InvalidArgument for others, sticky in the builder. Adds summaries of loss and accuracy.
Model BuildModel(GraphBuilder& g, const std::string& kind);

}  // namespace weir::examples
