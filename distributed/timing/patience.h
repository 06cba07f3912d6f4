// How long a thread that waits for events polls before it sleeps: as long as polling has been paying off.
//
// A wake-up costs more than a small step, so a thread that has just handled an event polls for the next one
// for a short while. When events come too far apart for that, it sleeps at once until they come closer again.
//
// One per thread; not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/time/time.h"

namespace weir {

class Patience {
 public:
  explicit Patience(absl::Duration limit)
      // With one core polling takes it from whoever is to answer.
      : limit_ns_(std::thread::hardware_concurrency() > 1 ? absl::ToInt64Nanoseconds(limit) : 0) {}

  // How long to poll before the next sleep.
  int64_t nanoseconds() const { return credit_ > 0 ? limit_ns_ : 0; }

  // How long the last event took to come.
  void OnEvent(int64_t waited_ns) {
    const int64_t soon = credit_ > 0 ? limit_ns_ : kAsleepFactor * limit_ns_;
    credit_ = waited_ns <= soon ? std::min(credit_ + 2, kMaxCredit) : std::max(credit_ - 1, -kMaxCredit);
  }

  // A clock for the above: steady, and cheap to read.
  static int64_t NowNanoseconds() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  static constexpr int kMaxCredit = 16;
  // With both sides asleep a round trip takes several times as long as with both awake: an event that came
  // within this multiple of the limit would probably have come within the limit.
  static constexpr int kAsleepFactor = 4;
  const int64_t limit_ns_;
  int credit_ = kMaxCredit;
};

}  // namespace weir
