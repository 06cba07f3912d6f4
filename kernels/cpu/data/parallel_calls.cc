#include "kernels/cpu/data/parallel_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace weir {
namespace {

struct Calls {
  Calls(const PreparedFunction& function, size_t count)
      : function(function),
        cancellations(count),
        results(count, absl::CancelledError("a call before this one failed")) {}

  const PreparedFunction function;  // kept while calls are under way
  std::vector<Cancellation> cancellations;
  absl::Mutex mutex;
  std::vector<Function::Results> results ABSL_GUARDED_BY(mutex);
  int64_t num_running ABSL_GUARDED_BY(mutex) = 0;
  bool has_failed ABSL_GUARDED_BY(mutex) = false;
  bool is_cancelled ABSL_GUARDED_BY(mutex) = false;
};

}  // namespace

absl::StatusOr<std::vector<Function::Results>> CallInParallel(const PreparedFunction& function,
                                                              std::vector<Element> arguments,
                                                              int64_t num_calls, Environment& environment,
                                                              Cancellation& cancellation) {
  const auto calls = std::make_shared<Calls>(function, arguments.size());
  const uint64_t callback = cancellation.OnCancel([calls](const absl::Status& reason) {
    {
      absl::MutexLock lock(&calls->mutex);
      calls->is_cancelled = true;
    }
    for (Cancellation& call : calls->cancellations) call.Cancel(reason);
  });
  const auto wait_for = [&](int64_t most_running) {
    absl::MutexLock lock(&calls->mutex);
    const auto can_go_on = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls->mutex) {
      return calls->num_running <= most_running || calls->is_cancelled;
    };
    environment.Await(calls->mutex, absl::Condition(&can_go_on));
    return !calls->is_cancelled && !calls->has_failed;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!wait_for(std::max<int64_t>(num_calls, 1) - 1)) break;
    {
      absl::MutexLock lock(&calls->mutex);
      ++calls->num_running;
    }
    calls->function.Start(std::move(arguments[i]), calls->cancellations[i],
                          [calls, i](Function::Results results) {
                            absl::MutexLock lock(&calls->mutex);
                            calls->has_failed |= !results.ok();
                            calls->results[i] = std::move(results);
                            --calls->num_running;
                          });
  }
  wait_for(0);
  cancellation.Remove(callback);
  absl::MutexLock lock(&calls->mutex);
  if (calls->is_cancelled) return cancellation.reason();
  return std::move(calls->results);
}

}  // namespace weir
