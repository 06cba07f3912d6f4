// The threads that split the work of one kernel. (Those that run steps are in kernels/threads.h.)
//
// One pool per Runtime. Thread safety: all methods.
//
// Progress: ParallelFor waits only for helpers that are computing a part of the loop. Where the system gives
// fewer threads than were asked for, those that are there do all of the work.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace weir {

class ThreadPool {
 public:
  // num_threads counts the calling thread of ParallelFor; at least 1. 0 takes $WEIR_NUM_THREADS or all cores.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();

  int num_threads() const { return num_threads_; }

  // Calls body(begin, end) on disjoint ranges that cover [0, count), and returns when all are done. Runs on
  // the calling thread alone when count * cost_per_item is less than a wake-up is worth. cost_per_item: rough
  // nanoseconds of one item on one core.
  void ParallelFor(int64_t count, double cost_per_item,
                   absl::FunctionRef<void(int64_t begin, int64_t end)> body);

 private:
  class Team;
  const int num_threads_;
  std::unique_ptr<Team> team_;
};

}  // namespace weir
