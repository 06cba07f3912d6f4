#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status WrongPart(int from, const CollectivePart& part, size_t num_bytes) {
  return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent ", num_bytes, " bytes as segment ",
                                                 part.segment, ", phase ", part.phase,
                                                 ", of an all-reduce that has no such part"));
}

class AllReduce final : public Collective {
 public:
  AllReduce(RankOf self, Tensor input, Tensor output, Reduction reduction, bool divides)
      : self_(self),
        input_(std::move(input)),
        output_(std::move(output)),
        output_bytes_(static_cast<char*>(output_.data())),
        reduction_(reduction),
        divisor_(divides ? self.size : 1),
        is_whole_(static_cast<int64_t>(input_.num_bytes()) <= kWholeBytes || self.size == 1),
        num_segments_(NumSegments()),
        segments_(num_segments_),
        missing_(self.size),
        num_missing_(0) {
    for (int64_t i = 0; i < num_segments_; ++i) {
      segments_[i].contributions.resize(IsMine(i) ? self_.size : 0);
      segments_[i].has_contribution.resize(IsMine(i) ? self_.size : 0);
      for (int rank = 0; rank < self_.size; ++rank) {
        if (rank != self_.rank && (is_whole_ || IsMine(i) || Owner(i) == rank)) {
          ++missing_[rank];
          ++num_missing_;
        }
      }
    }
  }

  std::vector<Outgoing> Start() override {
    std::vector<Outgoing> all;
    for (int64_t i = 0; i < num_segments_; ++i) {
      if (self_.size == 1) break;
      if (is_whole_) {
        AppendToOthers(i, CollectivePart::kContribution, input_, &all);
      } else if (!IsMine(i)) {
        all.push_back({Owner(i), {CollectivePart::kContribution, i, {}}, SegmentOf(input_, i)});
      }
    }
    if (self_.size == 1) ReduceSegment(0, {});
    return all;
  }

  // A result goes straight to where it belongs. Once: what comes again may come while the result is read.
  Payload Place(int from, const CollectivePart& part, size_t num_bytes) override {
    if (!Fits(from, part, num_bytes) || part.phase != CollectivePart::kResult) return Payload();
    absl::MutexLock lock(&mutex_);
    if (std::exchange(segments_[part.segment].is_placed, true)) return Payload();
    return ResultOf(part.segment);
  }

  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    if (!Fits(from, part, bytes.num_bytes())) return WrongPart(from, part, bytes.num_bytes());
    const int64_t i = part.segment;
    std::vector<Payload> contributions;
    {
      absl::MutexLock lock(&mutex_);
      Segment& segment = segments_[i];
      if (part.phase == CollectivePart::kResult) {
        if (std::exchange(segment.has_result, true)) return std::vector<Outgoing>();
      } else {
        if (segment.has_contribution[from]) return std::vector<Outgoing>();
        segment.has_contribution[from] = true;
        segment.contributions[from] = std::move(bytes);
        if (++segment.num_contributions < self_.size - 1) {
          CountLocked(from);
          return std::vector<Outgoing>();
        }
        contributions = std::exchange(segment.contributions, {});
      }
    }
    std::vector<Outgoing> next;
    if (part.phase == CollectivePart::kResult) {
      if (bytes.data() != output_bytes_ + FirstByte(i)) {
        std::copy_n(bytes.data(), bytes.num_bytes(), output_bytes_ + FirstByte(i));
      }
    } else {
      ReduceSegment(i, std::move(contributions));
      if (!is_whole_) AppendToOthers(i, CollectivePart::kResult, output_, &next);
    }
    absl::MutexLock lock(&mutex_);
    CountLocked(from);
    return next;
  }

  bool Awaits(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return missing_[rank] > 0;
  }

  bool is_complete() const override {
    absl::MutexLock lock(&mutex_);
    return num_missing_ == 0;
  }

  absl::StatusOr<Tensor> result() const override { return output_; }

 private:
  struct Segment {
    std::vector<Payload> contributions;  // of its owner
    std::vector<bool> has_contribution;
    int num_contributions = 0;
    bool is_placed = false;
    bool has_result = false;
  };

  // As many for each rank. A segment has at least one element.
  int64_t NumSegments() const {
    if (is_whole_) return 1;
    const int64_t bytes_of_all = kSegmentBytes * self_.size;
    const int64_t rounds = (static_cast<int64_t>(input_.num_bytes()) + bytes_of_all - 1) / bytes_of_all;
    return std::min(rounds * self_.size, input_.num_elements());
  }

  int Owner(int64_t segment) const { return static_cast<int>(segment % self_.size); }
  bool IsMine(int64_t segment) const { return is_whole_ || Owner(segment) == self_.rank; }

  // Segments differ by one element at most.
  int64_t FirstElement(int64_t segment) const {
    const int64_t each = input_.num_elements() / num_segments_, more = input_.num_elements() % num_segments_;
    return each * segment + std::min(segment, more);
  }
  size_t FirstByte(int64_t segment) const { return FirstElement(segment) * DTypeSize(input_.dtype()); }
  size_t NumBytes(int64_t segment) const { return FirstByte(segment + 1) - FirstByte(segment); }

  Payload SegmentOf(const Tensor& tensor, int64_t segment) const {
    return Payload::OfTensor(tensor, FirstByte(segment), NumBytes(segment));
  }
  Payload ResultOf(int64_t segment) const {
    return Payload::OfBuffer(output_.buffer(), output_bytes_ + FirstByte(segment), NumBytes(segment));
  }

  bool Fits(int from, const CollectivePart& part, size_t num_bytes) const {
    if (from < 0 || from >= self_.size || from == self_.rank) return false;
    if (part.segment < 0 || part.segment >= num_segments_ || num_bytes != NumBytes(part.segment))
      return false;
    if (part.phase == CollectivePart::kContribution) return IsMine(part.segment);
    return part.phase == CollectivePart::kResult && !is_whole_ && Owner(part.segment) == from;
  }

  void AppendToOthers(int64_t segment, CollectivePart::Phase phase, const Tensor& tensor,
                      std::vector<Outgoing>* all) const {
    for (int to = 0; to < self_.size; ++to) {
      if (to != self_.rank) all->push_back({to, {phase, segment, {}}, SegmentOf(tensor, segment)});
    }
  }

  void ReduceSegment(int64_t segment, std::vector<Payload> contributions) {
    std::vector<const char*> inputs(self_.size);
    for (int rank = 0; rank < self_.size; ++rank) {
      inputs[rank] = rank == self_.rank ? static_cast<const char*>(input_.data()) + FirstByte(segment)
                                        : contributions[rank].data();
    }
    const int64_t count = FirstElement(segment + 1) - FirstElement(segment);
    ReduceContributions(input_.dtype(), reduction_, inputs, divisor_, count,
                        output_bytes_ + FirstByte(segment));
  }

  void CountLocked(int from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    --missing_[from];
    --num_missing_;
  }

  const RankOf self_;
  const Tensor input_;
  Tensor output_;
  char* const output_bytes_;
  const Reduction reduction_;
  const int64_t divisor_;
  const bool is_whole_;
  const int64_t num_segments_;
  mutable absl::Mutex mutex_;
  std::vector<Segment> segments_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> missing_ ABSL_GUARDED_BY(mutex_);  // parts, by rank
  int64_t num_missing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> MakeAllReduce(RankOf self, Tensor input, Reduction reduction,
                                                          bool divides, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(input.dtype(), input.shape(), allocator));
  return std::make_unique<AllReduce>(self, std::move(input), std::move(output), reduction, divides);
}

}  // namespace weir
