// Sets elements to 0 at random while training, and scales the others so that the sum stays the same on
// average.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "graph/graph_builder.h"

namespace weir::layers {

struct DropoutOptions {
  std::optional<int64_t> seed;
  absl::string_view name = "dropout";
};

// rate: the part of the elements that is dropped, in [0, 1). training: known now, or a bool scalar that steps
// feed (PlaceholderWithDefault); otherwise x comes back as it is.
Output Dropout(GraphBuilder& g, Output x, double rate, std::variant<bool, Output> training,
               const DropoutOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace weir::layers
