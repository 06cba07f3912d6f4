#include "kernels/cpu/data/parallel_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/formats/memory_probe.h"

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

// What a call takes whose arguments and results are nothing.
constexpr uint64_t kBytesPerCall = sizeof(Cancellation) + sizeof(Function::Results) + sizeof(Element);

}  // namespace

absl::StatusOr<std::vector<Function::Results>> CallInParallel(
    const PreparedFunction& function, int64_t count,
    absl::FunctionRef<absl::StatusOr<Element>(int64_t)> arguments_of, int64_t num_calls,
    Environment& environment, Cancellation& cancellation) {
  const auto num_all = static_cast<uint64_t>(count);
  WEIR_RETURN_IF_ERROR(ProbeMemory(absl::StrCat(count, " calls"), num_all > UINT64_MAX / kBytesPerCall
                                                                      ? UINT64_MAX
                                                                      : num_all * kBytesPerCall));
  const auto calls = std::make_shared<Calls>(function, num_all);
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
  for (int64_t i = 0; i < count; ++i) {
    if (!wait_for(std::max<int64_t>(num_calls, 1) - 1)) break;
    absl::StatusOr<Element> arguments = arguments_of(i);
    {
      absl::MutexLock lock(&calls->mutex);
      if (!arguments.ok()) {
        calls->results[i] = arguments.status();
        break;
      }
      ++calls->num_running;
    }
    calls->function.Start(*std::move(arguments), calls->cancellations[i],
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
