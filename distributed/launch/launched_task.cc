#include "distributed/launch/launched_task.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// At a time, so that a task that prints without end holds nobody up.
constexpr ssize_t kMostAtATime = 64 << 10;
// What is left of a task that has ended: as much as a pipe can hold. Another process may still write to it.
constexpr ssize_t kMostAtTheEnd = 1 << 20;

// Copies what is there to read, up to `most` bytes; false when the other side has closed.
bool CopyAvailable(const FileDescriptor& from, ssize_t most, bool anyway, TaskOutput* to) {
  char buffer[16 << 10];
  while (most > 0 && (anyway || !to->is_full())) {
    const ssize_t num_read = read(from.get(), buffer, sizeof(buffer));
    if (num_read > 0) {
      to->Append(absl::string_view(buffer, num_read));
      most -= num_read;
    } else if (num_read == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;  // a pseudo-terminal says EIO
    } else if (errno == EAGAIN) {
      return true;
    }
  }
  return true;
}

void Copy(FileDescriptor& from, ssize_t most, bool anyway, TaskOutput* to) {
  if (from.is_open() && !CopyAvailable(from, most, anyway, to)) from = FileDescriptor();
}

}  // namespace

absl::Status LaunchedTask::OpenLog(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", name.job, "-", name.index, ".log");
  absl::StatusOr<TaskLog> opened = TaskLog::Open(path);
  if (!opened.ok()) {
    return absl::Status(opened.status().code(), absl::StrCat("--log_dir: ", opened.status().message()));
  }
  log = *std::move(opened);
  return absl::OkStatus();
}

void LaunchedTask::ConnectOutputs(Terminal* terminal) {
  TaskOutput::Options options;
  options.prefix = absl::StrCat("[", name.ToString(), "] ");
  options.is_raw = is_raw;
  options.log = &log;
  output.emplace(options, terminal);
  options.is_error = true;
  error.emplace(options, terminal);
}

void LaunchedTask::CopyOutputs(bool anyway) {
  Copy(process->output(), kMostAtATime, anyway, &*output);
  Copy(process->error(), kMostAtATime, anyway, &*error);
}

void LaunchedTask::AddPollFds(bool anyway, std::vector<pollfd>* fds) {
  const auto add = [&](const FileDescriptor& from, const TaskOutput& to) {
    if (from.is_open() && (anyway || !to.is_full())) fds->push_back({from.get(), POLLIN, 0});
  };
  add(process->output(), *output);
  add(process->error(), *error);
}

void LaunchedTask::CopyLastOutputs() {
  Copy(process->output(), kMostAtTheEnd, /*anyway=*/true, &*output);
  Copy(process->error(), kMostAtTheEnd, /*anyway=*/true, &*error);
  output->Finish();
  error->Finish();
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
