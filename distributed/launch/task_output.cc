#include "distributed/launch/task_output.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "graph/types/printable_text.h"

namespace weir {
namespace {

bool AreSameFile(int one, int other) {
  struct stat first {
  }, second{};
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

absl::Status WriteFully(int fd, absl::string_view bytes, absl::string_view what) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(written);
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, 1000);
    } else if (errno != EINTR) {
      return absl::UnknownError(absl::StrCat("cannot write ", what, ": ", strerror(errno)));
    }
  }
  return absl::OkStatus();
}

Terminal::Terminal(int output_fd, int error_fd) : output_(output_fd) {
  if (!AreSameFile(output_fd, error_fd)) error_.emplace(error_fd);
}

void Terminal::WriteRaw(absl::string_view bytes) {
  if (bytes.empty()) return;
  output_.Write(bytes);
  has_unfinished_line_ = bytes.back() != '\n';
  SayErrors();
}

void Terminal::WriteLine(absl::string_view prefix, absl::string_view line, bool is_error) {
  constexpr absl::string_view kClearLine = "\r\x1b[K";
  const std::string text = absl::StrCat(has_unfinished_line_ ? kClearLine : "", prefix, line, "\n");
  has_unfinished_line_ = false;
  (is_error ? error() : output_).Write(text);
  SayErrors();
}

void Terminal::AddPollFds(std::vector<pollfd>* fds) const {
  if (output_.has_backlog()) fds->push_back({output_.fd(), POLLOUT, 0});
  if (error_ && error_->has_backlog()) fds->push_back({error_->fd(), POLLOUT, 0});
}

void Terminal::Flush() {
  output_.Flush();
  if (error_) error_->Flush();
  SayErrors();
}

void Terminal::Say(const std::string& text) { WriteLine("[weir] ", text, /*is_error=*/true); }

// Of errors of standard error nobody can be told.
void Terminal::SayErrors() {
  if (!error_) return;
  if (const int error = output_.TakeError(); error != 0) {
    Say(absl::StrCat("cannot write standard output: ", strerror(error)));
  }
}

void Terminal::Finish(absl::Duration waited) {
  const bool is_stuck = output_.has_backlog();
  const bool is_known = output_.num_lost() > 0 && output_.has_failed();
  output_.Drop();
  if (error_ && error_->has_backlog()) error_->Drop();
  if (output_.num_lost() == 0 || is_known) return;
  Say(absl::StrCat("cannot write standard output: nobody has read it for ",
                   is_stuck ? absl::FormatDuration(waited) : "a long time", "; ", output_.num_lost(),
                   " bytes of what the tasks have printed are lost"));
}

absl::StatusOr<TaskLog> TaskLog::Open(const std::string& path) {
  TaskLog log;
  log.path_ = path;
  log.fd_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (log.fd_.is_open()) return log;
  return absl::InvalidArgumentError(absl::StrCat("cannot write '", path, "': ", strerror(errno)));
}

void TaskLog::Write(absl::string_view bytes, Terminal* terminal) {
  if (!fd_.is_open()) return;
  const absl::Status written = WriteFully(fd_.get(), bytes, absl::StrCat("'", path_, "'"));
  if (written.ok() || std::exchange(has_failed_, true)) return;
  terminal->WriteLine("[weir] ", PrintableText(written.message()), /*is_error=*/true);
}

void TaskOutput::Append(absl::string_view bytes) {
  if (options_.log != nullptr) options_.log->Write(bytes, terminal_);
  if (options_.is_raw) return terminal_->WriteRaw(bytes);
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    unfinished_.append(bytes.data(), newline == absl::string_view::npos ? bytes.size() : newline);
    if (newline == absl::string_view::npos) {
      if (unfinished_.size() >= kMaxLineBytes) Finish();
      return;
    }
    terminal_->WriteLine(options_.prefix, unfinished_, options_.is_error);
    unfinished_.clear();
    bytes.remove_prefix(newline + 1);
  }
}

void TaskOutput::Finish() {
  if (unfinished_.empty()) return;
  terminal_->WriteLine(options_.prefix, unfinished_, options_.is_error);
  unfinished_.clear();
}

}  // namespace weir
