#include "distributed/launch/launched_task.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// Copies what is there to read; false when the other side has closed.
bool CopyAvailable(const FileDescriptor& from, TaskOutput* to) {
  char buffer[16 << 10];
  while (true) {
    const ssize_t num_read = read(from.get(), buffer, sizeof(buffer));
    if (num_read > 0) {
      to->Append(absl::string_view(buffer, num_read));
    } else if (num_read == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;  // a pseudo-terminal says EIO
    } else if (errno == EAGAIN) {
      return true;
    }
  }
}

}  // namespace

absl::Status LaunchedTask::OpenLog(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", name.job, "-", name.index, ".log");
  log = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (log.is_open()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--log_dir: cannot write '", path, "': ", strerror(errno)));
}

void LaunchedTask::ConnectOutputs(Terminal* terminal) {
  TaskOutput::Options options;
  options.prefix = absl::StrCat("[", name.ToString(), "] ");
  options.is_raw = is_raw;
  options.log_fd = log.get();
  output.emplace(options, terminal);
  options.is_error = true;
  error.emplace(options, terminal);
}

void LaunchedTask::CopyOutputs() {
  FileDescriptor& out = process->output();
  FileDescriptor& err = process->error();
  if (out.is_open() && !CopyAvailable(out, &*output)) out = FileDescriptor();
  if (err.is_open() && !CopyAvailable(err, &*error)) err = FileDescriptor();
}

void LaunchedTask::AskToStop() {
  if (!is_running) return;
  if (is_remote()) {
    process->Tell("TERM\n");
  } else {
    process->Signal(SIGTERM);
  }
}

void LaunchedTask::Kill(absl::Time now) {
  if (!is_running) return;
  if (is_remote() && !force_at) {
    process->Tell("KILL\n");
    force_at = now + kKillPatience;
  } else {
    process->Signal(SIGKILL);
    force_at = absl::InfiniteFuture();
  }
}

void LaunchedTask::KillSlow(absl::Time now) {
  if (force_at && now >= *force_at) Kill(now);
}

absl::Time LaunchedTask::next_time() const {
  const absl::Time never = absl::InfiniteFuture();
  if (!is_running) return restart_at.value_or(never);
  return std::min(kill_at.value_or(never), force_at.value_or(never));
}

}  // namespace weir
