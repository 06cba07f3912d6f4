#include "kernels/real_timers.h"

#include "kernels/system_thread.h"

namespace weir {

absl::Status RealTimers::Start() {
  absl::MutexLock lock(&mutex_);
  return StartThread();
}

absl::Status RealTimers::StartThread() {
  if (is_over_ || thread_.joinable()) return absl::OkStatus();
  absl::StatusOr<std::thread> thread = StartSystemThread([this] { Run(); });
  if (thread.ok()) thread_ = *std::move(thread);
  return thread.status();
}

void RealTimers::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    is_over_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

Timers::TimerId RealTimers::At(absl::Time when, absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  const TimerId id = next_++;
  timers_.emplace(std::make_pair(when, id), std::move(work));
  times_.emplace(id, when);
  StartThread().IgnoreError();
  // Timers are mostly forgotten before they ring. The thread is not woken for one that it will wake up for
  // anyway, nor when one goes: it looks again at the time it knew.
  if (when < sleeps_until_) changed_.Signal();
  return id;
}

bool RealTimers::Forget(TimerId id) {
  absl::AnyInvocable<void()> forgotten;  // destroyed after the lock
  absl::MutexLock lock(&mutex_);
  const auto time = times_.find(id);
  if (time == times_.end()) return false;
  const auto timer = timers_.find({time->second, id});
  forgotten = std::move(timer->second);
  timers_.erase(timer);
  times_.erase(time);
  return true;
}

void RealTimers::Run() {
  mutex_.Lock();
  while (!is_over_) {
    if (timers_.empty() || ProcessNow() < timers_.begin()->first.first) {
      sleeps_until_ = timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
      changed_.WaitUntil(&mutex_, sleeps_until_);
      sleeps_until_ = absl::InfinitePast();
      continue;
    }
    const auto first = timers_.begin();
    absl::AnyInvocable<void()> work = std::move(first->second);
    times_.erase(first->first.second);
    timers_.erase(first);
    mutex_.Unlock();
    work();
    work = nullptr;
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace weir
