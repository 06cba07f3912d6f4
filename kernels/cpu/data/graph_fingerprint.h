// A number for what a graph computes: equal for equal graphs, whatever their nodes and functions are called;
// different for others, but for collisions of 64 bits. The same in all processes.
//
// A function without state; safe from any thread. It needs memory and time in proportion to the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/interchange/plain_graph.h"

namespace weir {

// Errors: those of PlainGraphBytes.
absl::StatusOr<uint64_t> GraphFingerprint(const std::vector<PlainNode>& nodes);

}  // namespace weir
