// `weir keys`: see keys/key_files.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Prints what to do with the files that it has made. Returns 0; an error is a mistake in the arguments, or
// why the files cannot be made.
absl::StatusOr<int> RunKeys(const std::vector<std::string>& args);

}  // namespace weir
