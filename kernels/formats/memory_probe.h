// Whether there is memory for what a file says that it holds.
//
// Strings have no way to say that memory is used up: the process would abort. So whoever makes a string of a
// size that a file decides asks here first.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

// ResourceExhausted, beginning with `what`, where so many bytes cannot be allocated now. Small sizes are not
// asked for. What was found is not kept: other threads may take it meanwhile.
absl::Status ProbeMemory(absl::string_view what, uint64_t num_bytes);

}  // namespace weir
