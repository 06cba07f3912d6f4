// `weir doctor`: see doctor/doctor.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weir {

// Prints a line for each finding: "ok", "note" (may be right) or "WRONG", what it is about, and what was
// found. Returns 0 when nothing is wrong, 1 otherwise; an error is a mistake in the arguments.
absl::StatusOr<int> RunDoctor(const std::vector<std::string>& args);

}  // namespace weir
