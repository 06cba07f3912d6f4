// `weir launch`: see launch/launcher.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Returns the process's exit code; an error is a mistake in the arguments.
absl::StatusOr<int> RunLaunch(const std::vector<std::string>& args);

}  // namespace weir
