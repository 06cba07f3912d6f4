#include "distributed/transport/host/process_memory.h"

#include <string.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr size_t kMaxBytesPerCall = size_t{1} << 30;  // the system's own limit is a little less than 2 GiB

}  // namespace

absl::Status ReadProcessMemory(pid_t process, uint64_t address, char* to, size_t num_bytes) {
  for (size_t num_done = 0; num_done < num_bytes;) {
    const size_t size = std::min(num_bytes - num_done, kMaxBytesPerCall);
    const iovec local{to + num_done, size};
    const iovec remote{reinterpret_cast<void*>(address + num_done), size};
    const ssize_t count = process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (count > 0) {
      num_done += static_cast<size_t>(count);
      continue;
    }
    const int error = count < 0 ? errno : EFAULT;
    if (error == EINTR) continue;
    const std::string message = absl::StrCat("cannot read ", size, " bytes of the memory of process ",
                                             process, ": ", strerror(error));
    if (error == EFAULT) return absl::InvalidArgumentError(message);
    if (error == ESRCH) return absl::UnavailableError(message);
    return absl::PermissionDeniedError(message);
  }
  return absl::OkStatus();
}

}  // namespace weir
