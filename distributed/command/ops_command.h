// `weir ops`: the ops that graphs may have.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Prints a line for each op, by name: its name and what it does. Of one op that is named exactly: its inputs,
// outputs and attrs, as ops/schemas writes them. Returns 0; an error is a mistake in the arguments, or a
// pattern that no op matches.
absl::StatusOr<int> RunOps(const std::vector<std::string>& args);

}  // namespace weir
