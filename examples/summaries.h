// The collection of summaries that the chief's summary hook writes.
#pragma once

#include "graph/graph_builder.h"

namespace weir::examples {

inline void AddSummary(GraphBuilder& g, Output summary) {
  if (summary) g.graph().collections()["summaries"].push_back(summary.name());
}

}  // namespace weir::examples
