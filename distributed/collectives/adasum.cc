// Adasum, whose coefficients depend on whole tensors: each rank owns a range of the elements, and computes
// it for all levels of the tree. At each level the owners tell one another their parts of the dot products,
// and add them up in the order of ranks, so that all have the same coefficients.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/reduction.h"
#include "distributed/collectives/segments.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/float16_rows.h"

namespace weir {
namespace {

// Vector `b` of the tree goes into vector `a`.
struct Merge {
  int a = 0;
  int b = 0;
};

// The merges of the ranks [begin, end), by their height in the tree: those of one height need nothing of one
// another. Gives the tree's height.
int AppendMerges(int begin, int end, std::vector<std::vector<Merge>>* levels) {
  if (end - begin == 1) return 0;
  const int middle = begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin - 1)));
  const int height = 1 + std::max(AppendMerges(begin, middle, levels), AppendMerges(middle, end, levels));
  if (static_cast<int>(levels->size()) < height) levels->resize(height);
  (*levels)[height - 1].push_back({begin, middle});
  return height;
}

// `Wide` is what the elements are computed in.
template <typename Wide>
class Adasum final : public Collective {
 public:
  Adasum(RankOf self, Tensor input, Tensor output, Allocator& allocator)
      : self_(self),
        input_(std::move(input)),
        output_(std::move(output)),
        element_(static_cast<int64_t>(DTypeSize(input_.dtype()))),
        allocator_(allocator),
        vectors_(self.size),
        missing_(self.size) {
    AppendMerges(0, self_.size, &levels_);
    dots_.resize(levels_.size());
    num_dots_.resize(levels_.size());
    for (size_t level = 0; level < levels_.size(); ++level) dots_[level].resize(self_.size);
    for (int rank = 0; rank < self_.size; ++rank) {
      come_.push_back(std::vector<bool>(SegmentsOfRange(self_.rank).count()));
      results_.push_back(std::vector<bool>(SegmentsOfRange(rank).count()));
      if (rank == self_.rank) continue;
      missing_[rank] = SegmentsOfRange(self_.rank).count() + SegmentsOfRange(rank).count();
      num_contributions_ += SegmentsOfRange(self_.rank).count();
    }
  }

  // Room for what comes.
  absl::Status Prepare() {
    const Range mine = RangeOf(self_.rank);
    for (int rank = 0; rank < self_.size; ++rank) {
      WEIR_ASSIGN_OR_RETURN(
          vectors_[rank], Tensor::Allocate(Tensor::Scalar(Wide()).dtype(), Shape({mine.count}), allocator_));
    }
    Widen(static_cast<const char*>(input_.data()) + mine.first * element_, mine.count, Vector(self_.rank));
    return absl::OkStatus();
  }

  std::vector<Outgoing> Start() override {
    std::vector<Outgoing> all;
    if (self_.size == 1) {
      if (input_.num_bytes() > 0) std::memcpy(output_.data(), input_.data(), input_.num_bytes());
    }
    for (int owner = 0; owner < self_.size; ++owner) {
      if (owner != self_.rank) AppendRange(owner, owner, CollectivePart::kContribution, input_, &all);
    }
    return all;
  }

  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    if (!Fits(from, part, bytes.num_bytes())) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent ", bytes.num_bytes(),
                                                     " bytes as segment ", part.segment, ", phase ",
                                                     part.phase, ", of an Adasum that has no such part"));
    }
    switch (part.phase) {
      case CollectivePart::kContribution:
        return TakeContribution(from, part.segment, bytes);
      case CollectivePart::kDots:
        return TakeDots(from, part.segment, bytes);
      default:
        return TakeResult(from, part.segment, bytes);
    }
  }

  bool Awaits(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return missing_[rank] > 0;
  }

  bool is_complete() const override {
    absl::MutexLock lock(&mutex_);
    return is_reduced_ || self_.size == 1
               ? std::all_of(missing_.begin(), missing_.end(), [](int64_t count) { return count == 0; })
               : false;
  }

  absl::StatusOr<Tensor> result() const override { return output_; }

 private:
  struct Range {
    int64_t first = 0;
    int64_t count = 0;
  };

  Range RangeOf(int rank) const {
    const int64_t each = input_.num_elements() / self_.size, more = input_.num_elements() % self_.size;
    return {each * rank + std::min<int64_t>(rank, more), each + (rank < more)};
  }
  Segments SegmentsOfRange(int rank) const { return {RangeOf(rank).count * element_, kSegmentBytes}; }
  Wide* Vector(int rank) { return static_cast<Wide*>(vectors_[rank].data()); }

  bool Fits(int from, const CollectivePart& part, size_t num_bytes) const {
    if (from < 0 || from >= self_.size || from == self_.rank || part.segment < 0) return false;
    if (part.phase == CollectivePart::kDots) {
      return part.segment < static_cast<int64_t>(levels_.size()) &&
             num_bytes == levels_[part.segment].size() * sizeof(Dots);
    }
    if (part.phase == CollectivePart::kAnnouncement) return false;
    const Segments segments = SegmentsOfRange(part.phase == CollectivePart::kResult ? from : self_.rank);
    return part.segment < segments.count() && static_cast<int64_t>(num_bytes) == segments.size(part.segment);
  }

  void AppendRange(int to, int owner, CollectivePart::Phase phase, const Tensor& tensor,
                   std::vector<Outgoing>* all) const {
    const Segments segments = SegmentsOfRange(owner);
    const int64_t begin = RangeOf(owner).first * element_;
    for (int64_t i = 0; i < segments.count(); ++i) {
      all->push_back(
          {to, {phase, i, {}}, Payload::OfTensor(tensor, begin + segments.offset(i), segments.size(i))});
    }
  }

  void Widen(const void* source, int64_t count, Wide* target) const {
    if constexpr (std::is_same_v<Wide, float>) {
      if (input_.dtype() != DType::kFloat32) return ToFloats(input_.dtype(), source, target, count);
    }
    if (count > 0) std::memcpy(target, source, count * sizeof(Wide));
  }
  void Narrow(const Wide* source, int64_t count, void* target) const {
    if constexpr (std::is_same_v<Wide, float>) {
      if (input_.dtype() != DType::kFloat32) return FromFloats(input_.dtype(), source, target, count);
    }
    if (count > 0) std::memcpy(target, source, count * sizeof(Wide));
  }

  absl::StatusOr<std::vector<Outgoing>> TakeContribution(int from, int64_t segment, const Payload& bytes) {
    {
      absl::MutexLock lock(&mutex_);
      if (come_[from][segment]) return std::vector<Outgoing>();
      come_[from][segment] = true;
    }
    const int64_t first = SegmentsOfRange(self_.rank).offset(segment) / element_;
    Widen(bytes.data(), static_cast<int64_t>(bytes.num_bytes()) / element_, Vector(from) + first);
    absl::MutexLock lock(&mutex_);
    --missing_[from];
    if (--num_contributions_ > 0) return std::vector<Outgoing>();
    return AdvanceLocked();
  }

  absl::StatusOr<std::vector<Outgoing>> TakeDots(int from, int64_t level, const Payload& bytes) {
    absl::MutexLock lock(&mutex_);
    std::vector<Dots>& dots = dots_[level][from];
    if (!dots.empty()) return std::vector<Outgoing>();
    dots.resize(levels_[level].size());
    std::memcpy(dots.data(), bytes.data(), bytes.num_bytes());
    ++num_dots_[level];
    if (num_contributions_ > 0 || level != level_) return std::vector<Outgoing>();
    return AdvanceLocked();
  }

  absl::StatusOr<std::vector<Outgoing>> TakeResult(int from, int64_t segment, const Payload& bytes) {
    {
      absl::MutexLock lock(&mutex_);
      if (results_[from][segment]) return std::vector<Outgoing>();
      results_[from][segment] = true;
    }
    const int64_t begin = RangeOf(from).first * element_ + SegmentsOfRange(from).offset(segment);
    if (bytes.num_bytes() > 0) {
      std::memcpy(static_cast<char*>(output_.data()) + begin, bytes.data(), bytes.num_bytes());
    }
    absl::MutexLock lock(&mutex_);
    --missing_[from];
    return std::vector<Outgoing>();
  }

  // Goes through the levels as far as the others' dot products are there. All contributions are.
  std::vector<Outgoing> AdvanceLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Outgoing> all;
    const Range mine = RangeOf(self_.rank);
    while (level_ < static_cast<int64_t>(levels_.size())) {
      const std::vector<Merge>& merges = levels_[level_];
      if (dots_[level_][self_.rank].empty()) TellDotsLocked(&all);
      if (num_dots_[level_] < self_.size) return all;
      for (size_t i = 0; i < merges.size(); ++i) {
        Dots sum;
        for (int rank = 0; rank < self_.size; ++rank) {
          const Dots& part = dots_[level_][rank][i];
          sum.ab += part.ab;
          sum.aa += part.aa;
          sum.bb += part.bb;
        }
        CombineByAdasum(sum, Vector(merges[i].b), mine.count, Vector(merges[i].a));
      }
      ++level_;
    }
    char* const place = static_cast<char*>(output_.data()) + mine.first * element_;
    Narrow(Vector(0), mine.count, place);
    is_reduced_ = true;
    for (int to = 0; to < self_.size; ++to) {
      if (to != self_.rank) AppendRange(to, self_.rank, CollectivePart::kResult, output_, &all);
    }
    return all;
  }

  void TellDotsLocked(std::vector<Outgoing>* all) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Dots>& dots = dots_[level_][self_.rank];
    for (const Merge& merge : levels_[level_]) {
      dots.push_back(DotsOf(Vector(merge.a), Vector(merge.b), RangeOf(self_.rank).count));
    }
    ++num_dots_[level_];
    const std::string bytes(reinterpret_cast<const char*>(dots.data()), dots.size() * sizeof(Dots));
    for (int to = 0; to < self_.size; ++to) {
      if (to != self_.rank) {
        all->push_back({to, {CollectivePart::kDots, level_, {}}, Payload::OfString(bytes)});
      }
    }
  }

  const RankOf self_;
  const Tensor input_;
  Tensor output_;
  const int64_t element_;
  Allocator& allocator_;
  std::vector<std::vector<Merge>> levels_;
  std::vector<Tensor> vectors_;  // of each rank, this rank's range of it; written by whoever noted its part
  mutable absl::Mutex mutex_;
  std::vector<std::vector<bool>> come_ ABSL_GUARDED_BY(mutex_);     // contributions, by rank and segment
  std::vector<std::vector<bool>> results_ ABSL_GUARDED_BY(mutex_);  // likewise
  std::vector<int64_t> missing_ ABSL_GUARDED_BY(mutex_);            // of both, by rank
  int64_t num_contributions_ ABSL_GUARDED_BY(mutex_) = 0;           // that are missing
  std::vector<std::vector<std::vector<Dots>>> dots_ ABSL_GUARDED_BY(mutex_);  // by level, rank and merge
  std::vector<int> num_dots_ ABSL_GUARDED_BY(mutex_);                         // by level: of how many ranks
  int64_t level_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_reduced_ ABSL_GUARDED_BY(mutex_) = false;
};

template <typename Wide>
absl::StatusOr<std::unique_ptr<Collective>> MakeOf(RankOf self, Tensor input, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(input.dtype(), input.shape(), allocator));
  auto adasum = std::make_unique<Adasum<Wide>>(self, std::move(input), std::move(output), allocator);
  WEIR_RETURN_IF_ERROR(adasum->Prepare());
  return adasum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> MakeAdasum(RankOf self, Tensor input, Allocator& allocator) {
  if (input.dtype() == DType::kFloat64) return MakeOf<double>(self, std::move(input), allocator);
  return MakeOf<float>(self, std::move(input), allocator);
}

}  // namespace weir
