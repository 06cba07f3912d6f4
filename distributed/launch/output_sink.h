// Where the launcher prints: a terminal, a pipe or a file, which may take nothing for as long as it likes.
//
// Nothing here waits for it. What it does not take at once is kept, and is tried again by Flush. Whoever
// writes much asks is_full() first; what is written beyond kMost bytes is dropped, each piece as a whole.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/nonblocking_output.h"

namespace weir {

class OutputSink {
 public:
  static constexpr size_t kFull = 64 << 10, kMost = 16 << 20;

  // Borrows the descriptor.
  explicit OutputSink(int fd) : output_(fd) {}

  void Write(absl::string_view bytes);
  void Flush();
  // Gives up on what is kept.
  void Drop();

  // Whether something is kept; then Flush has work when fd() can be written to.
  bool has_backlog() const { return begin_ < kept_.size(); }
  bool is_full() const { return kept_.size() - begin_ >= kFull; }
  int fd() const { return output_.fd(); }

  uint64_t num_taken() const { return num_taken_; }
  uint64_t num_lost() const { return num_lost_; }
  // The first error that was no lack of room, once; 0 for none. What it was met with is lost.
  int TakeError();
  bool has_failed() const { return error_ != 0; }

 private:
  NonblockingOutput output_;
  std::string kept_;
  size_t begin_ = 0;
  uint64_t num_taken_ = 0;
  uint64_t num_lost_ = 0;
  int error_ = 0;
  bool is_error_taken_ = false;
};

}  // namespace weir
