// Starting threads of the operating system.
#pragma once

#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace weir {

// A thread that calls `run`. ResourceExhausted, with the system's reason, when it gives none: the limit of
// processes or the memory for stacks is used up. (The constructor of std::thread throws then.)
absl::StatusOr<std::thread> StartSystemThread(absl::AnyInvocable<void()> run);

}  // namespace weir
