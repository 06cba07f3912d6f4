// What the tasks of a job print, on its way to one terminal and to a log file per task.
//
// Lines of different tasks are never mixed: a line is written when it is complete, with "[worker:1] " before
// it. A task whose output is raw is passed through as it comes, so that it can redraw its line; a line of
// another task clears an unfinished raw line before it is printed. Not thread-safe.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace weir {

// The launcher's own output: remembers whether a raw line is unfinished.
class Terminal {
 public:
  Terminal(int output_fd, int error_fd) : output_fd_(output_fd), error_fd_(error_fd) {}

  void WriteRaw(absl::string_view bytes);
  void WriteLine(absl::string_view prefix, absl::string_view line, bool is_error);

 private:
  int output_fd_;
  int error_fd_;
  bool has_unfinished_line_ = false;
};

// One stream (output or error) of one task.
class TaskOutput {
 public:
  struct Options {
    std::string prefix;     // "[worker:1] "
    bool is_error = false;  // lines go to the launcher's standard error
    bool is_raw = false;
    int log_fd = -1;  // gets every byte unchanged; borrowed; -1 for none
  };
  TaskOutput(Options options, Terminal* terminal) : options_(std::move(options)), terminal_(terminal) {}

  void Append(absl::string_view bytes);
  // Writes what was not ended by a newline.
  void Finish();

 private:
  // A line longer than this is printed in pieces: a task that never ends its line must not fill our memory.
  static constexpr size_t kMaxLineBytes = 64 << 10;

  Options options_;
  Terminal* terminal_;
  std::string unfinished_;
};

// All of it, through interrupted and partial writes; gives up silently when nobody reads.
void WriteFully(int fd, absl::string_view bytes);

}  // namespace weir
