// Threads that are none: whatever is to run waits in a bag, and the test takes one thing after another out of
// it, at random. One seed is one interleaving, which can be repeated.
//
// Everything runs on the thread that calls RunOne, a few kernels at a time. Timers ring only when the test
// says that they may, in any order: time means nothing here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/threads.h"

namespace weir {

class SimulatedThreads final : public Threads {
 public:
  explicit SimulatedThreads(uint64_t seed) : random_(seed) {}

  void Compute(Runnable* work) override { ready_.push_back(work); }
  absl::Status Block(absl::AnyInvocable<void()> work) override {
    blocked_.push_back(std::move(work));
    return absl::OkStatus();
  }
  TimerId At(absl::Time, absl::AnyInvocable<void()> work) override {
    timers_.emplace_back(++last_timer_, std::move(work));
    return last_timer_;
  }
  bool Forget(TimerId id) override {
    const auto found =
        std::find_if(timers_.begin(), timers_.end(), [id](const auto& timer) { return timer.first == id; });
    if (found == timers_.end()) return false;
    timers_.erase(found);
    return true;
  }

  // Runs some part of something. False when there is nothing to run: all is over, or waits for ever.
  bool RunOne(bool may_ring = false) {
    const size_t num_timers = may_ring ? timers_.size() : 0;
    const size_t count = ready_.size() + blocked_.size() + num_timers;
    if (count == 0) return false;
    size_t chosen = Below(count);
    if (chosen < ready_.size()) {
      Runnable* const work = Take(&ready_, chosen);
      if (work->Run(1 + Below(4))) ready_.push_back(work);
    } else if ((chosen -= ready_.size()) < blocked_.size()) {
      Take(&blocked_, chosen)();
    } else {
      Take(&timers_, chosen - blocked_.size()).second();
    }
    return true;
  }

  size_t num_ready() const { return ready_.size(); }
  size_t Below(size_t limit) { return random_() % limit; }

 private:
  template <typename T>
  static T Take(std::vector<T>* from, size_t index) {
    T taken = std::move((*from)[index]);
    from->erase(from->begin() + static_cast<std::ptrdiff_t>(index));
    return taken;
  }

  std::mt19937_64 random_;
  std::vector<Runnable*> ready_;
  std::vector<absl::AnyInvocable<void()>> blocked_;
  std::vector<std::pair<TimerId, absl::AnyInvocable<void()>>> timers_;
  TimerId last_timer_ = 0;
};

}  // namespace weir
