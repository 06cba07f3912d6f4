#include "kernels/cancellable_wait.h"

#include <cstdint>

namespace weir {

absl::Status AwaitUnlessCancelled(Environment& environment, absl::Mutex& mutex, Cancellation& cancellation,
                                  absl::FunctionRef<bool()> is_ready, absl::FunctionRef<void()> take) {
  bool is_cancelled = false;
  const uint64_t callback = cancellation.OnCancel([&](const absl::Status&) {
    absl::MutexLock lock(&mutex);
    is_cancelled = true;
  });
  // Decided under the lock: the step may be cancelled between that and Remove. Its callbacks run one after
  // another, and this one may be late.
  bool was_cancelled = false;
  {
    absl::MutexLock lock(&mutex);
    const auto can_go_on = [&] { return is_cancelled || is_ready(); };
    environment.Await(mutex, absl::Condition(&can_go_on));
    was_cancelled = is_cancelled || cancellation.is_cancelled();
    if (!was_cancelled) take();
  }
  cancellation.Remove(callback);
  return was_cancelled ? cancellation.reason() : absl::OkStatus();
}

}  // namespace weir
