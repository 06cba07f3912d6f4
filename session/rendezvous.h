// Where the partitions of one step meet: a _Send leaves a tensor under its edge number, the _Recv of that
// number takes it, in either order. An edge in a loop has a queue: its k-th tensor is for the k-th _Recv of
// the step. Tensors from other tasks say which they are, for messages may overtake one another; no more than
// kMaxQueued of an edge may wait.
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
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "graph/types/device_name.h"
#include "graph/types/tensor.h"
#include "session/received_edges.h"

namespace weir {

class TensorSender;  // session/tensor_sender.h

class Rendezvous {
 public:
  using Received = std::function<void(const absl::Status& status, const Tensor& tensor, bool is_dead)>;

  // Borrows `edges` and `sender`, which may be null: then SendTo is an error. `loop_edges`: those of `edges`
  // that are in loops.
  explicit Rendezvous(const ReceivedEdges& edges, TensorSender* sender = nullptr, uint64_t plan = 0,
                      absl::Span<const LoopEdge> loop_edges = {});

  // For a device of this process: of an edge in a loop the next one. InvalidArgument for an edge that is not
  // received here or sent twice (possible only for a message from outside); the abort's reason after Abort.
  // is_dead: the tensor was not computed (its branch was not taken).
  absl::Status Send(int edge, const Tensor& tensor, bool is_dead);

  // A tensor of another task. Also InvalidArgument: a turn that is over, has come, or does not fit the edge;
  // ResourceExhausted: one too far ahead of what has been received.
  absl::Status Deliver(int edge, int64_t turn, const Tensor& tensor, bool is_dead);
  // Keeps `held` until that tensor of an edge in a loop has been received, or the step is over. False when it
  // is over. Errors are Deliver's.
  absl::StatusOr<bool> Hold(int edge, int64_t turn, std::shared_ptr<void> held);

  void RecvAsync(int edge, Received done);

  // Hands the tensor to the sender, for another task. FailedPrecondition without one.
  absl::Status SendTo(const DeviceName& task, int edge, const Tensor& tensor, bool is_dead,
                      bool is_in_loop = false);
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
  static int64_t NumBytes(size_t num_edges, size_t num_loop_edges) {
    return static_cast<int64_t>(num_edges * sizeof(Slot) +
                                num_loop_edges * (sizeof(Queue) + kMaxQueued * sizeof(Item)));
  }

 private:
  struct Item {
    bool is_there = false;
    bool is_dead = false;
    Tensor tensor;
    std::shared_ptr<void> held;
  };
  // Of an edge in a loop.
  struct Queue {
    explicit Queue(int head_start) : head_start(head_start), num_ahead(head_start) {}
    void Clear();
    // Null, with the reason, where there is no place for that turn.
    absl::StatusOr<Item*> Place(int edge, int64_t turn);

    int head_start;
    int num_ahead;          // of the head start, not received yet
    int64_t num_sent = 0;   // by a device of this process
    int64_t num_taken = 0;  // by the _Recv
    // Of turns from num_taken on, each at its number modulo kMaxQueued. Empty before the first one.
    std::vector<Item> items;
  };
  struct Slot {
    enum class State : uint8_t { kEmpty, kSent, kAwaited, kDone };
    State state = State::kEmpty;  // with a queue: kAwaited or not
    bool is_dead = false;
    Tensor tensor;
    Received waiter;
    std::unique_ptr<Queue> queue;

    void Clear();
  };
  // Without a turn: the next one.
  absl::Status Put(int edge, std::optional<int64_t> turn, const Tensor& tensor, bool is_dead);
  static absl::Status CheckTurn(int edge, const Slot& slot, int64_t turn);
  // `waiter`: set where one waits for this tensor.
  absl::Status SendOnce(int edge, Slot& slot, const Tensor& tensor, bool is_dead, Received* waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SendInTurn(int edge, Slot& slot, int64_t turn, const Tensor& tensor, bool is_dead,
                          Received* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Slot*> FindSlot(int edge) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False when there is nothing for the next _Recv.
  static bool TakeNext(Queue& queue, Tensor* tensor, bool* is_dead);
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
  absl::flat_hash_map<int, int64_t> num_sent_to_others_ ABSL_GUARDED_BY(mutex_);  // of edges in loops
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
