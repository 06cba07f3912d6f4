// Makes a failing case small: it takes parts away as long as what is left still fails.
#pragma once

#include <functional>

#include "tests/random_graphs/graph_case.h"

namespace weir::random_graphs {

using StillFails = std::function<bool(const GraphCase&)>;

struct ShrinkOptions {
  int max_attempts = 3000;
  // The failure is one of gradients: edits change the forward graph, and AddGradients is called again.
  bool differentiates_again = false;
};

// The smallest failing case that dropping fetches, targets, steps, gradients and control edges, replacing
// tensors by constants and leaving nodes out leads to. Precondition: still_fails(original).
GraphCase Shrink(GraphCase original, const StillFails& still_fails, const ShrinkOptions& options = {});

}  // namespace weir::random_graphs
