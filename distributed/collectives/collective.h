// One collective of one rank: what it sends, what it needs, and the result. No network: rank_group.h moves
// the parts.
//
// Algorithms. Small all-reduces (kWholeBytes and below): every rank sends its tensor to all and reduces by
// itself, one exchange; with more than kMostToAll ranks, whose n (n - 1) messages take longer than some
// exchanges one after the other, by recursive doubling (doubling_reduce.cc). Larger ones: the tensor is cut
// into segments of about kSegmentBytes, each owned by a rank in turn; everybody sends the owner its part, the
// owner reduces and sends the result to all. Each rank sends and receives 2 (n - 1) / n times the tensor,
// which is the least possible, and segments do not wait for one another. Where several ranks share each host
// they add up within the host first, and one of them sends for all (host_reduce.cc). A reduce-scatter is the
// first half of it, where each rank owns its rows. Adasum: the same, but an owner has one range of the
// tensor, and the ranks exchange their parts of the dot products once for each level of the tree. Broadcasts,
// all-gathers and all-to-alls send rows in segments, too. A rank sends another one more than the first of
// them only when it knows that the other has begun, and that the result has a place there: that of an
// all-gather has one when all ranks have said how many rows they send.
//
// Safe against hostile parts: one that does not fit is InvalidArgument and changes nothing. The repetition of
// a part changes nothing.
//
// Thread safety: all methods. Start comes once. Receive and Place may come before Start, from other threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distributed/transport/frame.h"
#include "graph/types/allocator.h"
#include "graph/types/tensor.h"
#include "kernels/communicator.h"

namespace weir {

// Which part of a collective a message brings.
struct CollectivePart {
  enum Phase : uint8_t {
    kContribution = 0,
    kResult = 1,
    kDots = 2,          // of Adasum
    kAnnouncement = 3,  // nothing: its sender has begun, and sends when the receiver has (rank_group.h)
  };
  static constexpr Phase kLastPhase = kAnnouncement;

  Phase phase = kContribution;
  int64_t segment = 0;
  std::vector<int64_t> dims;  // of the tensor, where the receiver does not know them
};

class Collective {
 public:
  static constexpr int64_t kWholeBytes = 32 << 10;
  static constexpr int kMostToAll = 8;
  static constexpr int64_t kSegmentBytes = 1 << 20;

  struct Outgoing {
    int to = 0;
    CollectivePart part;
    Payload bytes;
  };

  virtual ~Collective() = default;

  // What this rank sends without having received anything.
  virtual std::vector<Outgoing> Start() = 0;

  // Where the bytes of a part shall go; empty when it is all the same. Of a part, once: when it comes again
  // Receive waits until nobody writes there any more (placement.h).
  virtual Payload Place(int /*from*/, const CollectivePart& /*part*/, size_t /*num_bytes*/) {
    return Payload();
  }

  // Takes a part, and gives what is to be sent because of it. Computes on the calling thread. Aborted for one
  // that came to its place before, and is still being written there.
  virtual absl::StatusOr<std::vector<Outgoing>> Receive(int from, const CollectivePart& part,
                                                        Payload bytes) = 0;

  // Whether something of that rank is still missing.
  virtual bool Awaits(int rank) const = 0;
  // Of a rank that it awaits: whether that may be the one that is late, and not only one that waits itself,
  // or passes on what others owe.
  virtual bool MayBeLate(int rank) const { return Awaits(rank); }
  // The ranks, first and last, whose share that rank's part has: where they are more than one, each of them
  // may be the one that is late.
  virtual std::pair<int, int> SpeaksFor(int rank) const { return {rank, rank}; }
  // Whether what comes is kept because the result has no place for it yet: more of it may have to be held
  // back. Once false it stays so.
  virtual bool keeps_what_comes() const { return false; }
  // Whether nothing is missing. Once true, `result` is there.
  virtual bool is_complete() const = 0;
  virtual absl::StatusOr<Tensor> result() const = 0;
  // Of an all-to-all that is complete: how many rows each rank has sent.
  virtual std::vector<int64_t> splits() const { return {}; }
};

// Who computes.
struct RankOf {
  int rank = 0;
  int size = 1;
  // Ranks [0, per_host) share a host, the next per_host another one, and so on: a power of two, of which size
  // is a multiple. 1 where nothing is known of hosts.
  int per_host = 1;
};

// RankOf::per_host of ranks on these hosts, by rank: the largest that fits.
int RanksPerHost(absl::Span<const std::string> hosts);

// ResourceExhausted when there is no room for the result. Preconditions: CheckReducible(input.dtype()), and
// the reduction is elementwise.
absl::StatusOr<std::unique_ptr<Collective>> MakeAllReduce(RankOf self, Tensor input, Reduction reduction,
                                                          bool divides, Allocator& allocator);
// The same by recursive doubling, with the same bits; for small tensors. MakeAllReduce chooses it.
absl::StatusOr<std::unique_ptr<Collective>> MakeDoublingReduce(RankOf self, const Tensor& input,
                                                               Reduction reduction, bool divides,
                                                               Allocator& allocator);
// The same by hosts, with the same bits; for large tensors whose numbers have more than 16 bits.
// MakeAllReduce chooses it. Preconditions: 1 < self.per_host < self.size.
absl::StatusOr<std::unique_ptr<Collective>> MakeHostReduce(RankOf self, Tensor input, Reduction reduction,
                                                           bool divides, Allocator& allocator);
// As MakeAllReduce; the input has rank >= 1.
absl::StatusOr<std::unique_ptr<Collective>> MakeReduceScatter(RankOf self, Tensor input, Reduction reduction,
                                                              bool divides, Allocator& allocator);
// Precondition: a floating-point dtype. ResourceExhausted as above.
absl::StatusOr<std::unique_ptr<Collective>> MakeAdasum(RankOf self, Tensor input, Allocator& allocator);
// A reduction whose tensors travel as `wire`: `make` makes it, of tensors of that type. Precondition: the
// input is of float or double, the wire of half or bfloat16.
absl::StatusOr<std::unique_ptr<Collective>> MakeWired(
    DType wire, const Tensor& input, Allocator& allocator,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Collective>>(Tensor input)> make);

// Precondition: the input has rank >= 1 and plain bytes.
std::unique_ptr<Collective> MakeAllGather(RankOf self, Tensor input, Allocator& allocator);
// Row splits: InvalidArgument as Communicator::AllToAll says. Same precondition.
absl::StatusOr<std::unique_ptr<Collective>> MakeAllToAll(RankOf self, Tensor input,
                                                         std::vector<int64_t> splits, Allocator& allocator);
// `input` is the root's. Precondition: plain bytes.
std::unique_ptr<Collective> MakeBroadcast(RankOf self, int root, DType dtype, Tensor input,
                                          Allocator& allocator);
// Rank 0 hears from all, and tells all. `num_begun`: how many collectives this rank has begun; the result is
// the rank that has begun the most, the highest of several, as an int32 scalar.
std::unique_ptr<Collective> MakeJoin(RankOf self, int64_t num_begun);

}  // namespace weir
