// Whether a hook that needs tensors in some steps only may fetch them in these only.
//
// What replicas compute together (a mean over all of them, for example) has to be fetched by all of them in
// the same steps. A hook that counts its own steps, or looks at the clock, is not due everywhere at once: not
// after a replica was started again. So it fetches such tensors in every step.
//
// Thread safety: as the graph.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/node.h"

namespace weir {

// Whether a step that computes these takes part in a collective for them.
bool DependOnCollectives(const std::vector<Output>& outputs);

bool HasCollectives(const Graph& graph);

}  // namespace weir
