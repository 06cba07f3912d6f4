// Unix sockets of the abstract namespace: no files, and gone with the process.
#pragma once

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

// A listening descriptor. Errors: InvalidArgument (the name does not fit), ResourceExhausted, AlreadyExists.
absl::StatusOr<int> ListenAtUnixSocket(absl::string_view name);

// A connected descriptor that does not block. Errors: InvalidArgument, Unavailable (nobody listens there, or
// it is not of this user: somebody may have taken a name that was given up).
absl::StatusOr<int> ConnectToUnixSocket(absl::string_view name);

// Whether the process at the other end is of this process's user.
bool IsOfSameUser(int fd);
// That process; 0 when it cannot be seen from here.
pid_t ProcessAt(int fd);

// Whether the other end has closed, or its process has ended; also while there are bytes of it to read.
bool OtherEndHasClosed(int fd);

}  // namespace weir
