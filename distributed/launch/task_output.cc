#include "distributed/launch/task_output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {

void WriteFully(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(written);
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, 1000);
    } else if (errno != EINTR) {
      return;
    }
  }
}

void Terminal::WriteRaw(absl::string_view bytes) {
  if (bytes.empty()) return;
  WriteFully(output_fd_, bytes);
  has_unfinished_line_ = bytes.back() != '\n';
}

void Terminal::WriteLine(absl::string_view prefix, absl::string_view line, bool is_error) {
  constexpr absl::string_view kClearLine = "\r\x1b[K";
  const std::string text = absl::StrCat(has_unfinished_line_ ? kClearLine : "", prefix, line, "\n");
  has_unfinished_line_ = false;
  WriteFully(is_error ? error_fd_ : output_fd_, text);
}

void TaskOutput::Append(absl::string_view bytes) {
  if (options_.log_fd >= 0) WriteFully(options_.log_fd, bytes);
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
