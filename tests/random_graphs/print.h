// Writes a case as the C++ that builds it, so that a finding can be read, and pasted into a test.
#pragma once

#include <string>

#include "tests/random_graphs/graph_case.h"

namespace weir::random_graphs {

// Statements that add the nodes to a GraphBuilder `g`, inputs first, and a line each for feeds, fetches and
// targets.
std::string PrintCase(const GraphCase& graph_case);

}  // namespace weir::random_graphs
