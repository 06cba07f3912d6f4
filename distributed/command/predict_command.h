// `weir predict MODEL --inputs=JSON`: calls a signature of a SavedModel.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Returns the process's exit code, 0; an error is a mistake in the arguments, a model that cannot be had, or
// one that fails. Prints the outputs as JSON, one line.
absl::StatusOr<int> RunPredict(const std::vector<std::string>& args);

// The same with another stream, for tests.
absl::StatusOr<int> RunPredict(const std::vector<std::string>& args, std::ostream& out);

}  // namespace weir
