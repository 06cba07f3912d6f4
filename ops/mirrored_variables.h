// Variables that have a copy on each of several devices (distributed/mirrored_strategy.h).
//
// The first copy is the variable as its model's users know it: it is in graph().variables(), and thereby in
// checkpoints under its plain name. The others are local variables, whose initial values are the first one's
// value. The graph's collection "mirrored_variables" names the handles of first copies, and
// "mirrored_variables_1", "mirrored_variables_2"... those of the others, in the same order.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace weir {

// Notes copies of one variable: names of handles, of the first one first. Precondition: as many as those of
// the other mirrored variables of the graph.
void NoteMirrored(Graph& graph, const std::vector<std::string>& handles);

// How many copies, the first one included, mirrored variables have; 0 without any.
int NumCopies(const Graph& graph);

// Handles of the copies beside the first one, whose handle's name is given. None when it is not mirrored.
std::vector<Output> OtherCopies(const Graph& graph, absl::string_view handle);

}  // namespace weir
