// All dimensions but the first made one: [batch, ...] -> [batch, features].
#pragma once

#include "graph/graph_builder.h"

namespace weir::layers {

struct FlattenOptions {
  absl::string_view name = "flatten";
};

// InvalidArgument when the rank is unknown or 0, or a dimension besides the first is unknown.
Output Flatten(GraphBuilder& g, Output x, const FlattenOptions& options = {},
               SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
