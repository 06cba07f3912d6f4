// Implementation notes.
//
// A ParallelFor is cut into pieces that the caller and the helper threads claim one by one. The caller never
// waits for a helper that has not begun: on a busy machine, where a helper may not get a core for
// milliseconds, it does all the work itself. (An OpenMP team waits for each of its threads at the end of
// every region: with another process on the second core that made a 0.1 ms product take 4 ms.) oneDNN is
// always called on one thread (kernels/cpu/onednn.h), so that its OpenMP threads never come into being.
//
// The pieces of a job depend on its size only, not on who is awake: results do not change from run to run.
//
// Helpers look for the next job for a while before they sleep, because a step's kernels follow one another
// quickly and waking a thread costs as much as a small kernel.
//
// At most one ParallelFor of a pool is split at a time; one that comes meanwhile, or from inside another,
// runs on its calling thread: the cores are busy anyway.
#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"

namespace weir {
namespace {

// Less work than this stays on the calling thread: a sleeping thread takes 25 to 70 microseconds to wake.
constexpr double kMinSplitNanoseconds = 40e3;
// Jobs that take longer are cut into two pieces per thread: one that came late then still takes its share.
constexpr double kLongNanoseconds = 400e3;
constexpr int kMaxThreads = 1024;
// How long an idle thread looks for new work before it sleeps: a few times a wake-up's cost.
constexpr auto kIdleTime = std::chrono::microseconds(100);
// Turns of a waiting loop between looks at the clock.
constexpr int kTurns = 32;

int DefaultNumThreads() {
  int threads = 0;
  const char* text = std::getenv("WEIR_NUM_THREADS");
  if (text != nullptr && absl::SimpleAtoi(text, &threads) && threads > 0)
    return std::min(threads, kMaxThreads);
  return std::max(1, std::min(kMaxThreads, static_cast<int>(std::thread::hardware_concurrency())));
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Looks again and again whether ready() holds, for up to kIdleTime; returns whether it did.
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  const auto deadline = std::chrono::steady_clock::now() + kIdleTime;
  do {
    for (int i = 0; i < kTurns; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

// True on a thread that is inside a ParallelFor, also of another pool.
thread_local bool inside_parallel_for = false;

using Body = absl::FunctionRef<void(int64_t, int64_t)>;

// The helpers of ParallelFor. Run is for one caller at a time.
//
// Invariant: a job's fields change only while none of its pieces is claimed and unfinished. Run keeps it by
// waiting for every piece that was claimed; a helper reads the fields only after it claimed a piece.
class Helpers {
 public:
  explicit Helpers(int count) : count_(count) {}

  ~Helpers() {
    stopping_.store(true, std::memory_order_relaxed);
    WakeAll();
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(int pieces, int64_t count, Body body) {
    while (static_cast<int>(threads_.size()) < count_) threads_.emplace_back([this] { Help(); });
    body_.store(&body, std::memory_order_relaxed);
    count_of_job_.store(count, std::memory_order_relaxed);
    finished_.store(0, std::memory_order_relaxed);
    const uint32_t job = ++last_job_;
    claims_.store(Claims{job, static_cast<uint16_t>(pieces), 0}, std::memory_order_release);
    WakeAll();
    while (const std::optional<Claims> mine = Claim()) RunPiece(*mine);
    const auto is_finished = [&] { return finished_.load(std::memory_order_acquire) == pieces; };
    while (!SpinUntil(is_finished)) std::this_thread::yield();
  }

 private:
  // Of the job that runs: which pieces are taken. One word, so that it changes as a whole.
  struct Claims {
    uint32_t job;
    uint16_t pieces;
    uint16_t next;
  };
  static_assert(std::atomic<Claims>::is_always_lock_free);

  // The next piece of the present job (`next` of the result), or nothing when all are taken.
  std::optional<Claims> Claim() {
    Claims claims = claims_.load(std::memory_order_acquire);
    while (claims.next < claims.pieces) {
      Claims taken = claims;
      ++taken.next;
      if (claims_.compare_exchange_weak(claims, taken, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        return claims;
      }
    }
    return std::nullopt;
  }

  void RunPiece(const Claims& claims) {
    const int64_t count = count_of_job_.load(std::memory_order_relaxed);
    const int64_t size = count / claims.pieces;
    const int64_t longer = count % claims.pieces;  // the first pieces take one item more
    const int64_t begin = claims.next * size + std::min<int64_t>(claims.next, longer);
    const int64_t end = begin + size + (claims.next < longer ? 1 : 0);
    inside_parallel_for = true;
    if (begin < end) (*body_.load(std::memory_order_relaxed))(begin, end);
    inside_parallel_for = false;
    finished_.fetch_add(1, std::memory_order_acq_rel);
  }

  void Help() {
    while (true) {
      const uint32_t before = wake_ups_.load(std::memory_order_acquire);
      std::optional<Claims> piece;
      const auto find = [&] {
        return stopping_.load(std::memory_order_relaxed) || (piece = Claim()).has_value();
      };
      // Asleep, a helper misses no job: the one that began since `before` was read has changed wake_ups_.
      if (!SpinUntil(find)) wake_ups_.wait(before, std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      if (piece) RunPiece(*piece);
    }
  }

  void WakeAll() {
    wake_ups_.fetch_add(1, std::memory_order_release);
    wake_ups_.notify_all();
  }

  const int count_;
  std::atomic<Claims> claims_{Claims{0, 0, 0}};
  std::atomic<const Body*> body_{nullptr};
  std::atomic<int64_t> count_of_job_{0};
  std::atomic<int> finished_{0};
  std::atomic<uint32_t> wake_ups_{0};
  std::atomic<bool> stopping_{false};
  uint32_t last_job_ = 0;
  std::vector<std::thread> threads_;  // come into being with the first job
};

}  // namespace

class ThreadPool::Workers {
 public:
  explicit Workers(int num_threads) : num_threads_(num_threads), helpers_(num_threads - 1) {}

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
    // Threads come into being with the first work they are needed for: a runtime that never needs them has
    // none.
    if (num_idle_ < static_cast<int>(tasks_.size()) && static_cast<int>(threads_.size()) < num_threads_) {
      threads_.emplace_back([this] { RunTasks(); });
    }
  }

  // False, and nothing done, when another ParallelFor is being split.
  bool TryRunParallel(int pieces, int64_t count, Body body) {
    if (is_parallel_.exchange(true, std::memory_order_acquire)) return false;
    helpers_.Run(pieces, count, body);
    is_parallel_.store(false, std::memory_order_release);
    return true;
  }

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
    SpinUntil([this] { return num_queued_.load(std::memory_order_acquire) > 0; });
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
  std::atomic<bool> is_parallel_{false};
  Helpers helpers_;  // used by the thread that set is_parallel_
  std::atomic<int> num_queued_{0};
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  int num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // grows under mutex_; joined when nobody else is left
};

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads > 0 ? std::min(num_threads, kMaxThreads) : DefaultNumThreads()),
      workers_(std::make_unique<Workers>(num_threads_)) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::Schedule(std::function<void()> task) { workers_->Schedule(std::move(task)); }

void ThreadPool::ParallelFor(int64_t count, double cost_per_item,
                             absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count <= 0) return;
  const double cost = static_cast<double>(count) * cost_per_item;
  const int64_t wanted = cost > kLongNanoseconds ? 2 * num_threads_ : num_threads_;
  const int pieces = static_cast<int>(std::min(wanted, count));
  const bool stays_here =
      num_threads_ == 1 || pieces == 1 || cost < kMinSplitNanoseconds || inside_parallel_for;
  if (stays_here || !workers_->TryRunParallel(pieces, count, body)) body(0, count);
}

}  // namespace weir
