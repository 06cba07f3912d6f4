// Implementation notes.
//
// ParallelFor: the caller publishes the loop, then takes chunks itself; helper threads take chunks as soon as
// they notice. The caller waits only for helpers that hold a chunk, never for one that has not come: on a
// machine whose cores are taken by other processes (a ps and its workers on two cores) it simply does the
// work alone. A team with a barrier, such as OpenMP's, waits there for a thread that the operating system
// does not run for milliseconds. Kernels call oneDNN on one thread per chunk for the same reason.
//
// A helper that has run out of chunks spins for some microseconds and then sleeps; loops too short to pay for
// a wake-up use those helpers that still spin. At most one ParallelFor of a pool is split at a time; one that
// comes meanwhile, or from inside another, runs on its calling thread: the cores are busy anyway.
#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

constexpr int kMaxThreads = 1024;
// Less work than this stays on the calling thread.
constexpr double kMinSplitNanoseconds = 20e3;
// Less work than this wakes nobody: a sleeping thread takes 25 to 70 microseconds to come.
constexpr double kMinWakeNanoseconds = 100e3;
// The smallest chunk worth taking, and how many there are at most for each thread.
constexpr double kChunkNanoseconds = 8e3;
constexpr int kChunksPerThread = 4;
// How often an idle thread looks for work before it sleeps: some 50 microseconds, about what a wake-up costs.
constexpr int kSpins = 1500;

int DefaultNumThreads() {
  int threads = 0;
  const char* text = std::getenv("WEIR_NUM_THREADS");
  if (text != nullptr && absl::SimpleAtoi(text, &threads) && threads > 0)
    return std::min(threads, kMaxThreads);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

thread_local int64_t num_long_loops = 0;

// True on a thread that is inside a ParallelFor, also of another pool.
thread_local bool inside_parallel_for = false;

// The helpers of ParallelFor.
//
// `open_` and `visitors_` keep a helper from touching a loop that is over: it counts itself as a visitor,
// then looks whether a loop is open; the caller closes the loop, then waits until there are no visitors. Both
// sides write before they read (sequentially consistent), so one of them sees the other.
class LoopTeam {
 public:
  using Body = absl::FunctionRef<void(int64_t, int64_t)>;

  explicit LoopTeam(int num_helpers) : num_helpers_(num_helpers) {}

  ~LoopTeam() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      news_.SignalAll();
    }
    for (std::thread& helper : helpers_) helper.join();
  }

  // False when another loop is being run.
  bool TryRun(int64_t count, int64_t num_chunks, bool worth_waking, Body body) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    if (helpers_.empty()) StartHelpers();
    body_ = &body;
    count_ = count;
    num_chunks_ = num_chunks;
    next_chunk_.store(0, std::memory_order_relaxed);
    open_.store(true);
    epoch_.fetch_add(1);
    if (worth_waking && num_sleeping_.load() > 0) {
      absl::MutexLock lock(&mutex_);
      news_.SignalAll();
    }
    TakeChunks();
    open_.store(false);
    WaitForVisitors();
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  // Fewer where the system gives no more threads.
  void StartHelpers() {
    for (int i = 0; i < num_helpers_; ++i) {
      absl::StatusOr<std::thread> helper = StartSystemThread([this] { Help(); });
      if (!helper.ok()) return;
      helpers_.push_back(*std::move(helper));
    }
  }

  void TakeChunks() {
    inside_parallel_for = true;
    while (true) {
      const int64_t chunk = next_chunk_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= num_chunks_) break;
      const int64_t size = count_ / num_chunks_;
      const int64_t longer = count_ % num_chunks_;  // the first chunks take one item more
      const int64_t begin = chunk * size + std::min(chunk, longer);
      (*body_)(begin, begin + size + (chunk < longer ? 1 : 0));
    }
    inside_parallel_for = false;
  }

  void WaitForVisitors() {
    for (int i = 0; i < kSpins; ++i) {
      if (visitors_.load() == 0) return;
      Pause();
    }
    absl::MutexLock lock(&mutex_);
    caller_waits_.store(true);
    while (visitors_.load() != 0) left_.Wait(&mutex_);
    caller_waits_.store(false);
  }

  void Help() {
    int64_t seen = 0;
    while (AwaitNews(&seen)) {
      visitors_.fetch_add(1);
      if (open_.load()) TakeChunks();
      if (visitors_.fetch_sub(1) == 1 && caller_waits_.load()) {
        absl::MutexLock lock(&mutex_);
        left_.Signal();
      }
    }
  }

  // Waits for a loop later than `*seen`. False when the team ends.
  bool AwaitNews(int64_t* seen) {
    for (int i = 0; i < kSpins; ++i) {
      const int64_t epoch = epoch_.load(std::memory_order_acquire);
      if (epoch != *seen) {
        *seen = epoch;
        return true;
      }
      Pause();
    }
    absl::MutexLock lock(&mutex_);
    num_sleeping_.fetch_add(1);
    // A loop that wakes nobody is no news to a sleeper; it looks again when it is woken.
    while (epoch_.load() == *seen && !stopping_) news_.Wait(&mutex_);
    num_sleeping_.fetch_sub(1);
    *seen = epoch_.load();
    return !stopping_;
  }

  const int num_helpers_;
  std::vector<std::thread> helpers_;  // started by the first loop, under busy_

  std::atomic<bool> busy_{false};  // a caller owns the fields down to next_chunk_
  const Body* body_ = nullptr;
  int64_t count_ = 0;
  int64_t num_chunks_ = 0;
  std::atomic<int64_t> next_chunk_{0};

  std::atomic<bool> open_{false};
  std::atomic<int> visitors_{0};
  std::atomic<int64_t> epoch_{0};
  std::atomic<int> num_sleeping_{0};
  std::atomic<bool> caller_waits_{false};
  absl::Mutex mutex_;
  absl::CondVar news_;
  absl::CondVar left_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

class ThreadPool::Team final : public LoopTeam {
 public:
  using LoopTeam::LoopTeam;
};

int64_t NumLongLoops();  // long_loops.h: for those few who ask
int64_t NumLongLoops() { return num_long_loops; }

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads > 0 ? std::min(num_threads, kMaxThreads) : DefaultNumThreads()),
      team_(std::make_unique<Team>(num_threads_ - 1)) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::ParallelFor(int64_t count, double cost_per_item,
                             absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count <= 0) return;
  const double cost = static_cast<double>(count) * cost_per_item;
  if (num_threads_ > 1 && count > 1 && cost >= kMinSplitNanoseconds && !inside_parallel_for) {
    ++num_long_loops;
    const double most = std::min<double>(static_cast<double>(count), num_threads_ * kChunksPerThread);
    const auto num_chunks =
        static_cast<int64_t>(std::clamp(cost / kChunkNanoseconds, 2.0, std::max(2.0, most)));
    if (team_->TryRun(count, num_chunks, cost >= kMinWakeNanoseconds, body)) return;
  }
  body(0, count);
}

}  // namespace weir
