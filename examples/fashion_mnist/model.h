// The classifiers of the fashion_mnist examples.
#pragma once

#include <string>
#include <variant>

#include "examples/classification.h"
#include "graph/graph_builder.h"

namespace weir::examples {

struct Model : Classification {
  Output images;       // fed: float [?, 784]
  Output is_training;  // may be fed: bool, false unless fed; turns dropout on
};

// Logits, float [?, 10], of images, float [?, 784]: 784-300-100-10, and two convolutions with pooling before
// a dense layer with dropout. is_training: known now, or what a step feeds.
Output Mlp(GraphBuilder& g, Output images);
Output Cnn(GraphBuilder& g, Output images, std::variant<bool, Output> is_training);

// kind: "mlp" or "cnn"; InvalidArgument for others, sticky in the builder. Adds summaries of loss and
// accuracy.
Model BuildModel(GraphBuilder& g, const std::string& kind);

}  // namespace weir::examples
