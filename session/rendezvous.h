// Where the partitions of one step meet: a _Send leaves a tensor under its edge number, the _Recv of that
// number takes it, in either order.
//
// One per (worker, step). Edges are numbered from 0 within the step's plan, so a meeting needs no name and no
// hash; there is a slot for each edge that the worker receives. Thread safety: all methods, from any thread.
//
// Progress: a Recv's callback runs exactly once: on the thread that sends, or at once if the tensor is
// already there, or with the reason when the step is aborted. It must be short and run nothing else: the
// executor only posts an event. No method blocks, and none holds a lock while a callback runs. Not promised:
// any order between edges.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/device_name.h"
#include "graph/types/tensor.h"
#include "session/received_edges.h"

namespace weir {

class TensorSender;  // session/tensor_sender.h

class Rendezvous {
 public:
  using Received = std::function<void(const absl::Status& status, const Tensor& tensor, bool is_dead)>;

  // Borrows both. `sender` may be null: then SendTo is an error.
  explicit Rendezvous(const ReceivedEdges& edges, TensorSender* sender = nullptr, uint64_t plan = 0);

  // InvalidArgument for an edge that is not received here or sent twice (possible only for a message from
  // outside); the abort's reason after Abort. is_dead: the tensor was not computed (its branch was not
  // taken).
  absl::Status Send(int edge, const Tensor& tensor, bool is_dead);

  void RecvAsync(int edge, Received done);

  // Hands the tensor to the sender, for another task. FailedPrecondition without one.
  absl::Status SendTo(const DeviceName& task, int edge, const Tensor& tensor, bool is_dead);
  // What was collected by SendTo leaves now.
  void Flush();
  // The same at the end of the step's part on this worker.
  void FlushLast();

  // Wakes every waiting Recv with `reason` (not OK); later ones get it at once, later Sends are refused.
  void Abort(absl::Status reason);

  // Edges that are waited for and have not come: what a stuck step waits for.
  std::vector<int> awaited_edges() const;

  // For reuse by another step. Precondition: no step uses it and no callback waits.
  void Reset(int64_t step_id);

  // What a rendezvous of so many edges takes, without tensors.
  static int64_t NumBytes(size_t num_edges) { return static_cast<int64_t>(num_edges * sizeof(Slot)); }

 private:
  struct Slot {
    enum class State : uint8_t { kEmpty, kSent, kAwaited, kDone };
    State state = State::kEmpty;
    bool is_dead = false;
    Tensor tensor;
    Received waiter;
  };
  Slot* FindLocked(int edge) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int slot = edges_.SlotOf(edge);
    return slot == ReceivedEdges::kNone ? nullptr : &slots_[slot];
  }

  const ReceivedEdges& edges_;
  TensorSender* const sender_;
  const uint64_t plan_;
  int64_t step_id_ = 0;
  mutable absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
