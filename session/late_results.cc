#include "session/late_results.h"

#include <utility>

namespace weir {

void LateResults::Start(Rendezvous& rendezvous, int first_edge, int count, const RunPartitionCall& call) {
  call_ = &call;
  for (int i = 0; i < count; ++i) {
    rendezvous.RecvAsync(first_edge + i,
                         [this, i](const absl::Status& status, const Tensor& tensor, bool is_dead) {
                           if (status.ok()) Add({i, tensor, is_dead});
                         });
  }
}

void LateResults::Add(Result result) {
  {
    absl::MutexLock lock(&mutex_);
    results_.push_back(std::move(result));
    if (std::exchange(is_given_, true)) return;
    hold_();
  }
  threads_.Compute(this);
}

bool LateResults::Run(int64_t) {
  const std::function<void()> release = release_;  // after it this object may belong to another step
  while (true) {
    std::vector<Result> results;
    {
      absl::MutexLock lock(&mutex_);
      results.swap(results_);
      is_given_ = !results.empty();
    }
    if (results.empty()) break;
    for (const Result& result : results) call_->on_late_result(result.index, result.tensor, result.is_dead);
  }
  release();
  return false;
}

}  // namespace weir
