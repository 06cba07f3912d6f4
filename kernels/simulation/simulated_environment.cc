#include "kernels/simulation/simulated_environment.h"

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

class SimulatedThread final : public StartedThread {
 public:
  SimulatedThread(SimulatedEnvironment& environment, std::shared_ptr<Scheduler::Thread> thread)
      : environment_(environment), thread_(std::move(thread)) {}

  void Join() override {
    absl::Mutex mutex;
    absl::MutexLock lock(&mutex);
    const auto has_ended = [this] { return environment_.scheduler().HasEnded(*thread_); };
    environment_.Await(mutex, absl::Condition(&has_ended), absl::InfiniteFuture());
  }

 private:
  SimulatedEnvironment& environment_;
  const std::shared_ptr<Scheduler::Thread> thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Threads>> SimulatedEnvironment::MakeThreads(int /*num_threads*/,
                                                                           int max_blocked_threads) {
  return std::make_unique<SimulatedThreads>(*this, max_blocked_threads);
}

std::unique_ptr<Timers> SimulatedEnvironment::MakeTimers() {
  return std::make_unique<SimulatedTimers>(*this);
}

absl::StatusOr<std::unique_ptr<StartedThread>> SimulatedEnvironment::StartThread(
    absl::AnyInvocable<void()> run) {
  return std::make_unique<SimulatedThread>(*this, scheduler_.StartThread(process_, std::move(run)));
}

SimulatedTimers::~SimulatedTimers() {
  const std::set<Scheduler::EventId> pending = std::exchange(pending_, {});
  for (const Scheduler::EventId id : pending) environment_.scheduler().RemoveEvent(id);
}

Timers::TimerId SimulatedTimers::At(absl::Time when, absl::AnyInvocable<void()> work) {
  // Which number it has is known only afterwards; nothing runs in between.
  const auto id = std::make_shared<Scheduler::EventId>(0);
  Scheduler::Process& process = environment_.process();
  *id = environment_.scheduler().AddEvent(process, process.clock.WorldTimeOf(when),
                                          [this, id, work = std::move(work)]() mutable {
                                            pending_.erase(*id);
                                            work();
                                          });
  pending_.insert(*id);
  return *id;
}

bool SimulatedTimers::Forget(TimerId id) {
  return pending_.erase(id) == 1 && environment_.scheduler().RemoveEvent(id);
}

SimulatedThreads::~SimulatedThreads() {
  absl::MutexLock lock(&mutex_);
  environment_.Await(mutex_,
                     absl::Condition(
                         +[](int* num_blocked) { return *num_blocked == 0; }, &num_blocked_),
                     absl::InfiniteFuture());
}

void SimulatedThreads::Compute(Runnable* work) {
  Scheduler& scheduler = environment_.scheduler();
  Scheduler::Process& process = environment_.process();
  const int64_t longest = absl::ToInt64Microseconds(environment_.longest_delay_of_work());
  if (longest <= 0) return scheduler.AddWork(process, work);
  const absl::Duration delay = absl::Microseconds(scheduler.Below(static_cast<size_t>(longest)));
  scheduler.AddEvent(process, scheduler.now() + delay,
                     [&scheduler, &process, work] { scheduler.AddWork(process, work); });
}

absl::Status SimulatedThreads::Block(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (num_blocked_ >= max_blocked_threads_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", max_blocked_threads_, " threads for kernels that wait are in use"));
  }
  ++num_blocked_;
  const auto thread = environment_.StartThread([this, work = std::move(work)]() mutable {
    work();
    work = nullptr;
    absl::MutexLock lock(&mutex_);
    --num_blocked_;
  });
  if (!thread.ok()) --num_blocked_;
  return thread.status();
}

}  // namespace weir
