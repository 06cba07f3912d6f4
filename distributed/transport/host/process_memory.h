// Reading the memory of another process of this user (process_vm_readv): one copy, without a socket in
// between.
//
// Systems may forbid it (Yama, seccomp, user namespaces), so callers try it before they rely on it. Thread
// safety: all functions.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace weir {

// Copies all of it into `to`, or returns an error: PermissionDenied, InvalidArgument (there is no such
// memory), Unavailable (the process has ended).
absl::Status ReadProcessMemory(pid_t process, uint64_t address, char* to, size_t num_bytes);

}  // namespace weir
