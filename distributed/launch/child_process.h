// A program started by the launcher, in a process group of its own and with its output in our hands.
//
// Not thread-safe. The kernel kills the process when the thread that started it dies, so that a launcher
// killed by force leaves nobody behind. The destructor kills whatever is left of the group.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

// A file descriptor that is closed when it goes; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct ChildOptions {
  std::vector<std::string> command;                              // looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
  // Standard output and error on one pseudo-terminal instead of two pipes: the program may draw progress
  // bars.
  bool on_terminal = false;
  // What input() is given is the program's standard input, instead of /dev/null.
  bool has_input = false;
};

class ChildProcess {
 public:
  // NotFound or PermissionDenied naming the program when it cannot be run.
  static absl::StatusOr<ChildProcess> Start(const ChildOptions& options);

  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Read ends, non-blocking. error() is closed when on_terminal.
  FileDescriptor& output() { return output_; }
  FileDescriptor& error() { return error_; }

  // Writes to the program's standard input, as much as it takes at once; what is left is dropped, and so is
  // everything when the program is gone.
  void Tell(absl::string_view text) const;

  // To the whole group. Nothing happens when it is gone.
  void Signal(int signal) const;

  // Kills it, and does not wait for its end as the destructor does. It is this process's child until one of
  // the two ends.
  void Abandon();

  // Whether it has ended; then *wait_status is waitpid's, and what it left running in its group is killed.
  bool HasEnded(int* wait_status);

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  bool reaped_ = false;
  FileDescriptor input_;  // a socket: writing to a program that is gone raises no signal
  FileDescriptor output_;
  FileDescriptor error_;
};

// "killed by signal 9 (Killed)" or "exited with code 3".
std::string DescribeExit(int wait_status);

// What a shell would return: the exit code, or 128 + the signal.
int ExitCodeOf(int wait_status);

}  // namespace weir
