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
// A device of a replica has its communicator in its ResourceManager, under kContainer and kName. A device
// that is a replica of its own, beside others of the same process, has that group's under NameOfGroup. Thread
// safety: all methods. `done` is called once, from any thread, possibly before the call returns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "graph/types/allocator.h"
#include "graph/types/resource_handle.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"

namespace weir {

// kAdasum: of floating-point types. Two tensors a and b become
//   (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b,
// their sum when they are orthogonal and their mean when they are parallel; more of them do so pairwise, in
// the order of ranks. A tensor is one vector. (Maleki et al., "Scaling Distributed Training with Adaptive
// Summation", MLSys 2021, equation 3.)
enum class Reduction { kSum, kProduct, kMin, kMax, kAdasum };

class Communicator : public Resource {
 public:
  static constexpr char kTypeName[] = "Communicator";
  static constexpr char kContainer[] = "weir.collectives";
  static constexpr char kName[] = "communicator";

  // Groups of devices have group keys from here on.
  static constexpr int64_t kFirstDeviceGroup = int64_t{1} << 32;
  static std::string NameOfGroup(int64_t group_key) {
    return group_key < kFirstDeviceGroup ? kName : absl::StrCat(kName, " of devices ", group_key);
  }

  using Key = std::pair<int64_t, int64_t>;  // TensorFlow's group_key and instance_key
  using Done = std::function<void(absl::StatusOr<Tensor>)>;

  // Who calls.
  struct Call {
    std::string name;  // for messages: the node's
    Key key;
    Cancellation* cancellation = nullptr;  // null: is not cancelled. One that is ends the group's life.
    Allocator* allocator = &HostAllocator();
    // kHalf or kBfloat16: what floats and doubles are rounded to on their way in an AllReduce or
    // ReduceScatter. They are added up in float, and the sum is rounded again: the bits are those of a Cast
    // before and after it.
    DType wire = DType::kInvalid;
    // How long PassingGroups wait for the others. Members of other groups are lost with their tasks.
    absl::Duration timeout = absl::InfiniteDuration();
  };

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How many ranks' tensors an AllReduce adds up now: size(), unless this rank repeats, alone, what the
  // others have done.
  virtual int num_reduced() const { return size(); }

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

  // The rows of this rank in the elementwise reduction of all ranks' inputs, of rank >= 1: dimension 0 is
  // divided among the ranks in their order, and the first ones have one row more where it cannot be divided
  // evenly. Same errors as AllReduce.
  virtual void ReduceScatter(const Call& call, Tensor /*input*/, Reduction, bool /*divides*/, Done done) {
    done(Lacks(call, "reduce-scatter"));
  }

  // Rows that went from rank to rank.
  struct Exchanged {
    Tensor rows;                  // in the order of the ranks that sent them
    std::vector<int64_t> splits;  // how many each rank has sent
  };
  using ExchangedDone = std::function<void(absl::StatusOr<Exchanged>)>;
  // Sends rows of dimension 0 of the input: the first splits[0] to rank 0, the next splits[1] to rank 1... No
  // splits: as many to each. Same errors as AllGather; InvalidArgument for splits that are not one for each
  // rank, negative, or do not add up to the rows.
  virtual void AllToAll(const Call& call, Tensor /*input*/, std::vector<int64_t> /*splits*/,
                        ExchangedDone done) {
    done(Lacks(call, "all-to-all"));
  }

  // Done when every rank has come to it. Same errors as AllGather.
  virtual void Barrier(const Call& call, std::function<void(absl::Status)> done) {
    done(Lacks(call, "barrier"));
  }

  // This rank has no more to compute. Until all ranks say so it takes part in the others' collectives with
  // zeros, or no rows; means are still divided by size(). Gives the rank that was the last to join. Done of
  // all ranks; the same on each. Collectives that need this rank fail with InvalidArgument: a
  // product, a least or greatest value, its broadcast. Same errors; FailedPrecondition while a
  // collective of this rank is under way.
  virtual void Join(const Call& call, std::function<void(absl::StatusOr<int>)> done) {
    done(Lacks(call, "join"));
  }

  // Between the two a step of this rank updates variables, and needs no collective any more: one that fails
  // meanwhile, of whichever step, is told after the updates. A step that is cancelled between them, by
  // something else, leaves torn variables. `call.cancellation` is the step's. Sections of several steps may
  // overlap. BeginUpdates fails with FailedPrecondition where nothing is to be updated: gradients that were
  // not reduced with those of other ranks.
  virtual absl::Status BeginUpdates(const Call& /*call*/) { return absl::OkStatus(); }
  virtual void EndUpdates(const Call& /*call*/) {}

  std::string ToString() const override { return absl::StrCat("rank ", rank(), " of ", size()); }

 private:
  static absl::Status Lacks(const Call& call, absl::string_view what) {
    return absl::UnimplementedError(
        absl::StrCat("collective '", call.name, "': this group of replicas has no ", what));
  }
};

// Groups that exist for one collective of one step: the devices of this process whose nodes name the same
// group key, as graphs of TensorFlow do that give each device a CollectiveReduce. Nobody has formed them
// before; `group_size` says how many must come.
//
// Each device of a process has it in its ResourceManager, under Communicator::kContainer and kName.
class PassingGroups : public Resource {
 public:
  static constexpr char kTypeName[] = "PassingGroups";
  static constexpr char kName[] = "passing groups";
  using Found = std::function<void(absl::StatusOr<RefPtr<Communicator>>)>;

  // Gives `device` its communicator when `size` devices have come to this collective of this step; ranks are
  // in the order of the process's devices. Called once, maybe before the call returns. Errors:
  // InvalidArgument (more devices than the process has, a device that comes twice, another size than one that
  // came before), Cancelled, DeadlineExceeded.
  virtual void Come(const std::string& device, int64_t size, const Communicator::Call& call, Found found) = 0;
};

}  // namespace weir
