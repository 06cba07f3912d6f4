// Whether kernels of one program run beside one another: measured in its first steps, then decided once.
//
// Most programs gain nothing: their kernels are short, or share the cores inside. Those with several long
// kernels that keep to one core and do not depend on one another (26 look-ups of embeddings) do. So the first
// steps of a program measure its kernels, and a simulation of the schedule with these times says what would
// be gained. If that is enough, the next steps try it; if they are not shorter than those before, the program
// goes back to one thread for good. A program in which something waits cannot be compared so: what the
// simulation promised counts.
//
// Belongs to a plan. Thread safety: all methods.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "session/executor/overlap_options.h"
#include "session/executor/program.h"

namespace weir {

// What one step measured, by instruction.
struct StepTimes {
  explicit StepTimes(size_t num_instructions) : nanoseconds(num_instructions), is_split(num_instructions) {}

  // Around a kernel, on the thread that runs it.
  void Begin();
  void End(int32_t instruction);

  int64_t began = 0;
  int64_t loops_before = 0;
  int64_t step_began = 0;
  std::vector<int64_t> nanoseconds;
  std::vector<bool> is_split;  // the kernel shared its work with other threads, or wanted to
};

class Overlap {
 public:
  Overlap(const Program& program, const OverlapOptions& options);

  // What a step does is decided at its beginning.
  bool is_undecided() const { return mode_.load(std::memory_order_relaxed) <= Mode::kMeasures; }
  bool overlaps() const { return mode_.load(std::memory_order_acquire) >= Mode::kTries; }

  // Called for each step while the program is undecided. Null when this step does not measure.
  std::unique_ptr<StepTimes> BeginStep() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndStep(std::unique_ptr<StepTimes> times, bool is_ok) ABSL_LOCKS_EXCLUDED(mutex_);

  // Called after a step that overlapped, with the time that it took. Only for programs that never wait for
  // others.
  void AddTried(int64_t nanoseconds) {
    if (mode_.load(std::memory_order_relaxed) == Mode::kTries) Try(nanoseconds);
  }

  // By instruction: whether its kernel may run beside others. Precondition: overlaps() was true.
  bool is_heavy(int32_t instruction) const { return is_heavy_[instruction]; }

 private:
  enum class Mode : uint8_t { kMeasures, kLine, kTries, kOverlaps };

  static bool MayGain(const Program& program, const OverlapOptions& options);
  void Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Try(int64_t nanoseconds) ABSL_LOCKS_EXCLUDED(mutex_);

  const Program& program_;
  OverlapOptions options_;
  std::atomic<Mode> mode_;
  std::vector<bool> is_heavy_;  // set before mode_ says that it may be read

  absl::Mutex mutex_;
  int num_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_measuring_ ABSL_GUARDED_BY(mutex_) = false;      // one step at a time
  std::vector<int64_t> shortest_ ABSL_GUARDED_BY(mutex_);  // by instruction: the shortest time of any step
  std::vector<bool> is_split_ ABSL_GUARDED_BY(mutex_);
  int64_t shortest_line_ ABSL_GUARDED_BY(mutex_);
  int64_t shortest_tried_ ABSL_GUARDED_BY(mutex_);
};

// How long the program would take, in nanoseconds: `times` by instruction; those that are heavy run on any of
// `num_threads` threads, the others one after another, as DataflowExecutor runs them.
int64_t SimulateOverlap(const Program& program, const std::vector<int64_t>& times,
                        const std::vector<bool>& is_heavy, int num_threads);

}  // namespace weir
