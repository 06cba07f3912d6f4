// `weir serve`: one task of a cluster that runs the graphs of others: see distributed/server.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "distributed/server_options.h"

namespace weir {

// Serves until the job is over (a ps) or a signal asks it to stop. Returns the process's exit code; an error
// is a mistake in the arguments, or a server that cannot start. `options`: what no flag says, as the ops of
// the program's own.
absl::StatusOr<int> RunServe(const std::vector<std::string>& args, const ServerOptions& options = {});

}  // namespace weir
