// A large all-reduce of ranks of which several share a host: first within each host, then between hosts. So
// each byte crosses a host's link once for the host, not once for each of its ranks.
//
// The tensor is cut into segments. Of each, one rank of every host is the collector: its neighbours on the
// host send it their parts, and it adds them up. One of the collectors is the owner: the others send it what
// their hosts have come to, it adds that up and sends the result back, and collectors pass it on to their
// neighbours. Segments have their collectors and owners in turn, so all ranks and hosts have as much to do.
//
// Hosts have a power of two of ranks each, next to one another: their sums are nodes of the tree of
// ReduceContributions (reduction.h), so the bits are those of every other algorithm. 16-bit numbers are not
// reduced like this: between hosts they would have to travel as floats, twice their size.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/placement.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

class HostReduce final : public Collective {
 public:
  HostReduce(RankOf self, Tensor input, Tensor output, Reduction reduction, bool divides,
             std::vector<Payload> sums)
      : self_(self),
        num_hosts_(self.size / self.per_host),
        input_(std::move(input)),
        output_(std::move(output)),
        output_bytes_(static_cast<char*>(output_.data())),
        reduction_(reduction),
        divisor_(divides ? self.size : 1),
        placement_(NumSegments(self, input_)),
        segments_(NumSegments(self, input_)),
        missing_(self.size),
        num_missing_(0) {
    for (int64_t i = 0; i < num_segments(); ++i) {
      if (IsCollector(i)) {
        segments_[i].sum = std::move(sums[i]);
        segments_[i].of_ranks.resize(self_.per_host);
        ExpectFrom(self_.rank - LocalOf(self_.rank), self_.per_host, /*step=*/1);
      }
      if (IsOwner(i)) {
        segments_[i].of_hosts.resize(num_hosts_);
        ExpectFrom(CollectorOf(i), num_hosts_, self_.per_host);
      } else {
        ExpectFrom(TellerOf(i), 1, /*step=*/1);
      }
    }
  }

  // As many for each rank, as DealtInTurn has them.
  static int64_t NumSegments(RankOf self, const Tensor& input) {
    const int64_t bytes_of_all = kSegmentBytes * self.size;
    const int64_t rounds = (static_cast<int64_t>(input.num_bytes()) + bytes_of_all - 1) / bytes_of_all;
    return std::min(rounds * self.size, input.num_elements());
  }
  // Whether this rank adds up what its host has of a segment.
  static bool Collects(RankOf self, int64_t segment) {
    return segment % self.per_host == self.rank % self.per_host;
  }
  static int64_t NumBytesOf(RankOf self, const Tensor& input, int64_t segment) {
    const int64_t count = NumSegments(self, input);
    return (input.num_elements() / count + (segment < input.num_elements() % count)) *
           static_cast<int64_t>(DTypeSize(input.dtype()));
  }

  // Each rank begins with the segments of the next one, so that not all send to the same one at a time.
  std::vector<Outgoing> Start() override {
    std::vector<Outgoing> all;
    for (int64_t k = 0; k < num_segments(); ++k) {
      const int64_t i = (k + self_.rank + 1) % num_segments();
      if (!IsCollector(i)) {
        all.push_back({OnThisHost(i % self_.per_host), PartOf(CollectivePart::kContribution, i), InputOf(i)});
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
    if (!Fits(from, part, bytes.num_bytes())) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sent ", bytes.num_bytes(),
                                                     " bytes as segment ", part.segment, ", phase ",
                                                     part.phase, ", of a reduction that has no such part"));
    }
    std::vector<Outgoing> next;
    const int64_t i = part.segment;
    bool is_new = true;
    if (part.phase == CollectivePart::kResult) {
      WEIR_RETURN_IF_ERROR(AwaitPlace(i, bytes));
      is_new = TakeResult(i, bytes, &next);
    } else if (HostOf(from) == HostOf(self_.rank)) {
      is_new = TakeOfRank(i, LocalOf(from), std::move(bytes), &next);
    } else {
      is_new = TakeOfHost(i, HostOf(from), std::move(bytes), &next);
    }
    absl::MutexLock lock(&mutex_);
    if (is_new) {
      --missing_[from];
      --num_missing_;
    }
    return next;
  }

  bool Awaits(int rank) const override {
    absl::MutexLock lock(&mutex_);
    return missing_[rank] > 0;
  }

  // A result needs everybody, and a neighbour may only pass it on: while shares are missing here too, the
  // ranks that owe them are the ones.
  bool MayBeLate(int rank) const override {
    absl::MutexLock lock(&mutex_);
    if (OwesShareLocked(rank)) return true;
    return missing_[rank] > 0 && !AnyOwesShareLocked();
  }

  // A rank of another host sends the sum of that host, and who tells a result has it of all.
  std::pair<int, int> SpeaksFor(int rank) const override {
    absl::MutexLock lock(&mutex_);
    if (!OwesShareLocked(rank)) return {0, self_.size - 1};
    if (HostOf(rank) == HostOf(self_.rank)) return {rank, rank};
    const int first = rank - LocalOf(rank);
    return {first, first + self_.per_host - 1};
  }

  bool is_complete() const override {
    absl::MutexLock lock(&mutex_);
    return num_missing_ == 0;
  }

  absl::StatusOr<Tensor> result() const override { return output_; }

 private:
  struct Segment {
    std::vector<Payload> of_ranks;  // of a collector, until they are added up
    int num_of_ranks = 0;
    Payload sum;                    // of the host's ranks; written once, before it is sent or kept
    std::vector<Payload> of_hosts;  // of the owner, likewise
    int num_of_hosts = 0;
    bool has_result = false;
  };

  int64_t num_segments() const { return static_cast<int64_t>(segments_.size()); }
  int HostOf(int rank) const { return rank / self_.per_host; }
  int LocalOf(int rank) const { return rank % self_.per_host; }
  int OnThisHost(int64_t local) const {
    return HostOf(self_.rank) * self_.per_host + static_cast<int>(local);
  }
  // The first host's; the next one's is per_host ranks further.
  int CollectorOf(int64_t segment) const { return static_cast<int>(segment % self_.per_host); }
  int OwnerOf(int64_t segment) const { return static_cast<int>(segment % self_.size); }
  bool IsCollector(int64_t segment) const { return Collects(self_, segment); }
  bool IsOwner(int64_t segment) const { return OwnerOf(segment) == self_.rank; }
  // Who tells this rank the result.
  int TellerOf(int64_t segment) const {
    return IsCollector(segment) ? OwnerOf(segment) : OnThisHost(CollectorOf(segment));
  }

  int64_t FirstOf(int64_t segment) const {
    const int64_t each = input_.num_elements() / num_segments(),
                  more = input_.num_elements() % num_segments();
    return each * segment + std::min(segment, more);
  }
  int64_t CountOf(int64_t segment) const { return FirstOf(segment + 1) - FirstOf(segment); }
  size_t NumBytes(int64_t segment) const { return CountOf(segment) * DTypeSize(input_.dtype()); }
  char* OutputAt(int64_t segment) const {
    return output_bytes_ + FirstOf(segment) * DTypeSize(input_.dtype());
  }
  Payload InputOf(int64_t segment) const {
    return Payload::OfTensor(input_, FirstOf(segment) * DTypeSize(input_.dtype()), NumBytes(segment));
  }
  Payload OutputOf(int64_t segment) const {
    return Payload::OfBuffer(output_.buffer(), OutputAt(segment), NumBytes(segment));
  }
  static CollectivePart PartOf(CollectivePart::Phase phase, int64_t segment) { return {phase, segment, {}}; }

  // One part of each of the `count` ranks from `first` on, but of this one.
  void ExpectFrom(int first, int count, int step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (int k = 0; k < count; ++k) {
      if (first + k * step == self_.rank) continue;
      ++missing_[first + k * step];
      ++num_missing_;
    }
  }

  bool Fits(int from, const CollectivePart& part, size_t num_bytes) const {
    const int64_t i = part.segment;
    if (from < 0 || from >= self_.size || from == self_.rank || i < 0 || i >= num_segments()) return false;
    if (num_bytes != NumBytes(i)) return false;
    if (part.phase == CollectivePart::kResult) return !IsOwner(i) && from == TellerOf(i);
    if (part.phase != CollectivePart::kContribution || !IsCollector(i)) return false;
    if (HostOf(from) == HostOf(self_.rank)) return true;
    return IsOwner(i) && LocalOf(from) == CollectorOf(i);
  }

  // What this rank adds up, of its host and, where it owns the segment, of the others.
  bool OwesShareLocked(int rank) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    if (rank == self_.rank) return false;
    const bool is_here = HostOf(rank) == HostOf(self_.rank);
    for (int64_t i = 0; i < num_segments(); ++i) {
      const std::vector<Payload>& shares = is_here ? segments_[i].of_ranks : segments_[i].of_hosts;
      const bool has_all = shares.empty();
      if (has_all || (!is_here && LocalOf(rank) != CollectorOf(i))) continue;
      if (shares[is_here ? LocalOf(rank) : HostOf(rank)].num_bytes() == 0) return true;
    }
    return false;
  }
  bool AnyOwesShareLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    for (int64_t i = 0; i < num_segments(); ++i) {
      if (!segments_[i].of_ranks.empty() || !segments_[i].of_hosts.empty()) return true;
    }
    return false;
  }

  // False when it has come before.
  bool TakeOfRank(int64_t i, int local, Payload bytes, std::vector<Outgoing>* next) {
    std::vector<Payload> all;
    {
      absl::MutexLock lock(&mutex_);
      Segment& segment = segments_[i];
      const bool has_all = segment.of_ranks.empty();
      if (has_all || segment.of_ranks[local].num_bytes() > 0) return false;
      segment.of_ranks[local] = std::move(bytes);
      if (++segment.num_of_ranks < self_.per_host - 1) return true;
      all = std::exchange(segment.of_ranks, {});
    }
    all[LocalOf(self_.rank)] = InputOf(i);
    const Payload sum = SumOf(i);
    Reduce(i, all, /*divisor=*/1, const_cast<char*>(sum.data()));
    if (!IsOwner(i)) {
      next->push_back({OwnerOf(i), PartOf(CollectivePart::kContribution, i), sum});
      return true;
    }
    TakeOfHost(i, HostOf(self_.rank), sum, next);
    return true;
  }

  bool TakeOfHost(int64_t i, int host, Payload bytes, std::vector<Outgoing>* next) {
    std::vector<Payload> all;
    {
      absl::MutexLock lock(&mutex_);
      Segment& segment = segments_[i];
      const bool has_all = segment.of_hosts.empty();
      if (has_all || segment.of_hosts[host].num_bytes() > 0) return false;
      segment.of_hosts[host] = std::move(bytes);
      if (++segment.num_of_hosts < num_hosts_) return true;
      all = std::exchange(segment.of_hosts, {});
    }
    Reduce(i, all, divisor_, OutputAt(i));
    for (int k = 1; k < num_hosts_; ++k) {
      const int host_of_other = (HostOf(self_.rank) + k) % num_hosts_;
      next->push_back(
          {host_of_other * self_.per_host + CollectorOf(i), PartOf(CollectivePart::kResult, i), OutputOf(i)});
    }
    TellNeighbours(i, next);
    return true;
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

  bool TakeResult(int64_t i, const Payload& bytes, std::vector<Outgoing>* next) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(segments_[i].has_result, true)) return false;
    }
    if (bytes.data() != OutputAt(i)) std::copy_n(bytes.data(), bytes.num_bytes(), OutputAt(i));
    if (IsCollector(i)) TellNeighbours(i, next);
    return true;
  }

  void TellNeighbours(int64_t i, std::vector<Outgoing>* next) const {
    for (int k = 1; k < self_.per_host; ++k) {
      next->push_back({OnThisHost((LocalOf(self_.rank) + k) % self_.per_host),
                       PartOf(CollectivePart::kResult, i), OutputOf(i)});
    }
  }

  Payload SumOf(int64_t i) const {
    absl::MutexLock lock(&mutex_);
    return segments_[i].sum;
  }

  void Reduce(int64_t i, const std::vector<Payload>& all, int64_t divisor, char* output) const {
    std::vector<const char*> inputs;
    for (const Payload& bytes : all) inputs.push_back(bytes.data());
    ReduceContributions(input_.dtype(), reduction_, inputs, divisor, CountOf(i), output);
  }

  const RankOf self_;
  const int num_hosts_;
  const Tensor input_;
  Tensor output_;
  char* const output_bytes_;
  const Reduction reduction_;
  const int64_t divisor_;
  Placement placement_;  // of results
  mutable absl::Mutex mutex_;
  std::vector<Segment> segments_;  // how many never changes; the rest is guarded by mutex_
  std::vector<int64_t> missing_ ABSL_GUARDED_BY(mutex_);  // parts, by rank
  int64_t num_missing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

int RanksPerHost(absl::Span<const std::string> hosts) {
  const auto fits = [&](size_t per_host) {
    if (hosts.size() % per_host != 0) return false;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != hosts[rank - rank % per_host]) return false;
    }
    return true;
  };
  size_t per_host = 1;
  while (per_host < hosts.size() && fits(2 * per_host)) per_host *= 2;
  return static_cast<int>(per_host);
}

absl::StatusOr<std::unique_ptr<Collective>> MakeHostReduce(RankOf self, Tensor input, Reduction reduction,
                                                           bool divides, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(input.dtype(), input.shape(), allocator));
  std::vector<Payload> sums(HostReduce::NumSegments(self, input));
  for (int64_t i = 0; i < static_cast<int64_t>(sums.size()); ++i) {
    if (!HostReduce::Collects(self, i)) continue;
    const int64_t size =
        HostReduce::NumBytesOf(self, input, i) / static_cast<int64_t>(DTypeSize(input.dtype()));
    WEIR_ASSIGN_OR_RETURN(Tensor sum, Tensor::Allocate(input.dtype(), Shape({size}), allocator));
    sums[i] = Payload::OfTensor(sum);
  }
  return std::make_unique<HostReduce>(self, std::move(input), std::move(output), reduction, divides,
                                      std::move(sums));
}

}  // namespace weir
