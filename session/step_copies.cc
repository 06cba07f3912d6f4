#include "session/step_copies.h"

#include <utility>

namespace weir {

void StepCopies::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
    ++num_ended_;
    if (std::exchange(is_given_, true)) return;
    hold_();  // for Run
  }
  threads_.Compute(this);
}

bool StepCopies::Run(int64_t) {
  const std::function<void(const absl::Status&)> release = release_;  // later this may be another step's
  while (true) {
    int num_ended = 0;
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      num_ended = std::exchange(num_ended_, 0);
      status = std::exchange(status_, absl::OkStatus());
      is_given_ = num_ended > 0;
    }
    if (num_ended == 0) break;
    for (int i = 0; i < num_ended; ++i) release(status);
  }
  release(absl::OkStatus());
  return false;
}

}  // namespace weir
