#include "distributed/timing/listening_threads.h"

#include <utility>

#include "kernels/system_thread.h"

namespace weir {

ListeningThreads::ListeningThreads(const Options& options, std::function<void(ListeningThreads&)> listen)
    : options_(options), listen_(std::move(listen)) {
  absl::MutexLock lock(&mutex_);
  for (int i = 0; i < options_.num_threads; ++i) {
    if (const absl::Status started = StartLocked(); !started.ok()) {
      if (i == 0) status_ = started;
      return;
    }
  }
}

ListeningThreads::~ListeningThreads() { Stop(); }

void ListeningThreads::Stop() {
  std::deque<Work> dropped;
  std::list<std::thread> left;
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
    dropped.swap(put_aside_);
  }
  dropped.clear();
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::list<std::thread>* threads) { return threads->empty(); }, &threads_));
    left.swap(left_);
  }
  for (std::thread& thread : left) thread.join();
}

absl::Status ListeningThreads::StartLocked() {
  const auto self = threads_.emplace(threads_.end());
  absl::StatusOr<std::thread> thread = StartSystemThread([this, self] {
    listen_(*this);
    absl::MutexLock lock(&mutex_);
    left_.splice(left_.end(), threads_, self);
  });
  if (!thread.ok()) {
    threads_.erase(self);
    return thread.status();
  }
  *self = *std::move(thread);
  ++num_listening_;
  return absl::OkStatus();
}

bool ListeningThreads::TryStartLocked() {
  return static_cast<int>(threads_.size()) < options_.max_threads && StartLocked().ok();
}

void ListeningThreads::Compute(Work work) {
  if (!Leave(&work)) return;
  do {
    std::exchange(work, nullptr)();
  } while (Return(&work));
}

bool ListeningThreads::Leave(Work* work) {
  std::list<std::thread> left;
  bool runs_now = true;
  {
    absl::MutexLock lock(&mutex_);
    if (num_listening_ == 1 && !is_stopping_) {
      left.swap(left_);
      // When nobody computes, nobody would come back for what is put aside.
      runs_now = TryStartLocked() || threads_.size() == 1;
    }
    if (runs_now) {
      --num_listening_;
    } else {
      put_aside_.push_back(std::move(*work));
    }
  }
  for (std::thread& thread : left) thread.join();
  return runs_now;
}

bool ListeningThreads::Return(Work* next) {
  absl::MutexLock lock(&mutex_);
  if (put_aside_.empty()) {
    ++num_listening_;
    return false;
  }
  *next = std::move(put_aside_.front());
  put_aside_.pop_front();
  return true;
}

bool ListeningThreads::MayLeave() {
  absl::MutexLock lock(&mutex_);
  if (num_listening_ <= 2 * options_.num_threads) return false;
  --num_listening_;
  return true;
}

int ListeningThreads::num_threads() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(threads_.size());
}

}  // namespace weir
