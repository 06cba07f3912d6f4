#include "session/step.h"

#include <deque>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"

namespace weir {
namespace {

thread_local std::deque<std::function<void()>>* calls_to_come = nullptr;

}  // namespace

void CallUnnested(std::function<void()> call) {
  if (calls_to_come != nullptr) return calls_to_come->push_back(std::move(call));
  std::deque<std::function<void()>> calls;
  calls_to_come = &calls;
  for (calls.push_back(std::move(call)); !calls.empty(); calls.pop_front()) calls.front()();
  calls_to_come = nullptr;
}

Step::Results AwaitResults(Environment& environment, absl::FunctionRef<void(Step::Done done)> start) {
  absl::Mutex mutex;
  std::optional<Step::Results> results;
  start([&](const Step::Results& told) {
    absl::MutexLock lock(&mutex);
    results = told;
  });
  absl::MutexLock lock(&mutex);
  environment.Await(mutex,
                    absl::Condition(
                        +[](std::optional<Step::Results>* told) { return told->has_value(); }, &results));
  return *std::move(results);
}

}  // namespace weir
