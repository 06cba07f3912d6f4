// Reading the memory of another process of this user (process_vm_readv): one copy, without a socket in
// between.
//
// Systems may forbid it (Yama, seccomp, user namespaces): who wants to use it tries it first.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace weir {

// All of it, or an error: PermissionDenied, InvalidArgument (there is no such memory), Unavailable (the
// process has ended).
absl::Status ReadProcessMemory(pid_t process, uint64_t address, char* to, size_t num_bytes);

}  // namespace weir
