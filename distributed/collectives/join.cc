#include <algorithm>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective.h"

namespace weir {
namespace {

class Join final : public Collective {
 public:
  Join(RankOf self, int64_t num_begun) : self_(self), begun_(self.size, -1), last_(self.size == 1 ? 0 : -1) {
    absl::MutexLock lock(&mutex_);
    begun_[self.rank] = num_begun;
  }

  std::vector<Outgoing> Start() override {
    absl::MutexLock lock(&mutex_);
    if (self_.rank == 0) return {};
    return {{0, {CollectivePart::kContribution, begun_[self_.rank], {}}, Payload()}};
  }

  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    const bool is_result = part.phase == CollectivePart::kResult;
    const bool fits = is_result ? from == 0 && self_.rank != 0 && part.segment < self_.size
                                : part.phase == CollectivePart::kContribution && self_.rank == 0 &&
                                      from > 0 && from < self_.size;
    if (!fits || part.segment < 0 || bytes.num_bytes() > 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent ", part.segment, ", phase ",
                                                     part.phase, ", to a join that has no such part"));
    }
    absl::MutexLock lock(&mutex_);
    std::vector<Outgoing> next;
    if (is_result) {
      last_ = static_cast<int>(part.segment);
      return next;
    }
    begun_[from] = part.segment;
    if (last_ >= 0 || std::count(begun_.begin(), begun_.end(), -1) > 0) return next;
    // The highest of several.
    last_ = static_cast<int>(begun_.rend() - std::max_element(begun_.rbegin(), begun_.rend())) - 1;
    for (int to = 1; to < self_.size; ++to)
      next.push_back({to, {CollectivePart::kResult, last_, {}}, Payload()});
    return next;
  }

  bool Awaits(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return last_ < 0 && (self_.rank == 0 ? begun_[rank] < 0 : rank == 0);
  }

  bool is_complete() const override {
    absl::MutexLock lock(&mutex_);
    return last_ >= 0;
  }

  absl::StatusOr<Tensor> result() const override {
    absl::MutexLock lock(&mutex_);
    return Tensor::Scalar<int32_t>(last_);
  }

 private:
  const RankOf self_;
  mutable absl::Mutex mutex_;
  std::vector<int64_t> begun_ ABSL_GUARDED_BY(mutex_);  // by rank; -1: it has not joined
  int last_ ABSL_GUARDED_BY(mutex_);                    // -1: not all have joined
};

}  // namespace

std::unique_ptr<Collective> MakeJoin(RankOf self, int64_t num_begun) {
  return std::make_unique<Join>(self, num_begun);
}

}  // namespace weir
