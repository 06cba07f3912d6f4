// A graph and what a test does with it: feeds, fetches, targets, how many steps.
//
// Every check of this room takes one, the generator makes them, and the shrinker makes smaller ones of them.
// A case owns its graph; Outputs and Nodes in it are of that graph. Only moved, never copied by assignment.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "graph/graph_builder.h"

namespace weir::random_graphs {

// What the graph's author asked AddGradients for, and what came of it.
struct GradientRequest {
  Output y;
  Output grad_y;  // null: ones
  std::vector<Output> xs;
  std::vector<Output> results;  // one per x; null where no gradient flows
};

struct GraphCase {
  std::unique_ptr<GraphBuilder> builder;
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
  Node* initializer = nullptr;  // sets the variables before the first step; null without variables
  int num_steps = 1;
  std::vector<GradientRequest> gradients;

  const Graph& graph() const { return builder->graph(); }
};

// What is different in a copy. Nodes and Outputs are of the original.
struct Edits {
  // Consumers of an output read another one instead. Feeds and fetches of it stay what they are.
  absl::flat_hash_map<Output, Output> replaced;
  // ... or a constant, which the copy gets in the place of the output. Also fetches are moved to it.
  std::vector<std::pair<Output, Tensor>> constants;
  // Constants become placeholders that are fed: nothing can be folded then.
  bool feeds_constants = false;
  // Control edges (before, after) that are left out.
  std::set<std::pair<const Node*, const Node*>> dropped_control;
  // Nodes are added in this order; empty: as they were. Must be an order in which inputs come first, except
  // for NextIteration.
  std::vector<const Node*> order;
  // The device that a node asks for; null: the same as before.
  std::function<DeviceName(const Node&)> device;
  // Only the forward graph of the gradients is kept, and AddGradients is called again.
  bool differentiates_again = false;
};

// A case with only the nodes that its fetches, targets and gradients need.
// InvalidArgument when an edit is impossible.
absl::StatusOr<GraphCase> CopyCase(const GraphCase& original, const Edits& edits);

}  // namespace weir::random_graphs
