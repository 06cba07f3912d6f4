// The places of the segments of a tensor that comes from elsewhere: each is given out once, to be written by
// whoever reads the segment from the network or from its sender's memory.
//
// A segment may come twice: its connection closes, the sender sends it again on another one, and the thread
// that reads the first copy still does so, when the sender may use that memory for something else already. A
// place that somebody may write is no place for a result that is read. So what comes elsewhere waits until
// the place is given back.
//
// Thread safety: all methods. What was given out may outlive this.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/transport/frame.h"
#include "graph/types/buffer.h"
#include "kernels/environment.h"

namespace weir {

class Placement {
 public:
  // How long is waited for a place. A thread that copies a segment takes longer only if it does not run.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  explicit Placement(int64_t num_segments) : state_(std::make_shared<State>(num_segments)) {}

  // `num_bytes` at `data` in `buffer`, which is out until the last Payload of it is gone. Empty when it was
  // given out before, or is closed.
  Payload Give(int64_t segment, RefPtr<Buffer> buffer, char* data, size_t num_bytes) {
    {
      absl::MutexLock lock(&state_->mutex);
      if (state_->is_closed[segment]) return Payload();
      state_->is_closed[segment] = true;
      state_->out.insert(segment);
    }
    return Payload::OfBuffer(RefPtr<Buffer>(new Lent(state_, segment, std::move(buffer), data, num_bytes)),
                             data, num_bytes);
  }

  // For a segment that has come elsewhere: its place is given out no more, and nobody writes there. Waits for
  // that, for kPatience at most: then Aborted. Real time also in simulations, whose networks use no places.
  absl::Status Close(int64_t segment) {
    absl::MutexLock lock(&state_->mutex);
    state_->is_closed[segment] = true;
    const auto is_back = [this, segment]() ABSL_SHARED_LOCKS_REQUIRED(state_->mutex) {
      return !state_->out.contains(segment);
    };
    if (is_back()) return absl::OkStatus();
    Environment& environment = RealEnvironment();
    if (environment.Await(state_->mutex, absl::Condition(&is_back), environment.Now() + kPatience)) {
      return absl::OkStatus();
    }
    return absl::AbortedError(
        absl::StrCat("segment ", segment,
                     " came again while its first copy was still being written, which took "
                     "longer than ",
                     absl::FormatDuration(kPatience)));
  }

 private:
  struct State {
    explicit State(int64_t num_segments) : is_closed(num_segments) {}
    absl::Mutex mutex;
    std::vector<bool> is_closed ABSL_GUARDED_BY(mutex);
    absl::flat_hash_set<int64_t> out ABSL_GUARDED_BY(mutex);
  };

  // A part of another buffer, which it keeps.
  class Lent final : public Buffer {
   public:
    Lent(std::shared_ptr<State> state, int64_t segment, RefPtr<Buffer> buffer, char* data, size_t num_bytes)
        : Buffer(data, num_bytes), state_(std::move(state)), segment_(segment), buffer_(std::move(buffer)) {}
    ~Lent() override {
      absl::MutexLock lock(&state_->mutex);
      state_->out.erase(segment_);
    }

   private:
    const std::shared_ptr<State> state_;
    const int64_t segment_;
    const RefPtr<Buffer> buffer_;
  };

  std::shared_ptr<State> state_;
};

}  // namespace weir
