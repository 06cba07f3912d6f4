// Wide & Deep (Cheng et al., Wide & Deep Learning for Recommender Systems, 2016) for click logs.
//
// The wide part is linear: every categorical value has one weight. The deep part gives every categorical
// value a vector and feeds these and the numbers to a perceptron. Their sum is the logit of a click.
#pragma once

#include <vector>

#include "graph/graph_builder.h"

namespace weir::examples {

struct WideDeepOptions {
  int64_t rows = 100'000;  // of each table: categorical values are hashed into as many buckets
  int64_t embedding_size = 16;
  std::vector<int64_t> hidden_units = {256, 128};
};

// Logits, float [batch, 1]. ids: int64 [batch, slots], each from 0 to rows - 1, slots known; numbers: float
// [batch, count], count known. Every slot has its own tables, "deep/embedding" and "wide/weights".
Output WideDeep(GraphBuilder& g, Output ids, Output numbers, const WideDeepOptions& options = {});

}  // namespace weir::examples
