#include "session/monitored/queue_runner.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// What the threads of one runner share. Coordinators outlive what starts them, so threads own this.
struct RunnerThreads {
  RunnerThreads(QueueRunner runner, Session& session)
      : runner(std::move(runner)),
        session(session),
        num_running(static_cast<int>(this->runner.enqueues.size())) {}

  const QueueRunner runner;
  Session& session;
  std::atomic<int> num_running;

  bool IsEnd(const absl::Status& status) const {
    return std::find(runner.ends.begin(), runner.ends.end(), status.code()) != runner.ends.end();
  }
};

absl::Status Fill(RunnerThreads& threads, Node* enqueue, const Coordinator& coordinator) {
  absl::Status status;
  while (status.ok() && !coordinator.should_stop()) {
    status = threads.session.Run({}, {}, {enqueue}).status();
  }
  const bool is_last = --threads.num_running == 0;
  if (!threads.IsEnd(status)) return status;
  // An error would come from a queue that is closed already.
  if (is_last) threads.session.Run({}, {}, {threads.runner.close}).status().IgnoreError();
  return absl::OkStatus();
}

absl::Status CancelAtStop(RunnerThreads& threads, const Coordinator& coordinator) {
  coordinator.WaitForStop(absl::InfiniteDuration());
  // The queue may be gone with its task: then nothing waits for it any more.
  threads.session.Run({}, {}, {threads.runner.cancel}).status().IgnoreError();
  return absl::OkStatus();
}

absl::Status Check(const QueueRunner& runner) {
  const bool has_enqueues =
      !runner.enqueues.empty() && std::count(runner.enqueues.begin(), runner.enqueues.end(), nullptr) == 0;
  if (has_enqueues && runner.close != nullptr && runner.cancel != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a queue runner needs enqueue ops, a close op and a cancel op; has ", runner.enqueues.size(),
      " enqueue ops", has_enqueues || runner.enqueues.empty() ? "" : " with a null one among them",
      runner.close != nullptr ? "" : ", no close op", runner.cancel != nullptr ? "" : ", no cancel op"));
}

}  // namespace

absl::Status StartQueueRunners(absl::Span<const QueueRunner> runners, Session& session,
                               Coordinator& coordinator) {
  for (const QueueRunner& runner : runners) WEIR_RETURN_IF_ERROR(Check(runner));
  for (const QueueRunner& runner : runners) {
    const auto threads = std::make_shared<RunnerThreads>(runner, session);
    for (Node* const enqueue : runner.enqueues) {
      coordinator.Start(absl::StrCat("queue runner of ", enqueue->name()),
                        [threads, enqueue](Coordinator& stop) { return Fill(*threads, enqueue, stop); });
    }
    coordinator.Start(absl::StrCat("queue runner of ", runner.cancel->name()),
                      [threads](Coordinator& stop) { return CancelAtStop(*threads, stop); });
  }
  return absl::OkStatus();
}

}  // namespace weir
