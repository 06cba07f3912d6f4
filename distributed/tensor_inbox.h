// Takes in the tensors that other tasks push to the steps of this one's worker, whole or in pieces: the
// receiving end of TensorPusher.
//
// A repeated push is answered without being delivered again; one that failed is delivered again, so that its
// sender hears of it. What is under way to this task is limited for each sender and for all (InboundBudget),
// and counts against the sender's use (PeerUse) until the step has it.
//
// Requests have been admitted by membership. Threads: the transport's, which also run what becomes runnable:
// in IncomingCall::Compute. Thread safety: all methods. Borrows everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distributed/membership.h"
#include "distributed/peer_limits.h"
#include "distributed/peers/delivered_messages.h"
#include "distributed/peers/inbound_budget.h"
#include "distributed/peers/tensor_assembler.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/worker_request.h"
#include "session/local_worker.h"

namespace weir {

class TensorInbox {
 public:
  // Ends a step because a tensor of it was lost.
  using FailStep = std::function<void(PlanId plan, int64_t step_id, const absl::Status& reason)>;

  // `use`: what tasks have here. `inbound`: bytes that may be under way (PeerLimits::inbound).
  TensorInbox(LocalWorker& worker, Membership& membership, PeerUse& use, int64_t inbound, FailStep fail_step);

  // Answers PushTensors and PushPiece, also an error with what the sender may have under way from now on.
  void Push(WorkerRequest& request);
  void PushPiece(WorkerRequest& request);

  // Where a piece of a tensor goes as it comes (PayloadPlacement); `reader` stands behind the envelope.
  Payload Place(const Envelope& envelope, WireReader* reader, size_t num_bytes);

  // Of a life that is over.
  void Forget(Incarnation sender);

  const InboundBudget& budget() const { return budget_; }
  // Set aside for tensors that have not come whole.
  int64_t num_unfinished_bytes() const { return pieces_.num_bytes(); }

 private:
  // In the frame of an answer, with what its sender may have under way from now on, also in an error.
  // `num_bytes`: of the push, 0 if it was answered before. `reply`: what comes before that.
  void Reply(const WorkerRequest& request, const absl::Status& status, int64_t num_bytes,
             WireWriter reply = {});
  // A message may come so late that its sender's life is over: nothing stays of it, for nobody would take it
  // away.
  void ForgetIfOver(const Envelope& sender);
  // PermissionDenied for a piece that another task sends than the one whose tensor it is.
  absl::Status CheckSender(const Envelope& envelope, const TensorPiece& piece) const;
  // The step keeps `held`, the room for a large tensor, until it is over; what the tensor takes counts
  // against its sender as long (LocalWorker::Hold). False when the step is over already.
  absl::StatusOr<bool> KeepForStep(const Envelope& sender, const TensorPiece& piece,
                                   std::shared_ptr<void> held);
  // The step keeps `held`, if it is not null, until it is over; of edges in loops until it has their tensors.
  absl::Status Deliver(const TaskName& sender, PushRequest push, std::shared_ptr<void> held = nullptr);
  absl::Status HoldForEntries(const PushRequest& push, const std::string& from, std::shared_ptr<void> held);

  LocalWorker& worker_;
  Membership& membership_;
  PeerUse& use_;
  const FailStep fail_step_;
  InboundBudget budget_;
  TensorAssembler pieces_;
  DeliveredMessages pushes_;
};

}  // namespace weir
