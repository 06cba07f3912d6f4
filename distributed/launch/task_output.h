// What the tasks of a job print, on its way to one terminal and to a log file per task.
//
// Lines of different tasks are never mixed: a line is written when it is complete, with "[worker:1] " before
// it. A task whose output is raw is passed through as it comes, so that it can redraw its line; a line of
// another task clears an unfinished raw line before it is printed. Nothing waits for the terminal
// (output_sink.h); log files are written at once. Where something cannot be written, that is said once, and
// what comes later is tried all the same. Not thread-safe.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/output_sink.h"

namespace weir {

// The launcher's own output: remembers whether a raw line is unfinished.
class Terminal {
 public:
  // Borrows the descriptors. Two that are the same file keep the order of what is written.
  Terminal(int output_fd, int error_fd);

  void WriteRaw(absl::string_view bytes);
  void WriteLine(absl::string_view prefix, absl::string_view line, bool is_error);

  // Whether so much waits to be taken that no more should be read for it.
  bool is_full(bool is_error) const { return is_error ? error().is_full() : output_.is_full(); }
  bool has_backlog() const { return output_.has_backlog() || error().has_backlog(); }
  // All that was ever taken.
  uint64_t num_taken() const { return output_.num_taken() + error().num_taken(); }
  // What to wait for before the next Flush.
  void AddPollFds(std::vector<pollfd>* fds) const;
  void Flush();
  // Of the end: gives up on what nobody has taken for so long, and says what was lost.
  void Finish(absl::Duration waited);

 private:
  const OutputSink& error() const { return error_ ? *error_ : output_; }
  OutputSink& error() { return error_ ? *error_ : output_; }
  void Say(const std::string& text);
  void SayErrors();

  OutputSink output_;
  std::optional<OutputSink> error_;  // none: it is the same file
  bool has_unfinished_line_ = false;
};

// The file with everything that a task has printed.
class TaskLog {
 public:
  // None.
  TaskLog() = default;
  // InvalidArgument when it cannot be opened.
  static absl::StatusOr<TaskLog> Open(const std::string& path);

  // Says on the terminal, the first time, that it cannot be written.
  void Write(absl::string_view bytes, Terminal* terminal);

 private:
  std::string path_;
  FileDescriptor fd_;
  bool has_failed_ = false;
};

// One stream (output or error) of one task.
class TaskOutput {
 public:
  struct Options {
    std::string prefix;     // "[worker:1] "
    bool is_error = false;  // lines go to the launcher's standard error
    bool is_raw = false;
    TaskLog* log = nullptr;  // gets every byte unchanged; borrowed
  };
  TaskOutput(Options options, Terminal* terminal) : options_(std::move(options)), terminal_(terminal) {}

  void Append(absl::string_view bytes);
  // Writes what was not ended by a newline.
  void Finish();
  bool is_full() const { return terminal_->is_full(options_.is_error && !options_.is_raw); }

 private:
  // A line longer than this is printed in pieces: a task that never ends its line must not fill our memory.
  static constexpr size_t kMaxLineBytes = 64 << 10;

  Options options_;
  Terminal* terminal_;
  std::string unfinished_;
};

// All of it, through interrupted and partial writes; waits for whoever reads it. The error is errno's, with
// "cannot write WHAT: " before it.
absl::Status WriteFully(int fd, absl::string_view bytes, absl::string_view what);

}  // namespace weir
