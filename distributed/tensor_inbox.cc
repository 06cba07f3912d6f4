#include "distributed/tensor_inbox.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/plan_errors.h"
#include "graph/types/status_macros.h"
#include "kernels/threads.h"
#include "session/received_edges.h"

namespace weir {

TensorInbox::TensorInbox(LocalWorker& worker, Membership& membership, PeerUse& use, int64_t inbound,
                         FailStep fail_step)
    : worker_(worker),
      membership_(membership),
      use_(use),
      fail_step_(std::move(fail_step)),
      budget_(inbound, membership.environment()),
      pieces_([this](const Envelope& sender, const TensorPiece& piece, std::shared_ptr<void> held) {
        return KeepForStep(sender, piece, std::move(held));
      }) {}

void TensorInbox::Push(WorkerRequest& request) {
  const auto held = std::make_shared<std::vector<PeerUse::Share>>();
  const auto take = [&](int64_t num_bytes) {
    return use_.TakeBytes(request.envelope.sender, request.envelope.sender_incarnation, num_bytes,
                          "a push of tensors", held.get());
  };
  absl::StatusOr<PushRequest> push = DecodePush(&request.reader, request.payloads(), take);
  if (!push.ok()) return Reply(request, push.status(), 0);
  const Incarnation sender = request.envelope.sender_incarnation;
  const uint64_t number = push->message.number;
  const absl::StatusOr<DeliveredMessages::State> state = pushes_.Begin(sender, push->message);
  if (!state.ok()) return Reply(request, state.status(), 0);
  switch (*state) {
    case DeliveredMessages::State::kNew:
      break;
    case DeliveredMessages::State::kUnderWay:
      // Beside the frame, where it is tried again (Peers).
      return request.call->Reply(
          absl::UnavailableError("the same tensors are just being delivered, which may yet fail"));
    case DeliveredMessages::State::kDelivered:
      return Reply(request, absl::OkStatus(), 0);
  }
  int64_t num_bytes = 0;
  for (const EdgeTensor& entry : push->entries) num_bytes += static_cast<int64_t>(entry.tensor.num_bytes());
  absl::StatusOr<InboundBudget::Arrival> arrival = budget_.Arrive(sender, num_bytes);
  if (!arrival.ok()) {
    pushes_.End(sender, number, false);
    return request.call->Reply(arrival.status());  // beside the frame, too
  }
  ForgetIfOver(request.envelope);
  const absl::Status taken = take(static_cast<int64_t>(request.call->request().num_wire_bytes()));
  if (!taken.ok()) {
    pushes_.End(sender, number, false);
    *arrival = InboundBudget::Arrival();
    return Reply(request, taken, num_bytes);
  }
  request.call->request().payloads.clear();  // so that a kernel may reuse a tensor's buffer
  request.call->Compute([this, sender, number, num_bytes, request, push = *std::move(push), held = held,
                         arrival = *std::move(arrival)]() mutable {
    RunScope scope;  // the answer goes before what the tensors make runnable: the sender may have lent them
    const absl::Status status =
        Deliver(request.envelope.sender, std::move(push), std::exchange(held, nullptr));
    pushes_.End(sender, number, status.ok());
    arrival = InboundBudget::Arrival();
    Reply(request, status, num_bytes);
  });
}

void TensorInbox::Reply(const WorkerRequest& request, const absl::Status& status, int64_t num_bytes,
                        WireWriter reply) {
  budget_.Answer(request.envelope.sender_incarnation, num_bytes).EncodeTo(&reply);
  request.call->Reply(EncodeReply(membership_.incarnation(), status, reply.Take()));
}

absl::Status TensorInbox::Deliver(const TaskName& sender, PushRequest push, std::shared_ptr<void> held) {
  RunScope scope;  // what waits for the first tensor must not run before the last is delivered
  const std::string from = sender.ToDevicePrefix();
  absl::Status status = HoldForEntries(push, from, std::move(held));
  for (EdgeTensor& entry : push.entries) {
    if (!status.ok()) break;
    const Tensor tensor = std::exchange(entry.tensor, Tensor());
    status = worker_.Receive(push.plan, push.step_id, entry.edge, entry.turn, tensor, entry.is_dead, from);
  }
  return absl::IsNotFound(status) ? UnknownPlan(push.plan, membership_.self()) : status;
}

// Until the step is over, which may never begin; for tensors in loops until they have been received: there
// may be any number of them in a step.
absl::Status TensorInbox::HoldForEntries(const PushRequest& push, const std::string& from,
                                         std::shared_ptr<void> held) {
  if (held == nullptr) return absl::OkStatus();
  bool is_held = false;
  for (const EdgeTensor& entry : push.entries) {
    if (entry.turn == kOnlyTurn && std::exchange(is_held, true)) continue;
    WEIR_RETURN_IF_ERROR(worker_.CheckSender(push.plan, entry.edge, from));
    WEIR_RETURN_IF_ERROR(worker_.Hold(push.plan, push.step_id, entry.edge, entry.turn, held).status());
  }
  return absl::OkStatus();
}

absl::Status TensorInbox::CheckSender(const Envelope& envelope, const TensorPiece& piece) const {
  const absl::Status status = worker_.CheckSender(piece.plan, piece.edge, envelope.sender.ToDevicePrefix());
  return absl::IsNotFound(status) ? UnknownPlan(piece.plan, membership_.self()) : status;
}

Payload TensorInbox::Place(const Envelope& envelope, WireReader* reader, size_t num_bytes) {
  // What has no place is looked at again by PushPiece, which says why.
  const absl::StatusOr<TensorPiece> piece = DecodePiece(reader);
  if (!piece.ok() || !CheckSender(envelope, *piece).ok()) return Payload();
  return pieces_.Place(envelope, *piece, num_bytes);
}

absl::StatusOr<bool> TensorInbox::KeepForStep(const Envelope& sender, const TensorPiece& piece,
                                              std::shared_ptr<void> held) {
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share share,
                        use_.Take(sender.sender, sender.sender_incarnation, {.bytes = piece.tensor_bytes()},
                                  absl::StrCat("a tensor for step ", piece.step_id)));
  const auto both =
      std::make_shared<std::pair<std::shared_ptr<void>, PeerUse::Share>>(std::move(held), std::move(share));
  return worker_.Hold(piece.plan, piece.step_id, piece.edge, piece.turn, both);
}

void TensorInbox::PushPiece(WorkerRequest& request) {
  std::vector<Payload> payloads = std::exchange(request.call->request().payloads, {});
  absl::StatusOr<TensorPiece> piece = DecodePiece(&request.reader);
  if (piece.ok() && payloads.size() != 1) {
    piece = absl::InvalidArgumentError(
        absl::StrCat("a piece of a tensor came with ", payloads.size(), " payloads"));
  }
  int64_t num_bytes = 0;
  for (const Payload& payload : payloads) num_bytes += static_cast<int64_t>(payload.num_bytes());
  absl::Status status = piece.status();
  if (status.ok()) status = CheckSender(request.envelope, *piece);
  if (!status.ok()) return Reply(request, status, num_bytes);
  const Incarnation from = request.envelope.sender_incarnation;
  absl::StatusOr<InboundBudget::Arrival> arrival = budget_.Arrive(from, num_bytes);
  if (!arrival.ok()) return request.call->Reply(arrival.status());  // beside the frame
  absl::StatusOr<TensorAssembler::Added> added =
      pieces_.Add(request.envelope, *piece, std::move(payloads[0]));
  *arrival = InboundBudget::Arrival();
  ForgetIfOver(request.envelope);
  if (!added.ok()) {
    const bool is_unknown = absl::IsNotFound(added.status());
    return Reply(request, is_unknown ? UnknownPlan(piece->plan, membership_.self()) : added.status(),
                 num_bytes);
  }
  if (added->is_on_its_way) {
    // Beside the frame, where it is tried again (Peers).
    return request.call->Reply(
        absl::UnavailableError("another copy of this piece is on its way, and may yet break off"));
  }
  // Before the delivery, which may compute for long: the sender has room for the next piece.
  WireWriter reply;
  EncodePieceReply(added->is_wanted, &reply);
  Reply(request, absl::OkStatus(), num_bytes, std::move(reply));
  if (!added->whole.is_valid()) return;
  PushRequest push{{}, piece->plan, piece->step_id, {}};
  push.entries.push_back({piece->edge, false, std::move(added->whole), piece->turn});
  request.call->Compute([this, sender = request.envelope.sender, plan = piece->plan, step_id = piece->step_id,
                         push = std::move(push)]() mutable {
    if (absl::Status status = Deliver(sender, std::move(push)); !status.ok()) {
      fail_step_(plan, step_id, status);
    }
  });
}

void TensorInbox::Forget(Incarnation sender) {
  pushes_.Forget(sender);
  pieces_.Forget(sender);
  budget_.Forget(sender);
}

void TensorInbox::ForgetIfOver(const Envelope& sender) {
  // Forget comes after membership has changed its mind: whichever is later finds what was noted.
  if (!membership_.IsAlive(sender.sender, sender.sender_incarnation)) Forget(sender.sender_incarnation);
}

}  // namespace weir
