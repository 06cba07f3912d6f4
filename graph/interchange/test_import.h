// Imports GraphDefs written as text, for tests that do not know protobuf.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/interchange/graph_def.h"

namespace weir {

// ImportGraphDef; InvalidArgument for what is no GraphDef.
absl::Status ImportGraphDefText(const std::string& text, Graph* graph, const ImportOptions& options = {});

}  // namespace weir
