// `weir serve`: one task of a cluster that runs the graphs of others: see distributed/server.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Serves until the job is over (a ps) or a signal asks it to stop. Returns the process's exit code; an error
// is a mistake in the arguments, or a server that cannot start.
absl::StatusOr<int> RunServe(const std::vector<std::string>& args);

}  // namespace weir
