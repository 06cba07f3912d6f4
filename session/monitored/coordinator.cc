#include "session/monitored/coordinator.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "kernels/long_wait.h"

namespace weir {
namespace {

struct CoordinatedThread {
  std::string name;
  std::unique_ptr<StartedThread> thread;  // dropped by who does not wait for it
  bool has_ended = false;
};

using RunFunction = std::function<absl::Status(Coordinator&)>;

// Calls a function of the program's. We throw nothing, but what the function throws must not end the process.
absl::Status CallCaught(const RunFunction& run, const std::string& name, Coordinator& coordinator) {
  try {
    return run(coordinator);
  } catch (const std::exception& exception) {
    return absl::UnknownError(absl::StrCat("the thread '", name, "' threw an exception: ", exception.what()));
  } catch (...) {
    return absl::UnknownError(absl::StrCat("the thread '", name, "' threw an exception"));
  }
}

}  // namespace

struct Coordinator::State {
  explicit State(Environment& environment) : environment(environment) {}

  bool IsStopping() const ABSL_SHARED_LOCKS_REQUIRED(mutex) { return stop.load(std::memory_order_relaxed); }
  bool HaveAllEnded() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return std::all_of(threads.begin(), threads.end(), [](const auto& thread) { return thread->has_ended; });
  }
  bool AwaitEndOfAll(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return AwaitAloud(
        environment, mutex, absl::Condition(this, &State::HaveAllEnded),
        [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex) {
          std::vector<std::string> names;
          for (const auto& thread : threads) {
            if (!thread->has_ended) names.push_back(absl::StrCat("'", thread->name, "'"));
          }
          return absl::StrCat("the end of training waits for the threads ", absl::StrJoin(names, ", "));
        },
        deadline);
  }
  bool IsStoppingOrOver() const ABSL_SHARED_LOCKS_REQUIRED(mutex) { return IsStopping() || HaveAllEnded(); }

  Environment& environment;
  std::atomic<bool> stop{false};
  mutable absl::Mutex mutex;
  absl::Status error ABSL_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<const void>> kept ABSL_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<CoordinatedThread>> threads ABSL_GUARDED_BY(mutex);
};

Coordinator::Coordinator(Environment& environment) : state_(std::make_shared<State>(environment)) {}

bool Coordinator::should_stop() const { return state_->stop.load(std::memory_order_acquire); }

void Coordinator::RequestStop(const absl::Status& error) {
  absl::MutexLock lock(&state_->mutex);
  if (state_->IsStopping()) return;
  if (!absl::IsOutOfRange(error)) state_->error = error;
  state_->stop.store(true, std::memory_order_release);
}

bool Coordinator::WaitForStop(absl::Duration timeout) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->environment.Await(state_->mutex, absl::Condition(state_.get(), &State::IsStopping),
                                   state_->environment.Now() + timeout);
}

absl::Status Coordinator::status() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->error;
}

void Coordinator::Start(std::string name, RunFunction run) {
  auto thread = std::make_shared<CoordinatedThread>();
  thread->name = std::move(name);
  if (!run) {
    return RequestStop(
        absl::InvalidArgumentError(absl::StrCat("the thread '", thread->name, "' has no function")));
  }
  auto call = [state = state_, thread, run = std::move(run)]() mutable {
    Coordinator coordinator(state);
    const absl::Status status = CallCaught(run, thread->name, coordinator);
    run = nullptr;  // what it owns goes before the thread counts as ended
    if (!status.ok()) coordinator.RequestStop(status);
    absl::MutexLock lock(&state->mutex);
    thread->has_ended = true;
  };
  absl::Status status;
  {
    absl::MutexLock lock(&state_->mutex);
    auto started = state_->environment.StartThread(std::move(call));
    status = started.status();
    if (started.ok()) {
      thread->thread = *std::move(started);
      state_->threads.push_back(thread);
    }
  }
  if (!status.ok()) {
    RequestStop(
        absl::Status(status.code(), absl::StrCat("the thread '", thread->name, "': ", status.message())));
  }
}

void Coordinator::StartLoop(std::string name, absl::Duration interval, std::function<absl::Status()> run) {
  if (!run) return Start(std::move(name), nullptr);
  Start(std::move(name), [interval, run = std::move(run)](Coordinator& coordinator) {
    const Environment& environment = coordinator.state_->environment;
    absl::Time next = environment.Now();
    while (!coordinator.WaitForStop(next - environment.Now())) {
      if (absl::Status status = run(); !status.ok()) return status;
      next += interval;
    }
    return absl::OkStatus();
  });
}

absl::Status Coordinator::Join(const JoinOptions& options) {
  std::vector<std::string> alive;
  std::vector<std::shared_ptr<CoordinatedThread>> ended;
  absl::Status status;
  {
    absl::MutexLock lock(&state_->mutex);
    Environment& environment = state_->environment;
    environment.Await(state_->mutex, absl::Condition(state_.get(), &State::IsStoppingOrOver));
    state_->AwaitEndOfAll(environment.Now() + options.grace_period);
    for (std::shared_ptr<CoordinatedThread>& thread : std::exchange(state_->threads, {})) {
      if (thread->has_ended) {
        ended.push_back(std::move(thread));
      } else {
        alive.push_back(thread->name);
        thread->thread = nullptr;
      }
    }
    status = state_->error;
  }
  for (const auto& thread : ended) thread->thread->Join();
  if (!status.ok() || alive.empty() || options.ignore_live_threads) return status;
  return absl::DeadlineExceededError(
      absl::StrCat("threads still run ", absl::FormatDuration(options.grace_period),
                   " after they were asked to stop: ", absl::StrJoin(alive, ", ")));
}

bool Coordinator::AwaitThreads(absl::Duration timeout) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->AwaitEndOfAll(state_->environment.Now() + timeout);
}

void Coordinator::Keep(std::shared_ptr<const void> object) {
  absl::MutexLock lock(&state_->mutex);
  state_->kept.push_back(std::move(object));
}

void Coordinator::ClearStop() {
  absl::MutexLock lock(&state_->mutex);
  state_->error = absl::OkStatus();
  state_->stop.store(false, std::memory_order_release);
}

}  // namespace weir
