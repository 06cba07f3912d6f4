#include "kernels/long_wait.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/notice.h"

namespace weir {
namespace {

// A simulation ends with an error when nothing has a time to go on at. So there a wait without an end is
// silent after some words.
constexpr int kMostSimulatedWords = 6;

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(std::max(duration, absl::ZeroDuration()), absl::Seconds(1)));
}

}  // namespace

bool LongWait::Say(absl::FunctionRef<std::string()> what, absl::Duration soon) {
  if (!is_due(soon)) return false;
  const absl::Time now = environment_.Now();
  PrintNotice(absl::StrCat(
      what(), " (for ", Seconds(now - begin_),
      deadline_ == absl::InfiniteFuture() ? "" : absl::StrCat(", ", Seconds(deadline_ - now), " left"), ")"));
  next_word_ = now + kSilence;
  return true;
}

bool AwaitAloud(Environment& environment, absl::Mutex& mutex, const absl::Condition& condition,
                absl::FunctionRef<std::string()> what, absl::Time deadline) {
  LongWait wait(environment, deadline);
  int num_words = 0;
  while (!environment.Await(mutex, condition, std::min(deadline, wait.next_word()))) {
    if (environment.Now() >= deadline) return false;
    if (!wait.is_due()) continue;
    if (environment.is_simulated() && deadline == absl::InfiniteFuture() &&
        ++num_words > kMostSimulatedWords) {
      return environment.Await(mutex, condition);
    }
    const std::string text = what();
    mutex.Unlock();
    wait.Say([&] { return text; });
    mutex.Lock();
  }
  return true;
}

}  // namespace weir
