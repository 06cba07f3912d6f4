#include "session/step.h"

#include <deque>
#include <utility>

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

}  // namespace weir
