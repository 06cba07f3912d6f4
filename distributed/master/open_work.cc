#include "distributed/master/open_work.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/long_wait.h"

namespace weir {

std::shared_ptr<OpenWork::Share> OpenWork::Begin() {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return nullptr;
  ++num_open_;
  return std::make_shared<Share>(this);
}

absl::Status OpenWork::Wait(absl::AnyInvocable<void()> work, bool is_repeated) {
  return Queue(is_repeated ? repeated_ : usual_, std::move(work));
}

absl::Status OpenWork::Compute(absl::AnyInvocable<void()> work) { return Queue(computing_, std::move(work)); }

absl::Status OpenWork::ComputeHere(absl::AnyInvocable<void()> work) {
  bool has_place = false;
  {
    absl::MutexLock lock(&mutex_);
    has_place = !is_closed_ && num_computing_here_ < kMaxComputingHere;
    num_computing_here_ += has_place;
    num_open_ += has_place;
  }
  if (!has_place) return Compute(std::move(work));
  work();
  work = nullptr;
  absl::MutexLock lock(&mutex_);
  --num_computing_here_;
  --num_open_;
  return absl::OkStatus();
}

absl::Status OpenWork::Queue(Lane& lane, absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return absl::UnavailableError("the server is shutting down");
  if (lane.queue.size() >= kMaxQueued) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this server has ", lane.num_running, " requests of clients under way that ", lane.what,
                     ", and ", kMaxQueued, " more that wait for them; try again later"));
  }
  if (lane.num_running < lane.max_running) {
    const absl::Status begun = threads_.Block([this, &lane] { RunLane(lane); });
    if (begun.ok()) {
      ++lane.num_running;
      ++num_open_;
    } else if (lane.num_running == 0) {
      return begun;
    }
  }
  lane.queue.push_back(std::move(work));
  return absl::OkStatus();
}

void OpenWork::RunLane(Lane& lane) {
  for (;;) {
    absl::AnyInvocable<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      if (lane.queue.empty()) {
        --lane.num_running;
        --num_open_;
        return;
      }
      work = std::move(lane.queue.front());
      lane.queue.pop_front();
    }
    work();
    work = nullptr;  // what it holds goes before the master may
  }
}

OpenWork::TimerId OpenWork::Later(absl::Time when, absl::AnyInvocable<void()> work) {
  {
    absl::MutexLock lock(&mutex_);
    if (!is_closed_) {
      const TimerId id = ++last_timer_;
      ++num_open_;
      timers_.emplace(id, Timer{std::move(work), threads_.At(when, [this, id] { Ring(id); })});
      return id;
    }
  }
  work();
  return 0;
}

void OpenWork::Ring(TimerId id) {
  absl::AnyInvocable<void()> work;
  {
    absl::MutexLock lock(&mutex_);
    const auto known = timers_.find(id);
    if (known != timers_.end()) {
      work = std::move(known->second.work);
      timers_.erase(known);
    }
  }
  if (work) work();
  work = nullptr;
  End();
}

void OpenWork::Forget(TimerId id) {
  Timer timer;  // dropped after the lock
  absl::MutexLock lock(&mutex_);
  const auto known = timers_.find(id);
  if (known == timers_.end()) return;
  timer = std::move(known->second);
  timers_.erase(known);
  if (threads_.Forget(timer.timer)) --num_open_;
}

void OpenWork::End() {
  absl::MutexLock lock(&mutex_);
  --num_open_;
}

void OpenWork::Close() {
  absl::flat_hash_map<TimerId, Timer> timers;
  {
    absl::MutexLock lock(&mutex_);
    is_closed_ = true;
    timers.swap(timers_);
  }
  for (auto& [id, timer] : timers) {
    const bool is_forgotten = threads_.Forget(timer.timer);
    timer.work();
    timer.work = nullptr;
    if (is_forgotten) End();
  }
}

bool OpenWork::is_closed() const {
  absl::MutexLock lock(&mutex_);
  return is_closed_;
}

void OpenWork::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_open_ == 0; };
  AwaitAloud(environment_, mutex_, absl::Condition(&is_idle), [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return absl::StrCat("the server ends, and waits for ", num_open_,
                        " calls and steps of clients that are under way");
  });
}

}  // namespace weir
