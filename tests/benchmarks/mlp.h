// The perceptron of examples/fashion_mnist with plain gradient descent, and one batch of random data.
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

// Numbers from 0 to 1.
Tensor RandomNumbers(const Shape& shape);
inline Tensor RandomImages(int batch) { return RandomNumbers({batch, 784}); }
// int32 [batch], from 0 to 9.
Tensor RandomLabels(int batch);

}  // namespace weir::bench
