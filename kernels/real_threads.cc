#include "kernels/real_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

thread_local RunScope* current_scope = nullptr;
// Whose compute thread this is; null for a thread of a caller.
thread_local RealThreads* own_threads = nullptr;

// What a thread keeps in mind of what it gave to others. A loop may give without end.
constexpr size_t kMostElsewhere = 1024;

// How long a compute thread goes on before others that wait have their turn: a loop may never end. Far more
// than most steps take, for steps that alternate all end late.
class Turn {
 public:
  static constexpr int64_t kMostKernels = 128;  // between two looks at the clock

  bool IsOver() {
    if (own_threads == nullptr) return false;
    const int64_t now = absl::GetCurrentTimeNanos();
    if (begin_ != 0 && now - begin_ < kNanoseconds) return false;
    return std::exchange(begin_, now) != 0;
  }

 private:
  static constexpr int64_t kNanoseconds = 10'000'000;
  int64_t begin_ = 0;  // of what goes on when it is first asked
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
      const bool goes_on = work->Run(Turn::kMostKernels);
      is_running_ = false;
      if (goes_on) here_.push_back(work);
      const bool has_more = !here_.empty() || !elsewhere_.empty();
      if (has_more && turn.IsOver() && own_threads->GoBehindOthers(&here_)) return;
    }
    if (elsewhere_.empty()) return;
    const auto [threads, work] = elsewhere_.back();
    elsewhere_.pop_back();
    if (threads->TakeBack(work)) here_.push_back(work);
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
    if (has_nothing_else || !is_heavy || options_.num_threads <= 1) return scope->here_.push_back(work);
    if (scope->elsewhere_.size() == kMostElsewhere) scope->elsewhere_.clear();
    scope->elsewhere_.emplace_back(this, work);
  }
  absl::MutexLock lock(&work_mutex_);
  work_.push_back(work);
  if (num_idle_ < static_cast<int>(work_.size()) &&
      static_cast<int>(work_threads_.size()) < std::max(1, options_.num_threads)) {
    StartWorkThread().IgnoreError();  // the threads that are there do it
  }
}

bool RealThreads::TakeBack(Runnable* work) {
  absl::MutexLock lock(&work_mutex_);
  const auto found = std::find(work_.begin(), work_.end(), work);
  if (found == work_.end()) return false;
  work_.erase(found);
  return true;
}

bool RealThreads::GoBehindOthers(std::deque<Runnable*>* works) {
  absl::MutexLock lock(&work_mutex_);
  if (work_.empty()) return false;
  work_.insert(work_.end(), works->begin(), works->end());
  works->clear();
  return true;
}

void RealThreads::RunWork() {
  own_threads = this;
  while (Runnable* const work = NextWork()) {
    RunScope scope;
    scope.here_.push_back(work);
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
