// Implementation notes.
//
// ParallelFor runs on libgomp's team of the calling thread (the build defines _OPENMP; //kernels:openmp_off does not).
// Reason: oneDNN is built on libgomp, whose threads spin for a while after a parallel region; a second set of compute
// threads would fight with them for the cores. ThreadSanitizer does not understand libgomp, and clang would bring an
// OpenMP runtime of its own, so such builds use the threads of Schedule instead.
//
// At most one ParallelFor of a pool is split at a time; one that comes meanwhile, or from inside another, runs on its
// calling thread: the cores are busy anyway.
#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace weir {
namespace {

// Less work than this stays on the calling thread: a sleeping thread takes 25 to 70 microseconds to wake.
constexpr double kMinSplitNanoseconds = 40e3;
constexpr int kMaxThreads = 1024;
// How long an idle thread looks for new tasks before it sleeps: a few times a wake-up's cost.
constexpr int kSpins = 2000;

int DefaultNumThreads() {
  int threads = 0;
  const char* text = std::getenv("WEIR_NUM_THREADS");
  if (text != nullptr && absl::SimpleAtoi(text, &threads) && threads > 0) return std::min(threads, kMaxThreads);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// True on a thread that is inside a ParallelFor, also of another pool.
thread_local bool inside_parallel_for = false;

}  // namespace

class ThreadPool::Workers {
 public:
  explicit Workers(int num_threads) : num_threads_(num_threads) {}

  ~Workers() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void Schedule(std::function<void()> task) {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    num_queued_.fetch_add(1, std::memory_order_release);
    // Threads come into being with the first work they are needed for: a runtime that never needs them has none.
    if (num_idle_ < static_cast<int>(tasks_.size()) && static_cast<int>(threads_.size()) < num_threads_) {
      threads_.emplace_back([this] { RunTasks(); });
    }
  }

  // False when another ParallelFor is being split.
  bool TryBeginParallel() { return !parallel_.exchange(true, std::memory_order_acquire); }
  void EndParallel() { parallel_.store(false, std::memory_order_release); }

 private:
  void RunTasks() {
    while (true) {
      std::function<void()> task = NextTask();
      if (task == nullptr) return;
      task();
    }
  }

  // Null when the pool ends and nothing is left to do.
  std::function<void()> NextTask() {
    for (int i = 0; i < kSpins && num_queued_.load(std::memory_order_acquire) == 0; ++i) Pause();
    absl::MutexLock lock(&mutex_);
    ++num_idle_;
    mutex_.Await(absl::Condition(this, &Workers::HasTaskOrStops));
    --num_idle_;
    if (tasks_.empty()) return nullptr;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    num_queued_.fetch_sub(1, std::memory_order_relaxed);
    return task;
  }

  bool HasTaskOrStops() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty() || stopping_; }

  const int num_threads_;
  std::atomic<bool> parallel_{false};
  std::atomic<int> num_queued_{0};
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  int num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // grows under mutex_; joined when nobody else is left
};

namespace {

// Piece `index` of `pieces` equal pieces of [0, count).
void RunPiece(int index, int pieces, int64_t count, absl::FunctionRef<void(int64_t, int64_t)> body) {
  const int64_t size = count / pieces;
  const int64_t longer = count % pieces;  // the first pieces take one item more
  const int64_t begin = index * size + std::min<int64_t>(index, longer);
  const int64_t end = begin + size + (index < longer ? 1 : 0);
  if (begin == end) return;
  inside_parallel_for = true;
  body(begin, end);
  inside_parallel_for = false;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads > 0 ? std::min(num_threads, kMaxThreads) : DefaultNumThreads()),
      workers_(std::make_unique<Workers>(num_threads_)) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::Schedule(std::function<void()> task) { workers_->Schedule(std::move(task)); }

void ThreadPool::ParallelFor(int64_t count, double cost_per_item,
                             absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count <= 0) return;
  const double cost = static_cast<double>(count) * cost_per_item;
  if (num_threads_ == 1 || count == 1 || cost < kMinSplitNanoseconds || inside_parallel_for ||
      !workers_->TryBeginParallel()) {
    body(0, count);
    return;
  }
  const int pieces = static_cast<int>(std::min<int64_t>(num_threads_, count));
#ifdef _OPENMP
#pragma omp parallel num_threads(pieces)
  {
    // The runtime may give fewer threads than asked for; every piece is done all the same.
    const int team = omp_get_num_threads();
    for (int i = omp_get_thread_num(); i < pieces; i += team) RunPiece(i, pieces, count, body);
  }
#else
  absl::BlockingCounter left(pieces - 1);
  for (int i = 1; i < pieces; ++i) {
    workers_->Schedule([&, i] {
      RunPiece(i, pieces, count, body);
      left.DecrementCount();
    });
  }
  RunPiece(0, pieces, count, body);
  left.Wait();
#endif
  workers_->EndParallel();
}

}  // namespace weir
