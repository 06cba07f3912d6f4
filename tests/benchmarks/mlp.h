// The benchmarks' model: a 784-300-100-10 perceptron with softmax cross entropy, and one batch of random
// data.
#pragma once

#include "graph/graph_builder.h"
#include "graph/types/tensor.h"

namespace weir::bench {

struct Mlp {
  Output images;  // float[batch,784]
  Output labels;  // int32[batch]
  Output loss;
  Node* train = nullptr;  // one step of gradient descent
  Node* init = nullptr;
};

// Also counts steps in the global step when with_global_step.
Mlp BuildMlp(GraphBuilder& g, int batch, bool with_global_step);

Tensor RandomImages(int batch);
Tensor RandomLabels(int batch);

}  // namespace weir::bench
