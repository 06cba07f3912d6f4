// The threads a device computes on.
//
// One pool per Runtime. ParallelFor splits one kernel's work; Schedule runs ready nodes of the dataflow
// executor. Thread safety: all methods.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"

namespace weir {

class ThreadPool {
 public:
  // num_threads counts the calling thread of ParallelFor; at least 1. 0 takes $WEIR_NUM_THREADS or all cores.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();  // waits for everything scheduled

  int num_threads() const { return num_threads_; }

  // Calls body(begin, end) on disjoint ranges that cover [0, count), and returns when all are done. Runs on
  // the calling thread alone when count * cost_per_item is less than a wake-up is worth. cost_per_item: rough
  // nanoseconds of one item on one core.
  void ParallelFor(int64_t count, double cost_per_item,
                   absl::FunctionRef<void(int64_t begin, int64_t end)> body);

  // Runs `task` soon on some thread of the pool. Tasks must not wait for one another.
  void Schedule(std::function<void()> task);

 private:
  class Workers;
  const int num_threads_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace weir
