// All checks of one case: what it gives on Weir, in several ways, against the interpreter; and its gradients.
//
// Borrows the runner. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/random_graphs/graph_case.h"
#include "tests/random_graphs/runner.h"

namespace weir::random_graphs {

// What is wrong with a case. An empty message: nothing.
struct Finding {
  // Set for what one way of running shows; not set for gradients that are not the derivatives.
  std::optional<Way> way;
  std::string message;

  explicit operator bool() const { return !message.empty(); }
};

// Runs the case in each of the ways and stops at the first finding. The ways' own choices (which devices,
// which fetch) follow from the seed. A result that differs is judged again with ten times as many noisy runs.
Finding Check(const GraphCase& graph_case, const std::vector<Way>& ways, uint64_t seed, Runner& runner);

// The gradients only.
Finding CheckGradients(const GraphCase& graph_case);

}  // namespace weir::random_graphs
