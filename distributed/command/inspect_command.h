// `weir inspect checkpoint|graph|model|events|record PATH`: says what is in a file, and whether it is intact.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Returns the process's exit code: 0, 1 when there is no such file (or it may not be read), 3 when its
// content is bad; an error is a mistake in the arguments. What could be read is printed even when the rest is
// damaged.
absl::StatusOr<int> RunInspect(const std::vector<std::string>& args);

// The same with other streams, for tests.
absl::StatusOr<int> RunInspect(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

}  // namespace weir
