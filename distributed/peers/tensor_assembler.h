// Puts together tensors that come in pieces: the receiving side of TensorPusher's large tensors.
//
// Every piece tells the whole tensor's dtype and shape and the grid it is cut along, so any of them may come
// first, in any order, on any thread; the first one makes room for all. A piece goes straight from the
// network into its place when the transport asks for that place beforehand, and is copied there otherwise. A
// place that is given back unfilled (the connection broke in the middle) is free for the piece's repetition.
// The repetition of a piece that is there changes nothing. The repetition of a piece that is still being
// written must be sent once more: the first copy may yet break off.
//
// A tensor that is not whole belongs to its step (through Keep), and is gone with it: when the step is over,
// has been cancelled or has run out of time, when its plan is dropped, when the task that owns the plan is
// lost. There is room for max_bytes of such tensors at once.
//
// Safe against hostile pieces: they are checked before anything is allocated; one that does not fit its grid,
// or contradicts the first one of its transfer, is an error and changes nothing. Thread safety: all methods.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "distributed/membership.h"
#include "distributed/peers/delivered_messages.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/frame.h"
#include "graph/types/tensor.h"

namespace weir {

class TensorAssembler {
 public:
  // Holds `held` until the piece's step is over; false when it is over already. Its errors are Add's.
  using Keep = std::function<absl::StatusOr<bool>(const Envelope& sender, const TensorPiece& piece,
                                                  std::shared_ptr<void> held)>;

  // max_bytes 0: as much as this machine has memory.
  explicit TensorAssembler(Keep keep, int64_t max_bytes = 0);

  // Where the bytes of a piece shall go; empty when there is no such place, or another caller has it. The
  // caller fills it and hands it to Add, or drops it. It keeps the tensor's memory, also beyond the step's
  // end.
  Payload Place(const Envelope& sender, const TensorPiece& piece, size_t num_bytes);

  struct Added {
    bool is_wanted = true;       // false: the step is over
    bool is_on_its_way = false;  // another caller has the place: these bytes were dropped
    Tensor whole;                // for the caller that brings the last piece; invalid otherwise
  };
  // Possible errors: InvalidArgument (a piece of the wrong size, or of another tensor than the first piece of
  // its transfer), ResourceExhausted (no room, naming the sizes; no memory).
  absl::StatusOr<Added> Add(const Envelope& sender, const TensorPiece& piece, Payload bytes);

  // A life that is over sends nothing more.
  void Forget(Incarnation sender) { transfers_.Forget(sender); }

  // Of tensors that are not whole.
  int64_t num_bytes() const { return num_bytes_->load(std::memory_order_relaxed); }

 private:
  using Key = std::pair<Incarnation, uint64_t>;  // sender and transfer

  class Assembly;
  class PlaceBuffer;

  // Null when the step is over.
  absl::StatusOr<std::shared_ptr<Assembly>> FindOrCreateLocked(const Envelope& sender,
                                                               const TensorPiece& piece)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Keep keep_;
  const int64_t max_bytes_;
  const std::shared_ptr<std::atomic<int64_t>> num_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
  absl::Mutex mutex_;
  absl::flat_hash_map<Key, std::weak_ptr<Assembly>> assemblies_ ABSL_GUARDED_BY(mutex_);
  // So that a late repetition of a piece of a tensor that is whole does not begin another.
  DeliveredMessages transfers_;
};

}  // namespace weir
