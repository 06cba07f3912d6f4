// A group of replicas that compute collectively: what the kernels of collective ops ask for.
//
// The replicas are numbered: each is a rank. A collective is begun on every rank of the group, with the same
// key and with tensors that fit one another, and ends when this rank has its result. Keys may be begun in
// another order on each rank, and many may be under way at once. The same key again is the next collective of
// that key: each rank counts.
//
// Same bits: every rank gets the same result, and it depends on the ranks' tensors alone. Sums are made
// pairwise in the order of ranks, whatever arrives first.
//
// Failure: a rank that is lost, leaves or gives up ends every collective that still needs it, on all ranks,
// with Aborted that names it. From then on every collective fails so, until the ranks form the group anew.
// Nobody waits for a rank that will not come.
//
// A device of a replica has its communicator in its ResourceManager, under kContainer and kName. Thread
// safety: all methods. `done` is called once, from any thread, possibly before the call returns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/allocator.h"
#include "graph/types/resource_handle.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"

namespace weir {

enum class Reduction { kSum, kProduct, kMin, kMax };

class Communicator : public Resource {
 public:
  static constexpr char kTypeName[] = "Communicator";
  static constexpr char kContainer[] = "weir.collectives";
  static constexpr char kName[] = "communicator";

  using Key = std::pair<int64_t, int64_t>;  // TensorFlow's group_key and instance_key
  using Done = std::function<void(absl::StatusOr<Tensor>)>;

  // Who calls.
  struct Call {
    std::string name;  // for messages: the node's
    Key key;
    Cancellation* cancellation = nullptr;  // null: is not cancelled. One that is ends the group's life.
    Allocator* allocator = &HostAllocator();
  };

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The elementwise reduction of all ranks' inputs, which have the same dtype and shape; divided by size()
  // when `divides`. Floating-point types of 16 bits are added up in float and rounded once.
  // Possible errors: InvalidArgument (the ranks' inputs or reductions differ, naming both; a dtype that is
  // no number), Aborted (above), FailedPrecondition (the group has not been formed), ResourceExhausted.
  virtual void AllReduce(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) = 0;

  // All ranks' inputs, of rank >= 1, joined along dimension 0 in the order of ranks. Their other dimensions
  // are the same. Same errors.
  virtual void AllGather(const Call& call, Tensor input, Done done) = 0;

  // The input of rank `root`, which alone gives one; the others say its dtype. Same errors; InvalidArgument
  // for a root that is no rank.
  virtual void Broadcast(const Call& call, int root, DType dtype, Tensor input, Done done) = 0;

  std::string ToString() const override { return absl::StrCat("rank ", rank(), " of ", size()); }
};

}  // namespace weir
