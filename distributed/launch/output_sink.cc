#include "distributed/launch/output_sink.h"

#include <cerrno>

namespace weir {

void OutputSink::Write(absl::string_view bytes) {
  if (kept_.size() - begin_ + bytes.size() > kMost) {
    num_lost_ += bytes.size();
    return;
  }
  kept_.append(bytes.data(), bytes.size());
  Flush();
}

void OutputSink::Flush() {
  while (has_backlog()) {
    const int64_t written = output_.WriteSome(absl::string_view(kept_).substr(begin_));
    if (written >= 0) {
      begin_ += static_cast<size_t>(written);
      num_taken_ += static_cast<uint64_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      if (error_ == 0) error_ = errno;
      Drop();
    }
  }
  if (begin_ < kept_.size() / 2) return;
  kept_.erase(0, begin_);
  begin_ = 0;
}

void OutputSink::Drop() {
  num_lost_ += kept_.size() - begin_;
  kept_.clear();
  begin_ = 0;
}

int OutputSink::TakeError() {
  if (is_error_taken_) return 0;
  is_error_taken_ = error_ != 0;
  return error_;
}

}  // namespace weir
