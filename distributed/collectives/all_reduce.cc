#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/placement.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status WrongPart(int from, const CollectivePart& part, size_t num_bytes) {
  return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent ", num_bytes, " bytes as segment ",
                                                 part.segment, ", phase ", part.phase,
                                                 ", of a reduction that has no such part"));
}

// What one rank reduces: some elements of the input.
struct Range {
  int owner = 0;
  int64_t first = 0;
  int64_t count = 0;
};

class ElementwiseReduce final : public Collective {
 public:
  // How results get to where they are needed.
  enum class Results {
    kOfWholes,  // every rank gets the contributions of all, and reduces by itself
    kShared,    // their owner sends them to all
    kKept,      // their owner needs them alone
  };

  // The output begins with element `output_begin` of the input.
  ElementwiseReduce(RankOf self, Tensor input, Tensor output, int64_t output_begin, Reduction reduction,
                    bool divides, Results results, std::vector<Range> ranges)
      : self_(self),
        input_(std::move(input)),
        output_(std::move(output)),
        output_bytes_(static_cast<char*>(output_.data())),
        output_begin_(output_begin),
        reduction_(reduction),
        divisor_(divides ? self.size : 1),
        results_(results),
        ranges_(std::move(ranges)),
        placement_(static_cast<int64_t>(ranges_.size())),
        segments_(ranges_.size()),
        missing_(self.size),
        num_missing_(0) {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      segments_[i].contributions.resize(IsMine(i) ? self_.size : 0);
      segments_[i].has_contribution.resize(IsMine(i) ? self_.size : 0);
      for (int rank = 0; rank < self_.size; ++rank) {
        const bool is_sender = IsMine(i) || (results_ == Results::kShared && ranges_[i].owner == rank);
        if (rank == self_.rank || !is_sender) continue;
        ++missing_[rank];
        ++num_missing_;
      }
    }
  }

  // Each rank begins with the segments of the next one, so that not all send to the same one at a time.
  std::vector<Outgoing> Start() override {
    std::vector<Outgoing> all;
    for (size_t k = 0; k < ranges_.size(); ++k) {
      const size_t i = (k + self_.rank + 1) % ranges_.size();
      if (self_.size == 1) {
        ReduceSegment(i, {});
      } else if (results_ == Results::kOfWholes) {
        AppendToOthers(i, CollectivePart::kContribution, InputOf(i), &all);
      } else if (!IsMine(i)) {
        all.push_back({ranges_[i].owner, PartOf(CollectivePart::kContribution, i), InputOf(i)});
      }
    }
    return all;
  }

  // A result goes straight to where it belongs.
  Payload Place(int from, const CollectivePart& part, size_t num_bytes) override {
    if (!Fits(from, part, num_bytes) || part.phase != CollectivePart::kResult) return Payload();
    return placement_.Give(part.segment, output_.buffer(), OutputAt(part.segment), num_bytes);
  }

  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    if (!Fits(from, part, bytes.num_bytes())) return WrongPart(from, part, bytes.num_bytes());
    const int64_t i = part.segment;
    if (part.phase == CollectivePart::kResult) WEIR_RETURN_IF_ERROR(AwaitPlace(i, bytes));
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
      if (bytes.data() != OutputAt(i)) std::copy_n(bytes.data(), bytes.num_bytes(), OutputAt(i));
    } else {
      ReduceSegment(i, std::move(contributions));
      if (results_ == Results::kShared) AppendToOthers(i, CollectivePart::kResult, OutputOf(i), &next);
    }
    absl::MutexLock lock(&mutex_);
    CountLocked(from);
    return next;
  }

  bool Awaits(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return missing_[rank] > 0;
  }

  // An owner gives no result before all have given it their parts: while parts are missing here too, the
  // ranks that owe them are the ones.
  bool MayBeLate(int rank) const override {
    absl::MutexLock lock(&mutex_);
    if (OwesPartLocked(rank)) return true;
    return missing_[rank] > 0 && !AnyOwesPartLocked();
  }
  std::pair<int, int> SpeaksFor(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return OwesPartLocked(rank) ? std::make_pair(rank, rank) : std::make_pair(0, self_.size - 1);
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
    bool has_result = false;
  };

  bool IsMine(int64_t segment) const {
    return results_ == Results::kOfWholes || ranges_[segment].owner == self_.rank;
  }
  size_t ElementSize() const { return DTypeSize(input_.dtype()); }
  size_t NumBytes(int64_t segment) const { return ranges_[segment].count * ElementSize(); }
  char* OutputAt(int64_t segment) const {
    return output_bytes_ + (ranges_[segment].first - output_begin_) * ElementSize();
  }
  Payload InputOf(int64_t segment) const {
    return Payload::OfTensor(input_, ranges_[segment].first * ElementSize(), NumBytes(segment));
  }
  Payload OutputOf(int64_t segment) const {
    return Payload::OfBuffer(output_.buffer(), OutputAt(segment), NumBytes(segment));
  }
  static CollectivePart PartOf(CollectivePart::Phase phase, size_t segment) {
    return {phase, static_cast<int64_t>(segment), {}};
  }

  bool Fits(int from, const CollectivePart& part, size_t num_bytes) const {
    if (from < 0 || from >= self_.size || from == self_.rank) return false;
    if (part.segment < 0 || part.segment >= static_cast<int64_t>(ranges_.size())) return false;
    if (num_bytes != NumBytes(part.segment)) return false;
    if (part.phase == CollectivePart::kContribution) return IsMine(part.segment);
    return part.phase == CollectivePart::kResult && results_ == Results::kShared &&
           ranges_[part.segment].owner == from;
  }

  void AppendToOthers(size_t segment, CollectivePart::Phase phase, const Payload& bytes,
                      std::vector<Outgoing>* all) const {
    for (int k = 1; k < self_.size; ++k) {
      all->push_back({(self_.rank + k) % self_.size, PartOf(phase, segment), bytes});
    }
  }

  void ReduceSegment(int64_t segment, std::vector<Payload> contributions) {
    std::vector<const char*> inputs(self_.size);
    for (int rank = 0; rank < self_.size; ++rank) {
      inputs[rank] = rank == self_.rank ? InputOf(segment).data() : contributions[rank].data();
    }
    ReduceContributions(input_.dtype(), reduction_, inputs, divisor_, ranges_[segment].count,
                        OutputAt(segment));
  }

  // Before a result is noted. A repetition of one that is noted waits for nothing.
  absl::Status AwaitPlace(int64_t segment, const Payload& bytes) {
    if (bytes.data() == OutputAt(segment)) return absl::OkStatus();
    {
      absl::MutexLock lock(&mutex_);
      if (segments_[segment].has_result) return absl::OkStatus();
    }
    return placement_.Close(segment);
  }

  bool OwesPartLocked(int rank) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (IsMine(static_cast<int64_t>(i)) && !segments_[i].has_contribution[rank]) return true;
    }
    return false;
  }
  bool AnyOwesPartLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (IsMine(static_cast<int64_t>(i)) && segments_[i].num_contributions < self_.size - 1) return true;
    }
    return false;
  }

  void CountLocked(int from) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    --missing_[from];
    --num_missing_;
  }

  const RankOf self_;
  const Tensor input_;
  Tensor output_;
  char* const output_bytes_;
  const int64_t output_begin_;
  const Reduction reduction_;
  const int64_t divisor_;
  const Results results_;
  const std::vector<Range> ranges_;
  Placement placement_;  // of results
  mutable absl::Mutex mutex_;
  std::vector<Segment> segments_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> missing_ ABSL_GUARDED_BY(mutex_);  // parts, by rank
  int64_t num_missing_ ABSL_GUARDED_BY(mutex_);
};

// As many segments for each rank, in turn. They differ by one element at most, and have at least one.
std::vector<Range> DealtInTurn(const Tensor& input, int size) {
  const int64_t bytes_of_all = Collective::kSegmentBytes * size;
  const int64_t rounds = (static_cast<int64_t>(input.num_bytes()) + bytes_of_all - 1) / bytes_of_all;
  const int64_t count = std::min(rounds * size, input.num_elements());
  const int64_t each = input.num_elements() / count, more = input.num_elements() % count;
  std::vector<Range> ranges;
  for (int64_t i = 0; i < count; ++i) {
    ranges.push_back({static_cast<int>(i % size), each * i + std::min(i, more), each + (i < more)});
  }
  return ranges;
}

// Rows [first, first + count) of dimension 0 belong to a rank.
struct Rows {
  int64_t first = 0;
  int64_t count = 0;
};

Rows RowsOf(int64_t num_rows, int rank, int size) {
  const int64_t each = num_rows / size, more = num_rows % size;
  return {each * rank + std::min<int64_t>(rank, more), each + (rank < more)};
}

// What is converted on its way.
class Wired final : public Collective {
 public:
  Wired(std::unique_ptr<Collective> collective, DType dtype, Allocator& allocator)
      : collective_(std::move(collective)), dtype_(dtype), allocator_(allocator) {}

  std::vector<Outgoing> Start() override { return collective_->Start(); }
  Payload Place(int from, const CollectivePart& part, size_t num_bytes) override {
    return collective_->Place(from, part, num_bytes);
  }
  absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                Payload bytes) override {
    return collective_->Receive(from, part, std::move(bytes));
  }
  bool Awaits(int rank) const override { return collective_->Awaits(rank); }
  bool MayBeLate(int rank) const override { return collective_->MayBeLate(rank); }
  std::pair<int, int> SpeaksFor(int rank) const override { return collective_->SpeaksFor(rank); }
  bool is_complete() const override { return collective_->is_complete(); }

  absl::StatusOr<Tensor> result() const override {
    WEIR_ASSIGN_OR_RETURN(const Tensor sent, collective_->result());
    WEIR_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(dtype_, sent.shape(), allocator_));
    FromWire(sent.dtype(), sent.data(), dtype_, result.num_elements(), result.data());
    return result;
  }

 private:
  const std::unique_ptr<Collective> collective_;
  const DType dtype_;
  Allocator& allocator_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> MakeAllReduce(RankOf self, Tensor input, Reduction reduction,
                                                          bool divides, Allocator& allocator) {
  const bool is_whole = static_cast<int64_t>(input.num_bytes()) <= Collective::kWholeBytes || self.size == 1;
  if (is_whole && self.size > Collective::kMostToAll) {
    return MakeDoublingReduce(self, input, reduction, divides, allocator);
  }
  const bool has_hosts = self.per_host > 1 && self.per_host < self.size;
  if (!is_whole && has_hosts && DTypeSize(input.dtype()) > sizeof(uint16_t)) {
    return MakeHostReduce(self, std::move(input), reduction, divides, allocator);
  }
  WEIR_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(input.dtype(), input.shape(), allocator));
  using Results = ElementwiseReduce::Results;
  std::vector<Range> ranges =
      is_whole ? std::vector<Range>{{self.rank, 0, input.num_elements()}} : DealtInTurn(input, self.size);
  return std::make_unique<ElementwiseReduce>(self, std::move(input), std::move(output), 0, reduction, divides,
                                             is_whole ? Results::kOfWholes : Results::kShared,
                                             std::move(ranges));
}

absl::StatusOr<std::unique_ptr<Collective>> MakeReduceScatter(RankOf self, Tensor input, Reduction reduction,
                                                              bool divides, Allocator& allocator) {
  const int64_t num_rows = input.shape().dim(0);
  const int64_t row = num_rows == 0 ? 0 : input.num_elements() / num_rows;
  const int64_t per_segment =
      std::max<int64_t>(1, Collective::kSegmentBytes / static_cast<int64_t>(DTypeSize(input.dtype())));
  std::vector<Range> ranges;
  for (int owner = 0; owner < self.size; ++owner) {
    const Rows rows = RowsOf(num_rows, owner, self.size);
    const int64_t end = (rows.first + rows.count) * row;
    // A rank without rows gets an empty part: whoever has joined learns so what the others compute.
    int64_t first = rows.first * row;
    do {
      const int64_t count = std::min(per_segment, end - first);
      ranges.push_back({owner, first, count});
      first += count;
    } while (first < end);
  }
  const Rows mine = RowsOf(num_rows, self.rank, self.size);
  std::vector<int64_t> dims(input.shape().dims().begin(), input.shape().dims().end());
  dims[0] = mine.count;
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(input.dtype(), shape, allocator));
  return std::make_unique<ElementwiseReduce>(self, std::move(input), std::move(output), mine.first * row,
                                             reduction, divides, ElementwiseReduce::Results::kKept,
                                             std::move(ranges));
}

absl::StatusOr<std::unique_ptr<Collective>> MakeWired(
    DType wire, const Tensor& input, Allocator& allocator,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Collective>>(Tensor input)> make) {
  WEIR_ASSIGN_OR_RETURN(Tensor sent, Tensor::Allocate(wire, input.shape(), allocator));
  ToWire(input.dtype(), input.data(), wire, input.num_elements(), sent.data());
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Collective> collective, make(std::move(sent)));
  return std::make_unique<Wired>(std::move(collective), input.dtype(), allocator);
}

}  // namespace weir
