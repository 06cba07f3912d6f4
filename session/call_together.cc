#include "session/call_together.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

namespace weir {

absl::Status CallTogether(Environment& environment, size_t count,
                          absl::FunctionRef<absl::Status(size_t i)> call) {
  if (count == 0) return absl::OkStatus();
  std::vector<absl::Status> statuses(count);
  std::atomic<size_t> next{0};
  const auto call_others = [&] {
    for (size_t i = next++; i < count - 1; i = next++) statuses[i] = call(i);
  };
  std::vector<std::unique_ptr<StartedThread>> threads;
  while (threads.size() < std::min(count, kMaxCallsAtOnce) - 1) {
    absl::StatusOr<std::unique_ptr<StartedThread>> thread = environment.StartThread(call_others);
    if (!thread.ok()) break;  // this one makes their calls
    threads.push_back(*std::move(thread));
  }
  statuses[count - 1] = call(count - 1);
  call_others();
  for (const auto& thread : threads) thread->Join();
  const auto failed =
      std::find_if(statuses.begin(), statuses.end(), [](const absl::Status& status) { return !status.ok(); });
  return failed == statuses.end() ? absl::OkStatus() : *failed;
}

}  // namespace weir
