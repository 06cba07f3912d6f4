#include "distributed/timing/timer_queue.h"

namespace weir {

TimerQueue::TimerQueue(const ListeningThreads::Options& threads)
    : threads_(threads, [this](ListeningThreads& threads) { RunClosures(threads); }) {}

TimerQueue::~TimerQueue() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  changed_.SignalAll();
}

TimerQueue::Id TimerQueue::Schedule(absl::Time when, Closure closure) {
  absl::MutexLock lock(&mutex_);
  const Id id = next_id_++;
  closures_.emplace(Key{when, id}, std::move(closure));
  changed_.Signal();
  return id;
}

bool TimerQueue::Cancel(absl::Time when, Id id) {
  Closure dropped;  // destroyed outside the lock: it may hold the last reference to something large
  absl::MutexLock lock(&mutex_);
  auto it = closures_.find(Key{when, id});
  if (it == closures_.end()) return false;
  dropped = std::move(it->second);
  closures_.erase(it);
  return true;
}

void TimerQueue::RunClosures(ListeningThreads& threads) {
  mutex_.Lock();
  while (!stopping_ && !threads.MayLeave()) {
    if (closures_.empty()) {
      changed_.Wait(&mutex_);
    } else if (const absl::Time due = closures_.begin()->first.first; due > ProcessNow()) {
      changed_.WaitUntil(&mutex_, due);
    } else {
      Closure closure = std::move(closures_.begin()->second);
      closures_.erase(closures_.begin());
      mutex_.Unlock();
      closure();
      closure = nullptr;
      mutex_.Lock();
    }
  }
  mutex_.Unlock();
}

}  // namespace weir
