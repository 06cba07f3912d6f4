#include "kernels/real_threads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/process_clock.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

thread_local RunScope* current_scope = nullptr;
// Whose compute thread this is; null for a thread of a caller, who waits for one step alone.
thread_local RealThreads* own_threads = nullptr;
// Whose work the scope of this thread has; null when it is that of several, of which some may end earlier.
thread_local RealThreads* whose_work = nullptr;

void Put(RealThreads* threads, Runnable* work, std::deque<Runnable*>* here) {
  if (here->empty()) whose_work = threads;
  if (whose_work != threads) whose_work = nullptr;
  here->push_back(work);
}

// What a thread keeps in mind of what it gave to others. A loop may give without end.
constexpr size_t kMostElsewhere = 1024;

// How long a thread goes on before others that wait have their turn: a loop may never end. Far more than most
// steps take, for steps that alternate all end late.
class Turn {
 public:
  static constexpr int64_t kMostKernels = 128;  // between two looks at the clock

  bool IsOver() {
    const absl::Time now = ProcessNow();
    if (now < end_) return false;
    const bool has_begun = end_ != absl::InfinitePast();
    end_ = now + kLength;
    return has_begun;
  }

 private:
  static constexpr absl::Duration kLength = absl::Milliseconds(10);
  absl::Time end_ = absl::InfinitePast();  // it begins when it is first asked
};

}  // namespace

RunScope::RunScope() : is_outermost_(current_scope == nullptr) {
  if (is_outermost_) current_scope = this;
}

RunScope::~RunScope() {
  if (!is_outermost_) return;
  Drain();
  current_scope = nullptr;
}

bool RunScope::IsInside() { return current_scope != nullptr; }

void RunScope::Drain() {
  Turn turn;
  while (true) {
    while (!here_.empty()) {
      Runnable* const work = here_.front();
      here_.pop_front();
      runs_heavy_ = work->is_heavy();
      is_running_ = true;
      RealThreads* const whose = whose_work;
      const bool goes_on = work->Run(Turn::kMostKernels);
      is_running_ = false;
      if (goes_on) Put(whose, work, &here_);
      if (here_.empty() && elsewhere_.empty()) return;
      if (whose_work == nullptr || !turn.IsOver()) continue;
      if (whose_work->TakeOver(/*is_own_thread=*/whose_work == own_threads, &here_)) return;
    }
    if (elsewhere_.empty()) return;
    const auto [threads, work] = elsewhere_.back();
    elsewhere_.pop_back();
    if (threads->TakeBack(work)) Put(threads, work, &here_);
  }
}

absl::StatusOr<std::unique_ptr<RealThreads>> RealThreads::Create(const Options& options) {
  std::unique_ptr<RealThreads> threads(new RealThreads(options));
  absl::Status status = threads->timers_.Start();
  if (status.ok()) {
    absl::MutexLock lock(&threads->work_mutex_);
    status = threads->StartWorkThread();
  }
  if (!status.ok()) return status;
  return threads;
}

absl::Status RealThreads::StartWorkThread() {
  absl::StatusOr<std::thread> thread = StartSystemThread([this] { RunWork(); });
  if (thread.ok()) work_threads_.push_back(*std::move(thread));
  return thread.status();
}

RealThreads::~RealThreads() {
  // Blocked work may still wake what computes, so the threads that compute end last.
  timers_.Stop();
  {
    absl::MutexLock lock(&blocked_mutex_);
    blocked_ends_ = true;
  }
  for (std::thread& thread : blocked_threads_) thread.join();
  {
    absl::MutexLock lock(&work_mutex_);
    work_ends_ = true;
  }
  for (std::thread& thread : work_threads_) thread.join();
}

void RealThreads::Compute(Runnable* work) {
  RunScope* const scope = current_scope;
  if (scope != nullptr) {
    const bool has_nothing_else = !scope->is_running_ && scope->here_.empty();
    const bool is_heavy = work->is_heavy() || (scope->is_running_ && scope->runs_heavy_);
    if (has_nothing_else || !is_heavy || options_.num_threads <= 1) return Put(this, work, &scope->here_);
    if (scope->elsewhere_.size() == kMostElsewhere) scope->elsewhere_.clear();
    scope->elsewhere_.emplace_back(this, work);
  }
  absl::MutexLock lock(&work_mutex_);
  work_.push_back(work);
  StartWorkThreadsAsNeeded();
}

bool RealThreads::TakeBack(Runnable* work) {
  absl::MutexLock lock(&work_mutex_);
  const auto found = std::find(work_.begin(), work_.end(), work);
  if (found == work_.end()) return false;
  work_.erase(found);
  return true;
}

bool RealThreads::TakeOver(bool is_own_thread, std::deque<Runnable*>* works) {
  absl::MutexLock lock(&work_mutex_);
  if (is_own_thread && work_.empty()) return false;
  work_.insert(work_.end(), works->begin(), works->end());
  works->clear();
  StartWorkThreadsAsNeeded();
  return true;
}

void RealThreads::StartWorkThreadsAsNeeded() {
  if (num_idle_ < static_cast<int>(work_.size()) &&
      static_cast<int>(work_threads_.size()) < std::max(1, options_.num_threads)) {
    StartWorkThread().IgnoreError();  // the threads that are there do it
  }
}

void RealThreads::RunWork() {
  own_threads = this;
  while (Runnable* const work = NextWork()) {
    RunScope scope;
    Put(this, work, &scope.here_);
  }
}

Runnable* RealThreads::NextWork() {
  absl::MutexLock lock(&work_mutex_);
  ++num_idle_;
  const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(work_mutex_) {
    return !work_.empty() || work_ends_;
  };
  work_mutex_.Await(absl::Condition(&has_news));
  --num_idle_;
  if (work_.empty()) return nullptr;
  Runnable* const work = work_.front();
  work_.pop_front();
  return work;
}

absl::Status RealThreads::Block(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&blocked_mutex_);
  if (num_blocked_ >= options_.max_blocked_threads) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", options_.max_blocked_threads, " threads for kernels that wait are in use"));
  }
  if (static_cast<int>(blocked_threads_.size()) <= num_blocked_) {
    absl::StatusOr<std::thread> thread = StartSystemThread([this] { RunBlocked(); });
    if (!thread.ok()) {
      return absl::ResourceExhaustedError(absl::StrCat("no thread for a kernel that waits, beside ",
                                                       num_blocked_, ": ", thread.status().message()));
    }
    blocked_threads_.push_back(*std::move(thread));
  }
  ++num_blocked_;  // never more than there are threads, so none of it queues behind another
  blocked_.push_back(std::move(work));
  return absl::OkStatus();
}

void RealThreads::RunBlocked() {
  while (true) {
    absl::AnyInvocable<void()> work;
    {
      absl::MutexLock lock(&blocked_mutex_);
      const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(blocked_mutex_) {
        return !blocked_.empty() || blocked_ends_;
      };
      blocked_mutex_.Await(absl::Condition(&has_news));
      if (blocked_.empty()) return;
      work = std::move(blocked_.front());
      blocked_.pop_front();
    }
    work();
    work = nullptr;
    absl::MutexLock lock(&blocked_mutex_);
    --num_blocked_;
  }
}

}  // namespace weir
