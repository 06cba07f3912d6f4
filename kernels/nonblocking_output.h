// Writing to a terminal, a pipe, a socket or a file without waiting for whoever reads it.
//
// The descriptor stays as it is: others may share it, and would be surprised by O_NONBLOCK. A terminal or a
// pipe is opened once more instead, where that is possible. Where it is not (another user's terminal), it is
// O_NONBLOCK during each write; two processes that write at the same moment may leave it so. Thread safety:
// none; several objects may write to one descriptor.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weir {

class NonblockingOutput {
 public:
  // Borrows the descriptor.
  explicit NonblockingOutput(int fd);
  ~NonblockingOutput();
  NonblockingOutput(const NonblockingOutput&) = delete;
  NonblockingOutput& operator=(const NonblockingOutput&) = delete;

  // As write(2), with EAGAIN where that would wait. (A file may wait for its disk all the same.)
  int64_t WriteSome(absl::string_view bytes) const;

  // To be polled for POLLOUT after EAGAIN.
  int fd() const { return own_ >= 0 ? own_ : fd_; }

 private:
  enum class Kind { kFile, kSocket, kMayBlock };

  const int fd_;
  Kind kind_ = Kind::kFile;
  int own_ = -1;  // the same terminal or pipe, opened once more with O_NONBLOCK
};

}  // namespace weir
