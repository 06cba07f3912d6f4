// Makes a case from a seed: a graph of ops of the catalogue, wired at random, and how to run it.
//
// What graphs have: inputs that stand twice, aliases, control edges (also from fed placeholders), variables
// that are read and written in the order of control edges, conditionals and loops to depth 2, gradients of
// some output (which later nodes may read), interior outputs that are fed, constants that fold, shapes of
// which the graph knows all, some or nothing, and fetches of a few outputs.
//
// Values stay tame: a node whose value is not finite or beyond 1000 (of integers 100,000) is read by nobody.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/random_graphs/catalogue.h"
#include "tests/random_graphs/graph_case.h"

namespace weir::random_graphs {

struct GeneratorOptions {
  int max_nodes = 28;            // calls of ops outside of gradients; at least 4
  std::vector<OpRow> rows = {};  // the ops; empty: the catalogue
};

// The same case for the same seed, on every platform and in every run, as long as the catalogue is the same.
// An error is a finding: Weir refused a valid node or gradient. It says which.
absl::StatusOr<GraphCase> Generate(uint64_t seed, const GeneratorOptions& options = {});

}  // namespace weir::random_graphs
