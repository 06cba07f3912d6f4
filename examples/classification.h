// What the classifiers of images share: their data, their loss, and counting what they get right.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "graph/graph_builder.h"
#include "graph/types/tensor.h"
#include "session/session.h"

namespace weir::examples {

struct LabeledImages {
  Tensor images;  // uint8 [count, ...]
  Tensor labels;  // uint8 [count]
  int64_t count() const { return labels.shape().dim(0); }
};

struct Batch {
  Tensor images;  // float [size, ...]
  Tensor labels;  // int32 [size]
};

struct Classification {
  Output labels;       // fed: int32 [?]
  Output loss;         // float: mean cross entropy
  Output num_correct;  // float: how many of the batch are classified right
};

// Of logits, float [batch, classes]. Adds summaries of loss, accuracy and logits.
Classification Classify(GraphBuilder& g, Output logits);

// The part of `count` images that is classified right. batch(begin, end) gives images [begin, end), fed to
// `images`. Runs beside hooks: evaluating is no training step.
absl::StatusOr<double> Accuracy(Session& session, Output images, const Classification& classification,
                                int64_t count, const std::function<Batch(int64_t begin, int64_t end)>& batch);

}  // namespace weir::examples
