#include "session/executor/overlap.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/long_loops.h"

namespace weir {
namespace {

// What handing a kernel to another thread costs the one that waits for it.
constexpr int64_t kHandOverNanoseconds = 10'000;
// A schedule that was tried is kept when its steps are shorter by at least 1 part in this many.
constexpr int64_t kKeptGain = 20;

template <typename T>
using Earliest = std::priority_queue<T, std::vector<T>, std::greater<T>>;

// The executor's policy (DataflowExecutor::RunNext) with known times.
class Simulation {
 public:
  Simulation(const Program& program, const std::vector<int64_t>& times, const std::vector<bool>& is_heavy,
             int num_threads)
      : program_(program), times_(times), is_heavy_(is_heavy) {
    for (const Instruction& at : program.instructions()) pending_.push_back(at.num_pending);
    for (int i = 0; i < num_threads; ++i) free_at_.push(0);
  }

  int64_t Run() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (pending_[i] == 0) ready_.push(static_cast<int32_t>(i));
    }
    while (true) {
      if (!ready_.empty()) {
        const int32_t next = ready_.top();
        ready_.pop();
        if (is_heavy_[next]) {
          held_.push_back(next);
          if (held_.size() + under_way_.size() >= 2) HandOver();
        } else {
          RunHere(next);
        }
      } else if (!held_.empty()) {
        RunHere(held_.back());  // alone
        held_.pop_back();
      } else if (!under_way_.empty()) {
        const auto [end, instruction] = under_way_.top();
        under_way_.pop();
        now_ = std::max(now_, end);
        Complete(instruction);
      } else {
        return now_;
      }
    }
  }

 private:
  int64_t OnFreeThread(int64_t earliest, int64_t time) {
    const int64_t end = std::max(earliest, free_at_.top()) + time;
    free_at_.pop();
    free_at_.push(end);
    return end;
  }
  void RunHere(int32_t instruction) {
    now_ = OnFreeThread(now_, times_[instruction]);
    Complete(instruction);
  }
  void HandOver() {
    for (const int32_t instruction : held_) {
      under_way_.emplace(OnFreeThread(now_, kHandOverNanoseconds + times_[instruction]), instruction);
    }
    held_.clear();
  }
  void Complete(int32_t instruction) {
    const Instruction& at = program_.instructions()[instruction];
    for (int k = 0; k < at.num_successors; ++k) {
      const int32_t next = program_.successors()[at.first_successor + k].instruction;
      if (--pending_[next] == 0) ready_.push(next);
    }
  }

  const Program& program_;
  const std::vector<int64_t>& times_;
  const std::vector<bool>& is_heavy_;
  int64_t now_ = 0;
  std::vector<int32_t> pending_;
  Earliest<int32_t> ready_;
  std::vector<int32_t> held_;
  Earliest<std::pair<int64_t, int32_t>> under_way_;
  Earliest<int64_t> free_at_;  // by thread
};

}  // namespace

int64_t SimulateOverlap(const Program& program, const std::vector<int64_t>& times,
                        const std::vector<bool>& is_heavy, int num_threads) {
  return Simulation(program, times, is_heavy, num_threads).Run();
}

void StepTimes::Begin() {
  loops_before = NumLongLoops();
  began = absl::GetCurrentTimeNanos();
}

void StepTimes::End(int32_t instruction) {
  nanoseconds[instruction] = absl::GetCurrentTimeNanos() - began;
  is_split[instruction] = NumLongLoops() != loops_before;
}

Overlap::Overlap(const Program& program, const OverlapOptions& options)
    : program_(program),
      options_(options),
      mode_(Mode::kMeasures),
      shortest_line_(std::numeric_limits<int64_t>::max()),
      shortest_tried_(std::numeric_limits<int64_t>::max()) {
  if (options_.num_threads == 0) options_.num_threads = program.device().threads().num_threads();
  if (!MayGain(program, options_)) mode_ = Mode::kLine;
}

bool Overlap::MayGain(const Program& program, const OverlapOptions& options) {
  const auto is_candidate = [](const Instruction& at) { return at.kernel != nullptr && !at.may_wait(); };
  return options.num_threads > 1 && program.may_overlap() &&
         std::count_if(program.instructions().begin(), program.instructions().end(), is_candidate) >= 2;
}

std::unique_ptr<StepTimes> Overlap::BeginStep() {
  absl::MutexLock lock(&mutex_);
  if (is_measuring_ || !is_undecided() || ++num_steps_ <= options_.num_warm_up_steps) return nullptr;
  is_measuring_ = true;
  auto times = std::make_unique<StepTimes>(program_.instructions().size());
  times->step_began = absl::GetCurrentTimeNanos();
  return times;
}

void Overlap::EndStep(std::unique_ptr<StepTimes> times, bool is_ok) {
  if (times == nullptr) return;
  const int64_t step_time = absl::GetCurrentTimeNanos() - times->step_began;
  absl::MutexLock lock(&mutex_);
  is_measuring_ = false;
  if (!is_ok) {
    --num_steps_;
    return;
  }
  shortest_line_ = std::min(shortest_line_, step_time);
  if (shortest_.empty()) {
    shortest_ = std::move(times->nanoseconds);
    is_split_ = std::move(times->is_split);
  } else {
    for (size_t i = 0; i < shortest_.size(); ++i) {
      shortest_[i] = std::min(shortest_[i], times->nanoseconds[i]);
      if (times->is_split[i]) is_split_[i] = true;
    }
  }
  if (num_steps_ >= options_.num_warm_up_steps + options_.num_measured_steps) Decide();
}

void Overlap::Decide() {
  const int64_t min_kernel = absl::ToInt64Nanoseconds(options_.min_kernel);
  is_heavy_.assign(shortest_.size(), false);
  for (size_t i = 0; i < shortest_.size(); ++i) {
    const Instruction& at = program_.instructions()[i];
    is_heavy_[i] = at.kernel != nullptr && !at.may_wait() && !is_split_[i] && shortest_[i] >= min_kernel;
  }
  const int64_t line = std::accumulate(shortest_.begin(), shortest_.end(), int64_t{0});
  const int64_t gain = line - SimulateOverlap(program_, shortest_, is_heavy_, options_.num_threads);
  const bool pays = gain >= absl::ToInt64Nanoseconds(options_.min_gain) &&
                    static_cast<double>(gain) >= options_.min_share * static_cast<double>(line);
  shortest_ = {};
  is_split_ = {};
  num_steps_ = 0;
  const Mode chosen = options_.num_tried_steps > 0 ? Mode::kTries : Mode::kOverlaps;
  mode_.store(pays ? chosen : Mode::kLine, std::memory_order_release);
}

void Overlap::Try(int64_t nanoseconds) {
  absl::MutexLock lock(&mutex_);
  if (mode_.load(std::memory_order_relaxed) != Mode::kTries) return;
  shortest_tried_ = std::min(shortest_tried_, nanoseconds);
  if (++num_steps_ < options_.num_tried_steps) return;
  const bool is_kept = shortest_tried_ <= shortest_line_ - shortest_line_ / kKeptGain;
  mode_.store(is_kept ? Mode::kOverlaps : Mode::kLine, std::memory_order_release);
}

}  // namespace weir
