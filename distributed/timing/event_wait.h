// How threads that listen to one source of events wait for the next one: poll for a while, as long as that
// pays (patience.h), then sleep. Only one of them polls at a time; a second one would only take a core away.
// Between two looks it lets others run that wait for the core: what it waits for may be theirs to do.
//
// One per source, shared by its threads. Thread safety: all methods.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "distributed/timing/patience.h"

namespace weir {

class EventWait {
 public:
  // `poll` takes an event if there is one and says whether there was; `sleep` returns when it has taken one.
  // `patience` is the calling thread's.
  template <typename Poll, typename Sleep>
  void Await(Patience* patience, Poll poll, Sleep sleep) {
    const int64_t start = Patience::NowNanoseconds();
    if (!PollUntil(start + patience->nanoseconds(), start, poll)) sleep();
    patience->OnEvent(Patience::NowNanoseconds() - start);
  }

 private:
  // False, also when another thread polls: no event has come.
  template <typename Poll>
  bool PollUntil(int64_t end, int64_t start, Poll poll) {
    if (end == start || somebody_polls_.exchange(true, std::memory_order_acquire)) return false;
    bool has_event = false;
    while (!(has_event = poll()) && Patience::NowNanoseconds() < end) sched_yield();
    somebody_polls_.store(false, std::memory_order_release);
    return has_event;
  }

  std::atomic<bool> somebody_polls_{false};
};

}  // namespace weir
