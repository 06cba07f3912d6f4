// Loops that may compute for long and end with their step.
//
// For kernels of which an unfinished output is all that is lost: when the step is over, its outputs are
// dropped. Not for those that change variables or other state in place, nor for a first phase whose results a
// second one of the same kernel takes, unless it returns in between.
//
// Thread safety: all functions.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/cancellation.h"
#include "kernels/kernel_context.h"
#include "kernels/thread_pool.h"

namespace weir {

// The threads that share a kernel's work, and the step whose end they look for. A context becomes one by
// itself; threads alone look for nothing. Borrows both.
class TimelyThreads {
 public:
  TimelyThreads(const KernelContext& context) : TimelyThreads(context.threads(), &context.cancellation()) {}
  TimelyThreads(ThreadPool& threads, const Cancellation* cancellation = nullptr)
      : threads_(threads), cancellation_(cancellation) {}

  ThreadPool& threads() const { return threads_; }
  const Cancellation* cancellation() const { return cancellation_; }
  // For bodies whose items are long: they return early, and the loop gives the reason.
  bool is_over() const { return cancellation_ != nullptr && cancellation_->is_cancelled(); }
  // OK while the step is wanted, else why it is not.
  absl::Status status() const { return is_over() ? cancellation_->reason() : absl::OkStatus(); }

 private:
  ThreadPool& threads_;
  const Cancellation* const cancellation_;
};

// So many items of this cost, in nanoseconds, are some 5 ms of work: often enough to look. At least 1.
int64_t ItemsBetweenLooks(double cost_per_item);

// ThreadPool::ParallelFor. Where the estimate is 20 ms or more, each range comes in pieces of some 5 ms, and
// none more when the step is over. Then some of the output may be missing: the result is why the step is
// over.
absl::Status ParallelForInTime(const TimelyThreads& threads, int64_t count, double cost_per_item,
                               absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace weir
