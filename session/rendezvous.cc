#include "session/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "session/tensor_sender.h"

namespace weir {

Rendezvous::Rendezvous(const ReceivedEdges& edges, TensorSender* sender, uint64_t plan,
                       absl::Span<const LoopEdge> loop_edges)
    : edges_(edges), sender_(sender), plan_(plan), slots_(edges.size()) {
  for (const LoopEdge& edge : loop_edges) {
    slots_[edges.SlotOf(edge.edge)].queue = std::make_unique<Queue>(edge.head_start);
  }
}

void Rendezvous::Slot::Clear() {
  state = State::kEmpty;
  is_dead = false;
  tensor = Tensor();
  waiter = nullptr;
  if (queue != nullptr) queue->Clear();
}

absl::StatusOr<Rendezvous::Slot*> Rendezvous::FindSlot(int edge) {
  if (Slot* const slot = FindLocked(edge)) return slot;
  return absl::InvalidArgumentError(absl::StrCat("a tensor came for edge ", edge, ", which is none of the ",
                                                 slots_.size(), " that are received here"));
}

absl::StatusOr<Rendezvous::Item*> Rendezvous::Queue::Place(int edge, int64_t turn) {
  const auto refusal = [&](absl::string_view why) {
    return absl::StrCat("tensor ", turn, " came for edge ", edge, " in a loop, ", why, ": ", num_taken,
                        " have been received");
  };
  if (turn < num_taken) return absl::InvalidArgumentError(refusal("which is over"));
  if (turn - num_taken >= kMaxQueued) {
    return absl::ResourceExhaustedError(
        refusal(absl::StrCat("of which no more than ", kMaxQueued, " may wait")));
  }
  if (items.empty()) items.resize(kMaxQueued);
  Item& item = items[turn % kMaxQueued];
  if (item.is_there) return absl::InvalidArgumentError(refusal("a second one"));
  return &item;
}

void Rendezvous::Queue::Clear() {
  num_ahead = head_start;
  num_sent = num_taken = 0;
  for (Item& item : items) item = Item();
}

bool Rendezvous::TakeNext(Queue& queue, Tensor* tensor, bool* is_dead) {
  if (queue.num_ahead > 0) {
    --queue.num_ahead;
    *tensor = Tensor(DType::kFloat32, Shape({0}));
    return true;
  }
  if (queue.items.empty()) return false;
  Item& next = queue.items[queue.num_taken % kMaxQueued];
  if (!next.is_there) return false;
  const Item taken = std::exchange(next, Item());
  *tensor = taken.tensor;
  *is_dead = taken.is_dead;
  ++queue.num_taken;
  return true;
}

absl::Status Rendezvous::SendOnce(int edge, Slot& slot, const Tensor& tensor, bool is_dead,
                                  Received* waiter) {
  if (slot.state == Slot::State::kSent || slot.state == Slot::State::kDone) {
    return absl::InvalidArgumentError(absl::StrCat("a second tensor came for edge ", edge));
  }
  if (slot.state == Slot::State::kEmpty) {
    slot.state = Slot::State::kSent;
    slot.tensor = tensor;
    slot.is_dead = is_dead;
    return absl::OkStatus();
  }
  slot.state = Slot::State::kDone;
  *waiter = std::exchange(slot.waiter, nullptr);
  return absl::OkStatus();
}

absl::Status Rendezvous::SendInTurn(int edge, Slot& slot, int64_t turn, const Tensor& tensor, bool is_dead,
                                    Received* waiter) {
  Queue& queue = *slot.queue;
  WEIR_ASSIGN_OR_RETURN(Item * item, queue.Place(edge, turn));
  if (slot.state != Slot::State::kAwaited || turn != queue.num_taken) {
    item->is_there = true;
    item->is_dead = is_dead;
    item->tensor = tensor;
    return absl::OkStatus();
  }
  item->held = nullptr;
  ++queue.num_taken;
  slot.state = Slot::State::kEmpty;
  *waiter = std::exchange(slot.waiter, nullptr);
  return absl::OkStatus();
}

absl::Status Rendezvous::Send(int edge, const Tensor& tensor, bool is_dead) {
  return Put(edge, std::nullopt, tensor, is_dead);
}

absl::Status Rendezvous::Deliver(int edge, int64_t turn, const Tensor& tensor, bool is_dead) {
  return Put(edge, turn, tensor, is_dead);
}

absl::Status Rendezvous::Put(int edge, std::optional<int64_t> turn, const Tensor& tensor, bool is_dead) {
  Received waiter;
  {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    WEIR_ASSIGN_OR_RETURN(Slot * slot, FindSlot(edge));
    if (turn) WEIR_RETURN_IF_ERROR(CheckTurn(edge, *slot, *turn));
    if (slot->queue == nullptr) {
      WEIR_RETURN_IF_ERROR(SendOnce(edge, *slot, tensor, is_dead, &waiter));
    } else {
      if (!turn) turn = slot->queue->num_sent++;
      WEIR_RETURN_IF_ERROR(SendInTurn(edge, *slot, *turn, tensor, is_dead, &waiter));
    }
  }
  if (waiter) waiter(absl::OkStatus(), tensor, is_dead);
  return absl::OkStatus();
}

absl::Status Rendezvous::CheckTurn(int edge, const Slot& slot, int64_t turn) {
  if ((slot.queue != nullptr) == (turn >= 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a tensor came for edge ", edge, slot.queue != nullptr ? " in a loop" : " in no loop",
                   turn >= 0 ? absl::StrCat(" as the one of turn ", turn) : " without its turn"));
}

absl::StatusOr<bool> Rendezvous::Hold(int edge, int64_t turn, std::shared_ptr<void> held) {
  absl::MutexLock lock(&mutex_);
  if (!aborted_.ok()) return false;
  WEIR_ASSIGN_OR_RETURN(Slot * slot, FindSlot(edge));
  WEIR_RETURN_IF_ERROR(CheckTurn(edge, *slot, turn));
  WEIR_ASSIGN_OR_RETURN(Item * item, slot->queue->Place(edge, turn));
  item->held = std::move(held);
  return true;
}

void Rendezvous::RecvAsync(int edge, Received done) {
  absl::Status status;
  Tensor tensor;
  bool is_dead = false;
  {
    absl::MutexLock lock(&mutex_);
    Slot* const slot = FindLocked(edge);
    if (!aborted_.ok()) {
      status = aborted_;
    } else if (slot == nullptr || slot->state == Slot::State::kAwaited || slot->state == Slot::State::kDone) {
      status = absl::InternalError(absl::StrCat("edge ", edge, " is received twice or not received here"));
    } else if (slot->queue != nullptr ? !TakeNext(*slot->queue, &tensor, &is_dead)
                                      : slot->state == Slot::State::kEmpty) {
      slot->state = Slot::State::kAwaited;
      slot->waiter = std::move(done);
      return;
    } else if (slot->queue == nullptr) {
      slot->state = Slot::State::kDone;
      tensor = std::exchange(slot->tensor, Tensor());
      is_dead = slot->is_dead;
    }
  }
  done(status, tensor, is_dead);
}

void Rendezvous::Abort(absl::Status reason) {
  std::vector<Received> waiters;
  {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    for (Slot& slot : slots_) {
      if (slot.state == Slot::State::kAwaited) waiters.push_back(std::exchange(slot.waiter, nullptr));
      slot.Clear();
      slot.state = Slot::State::kDone;
    }
  }
  for (Received& waiter : waiters) waiter(reason, Tensor(), false);
}

std::vector<int> Rendezvous::awaited_edges() const {
  absl::MutexLock lock(&mutex_);
  std::vector<int> edges;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == Slot::State::kAwaited) edges.push_back(edges_.edge(i));
  }
  return edges;
}

absl::Status Rendezvous::SendTo(const DeviceName& task, int edge, const Tensor& tensor, bool is_dead,
                                bool is_in_loop) {
  if (sender_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a tensor for ", task.TaskString(), " cannot be sent: this worker is connected to no other"));
  }
  int64_t turn = kOnlyTurn;
  if (is_in_loop) {
    absl::MutexLock lock(&mutex_);
    turn = num_sent_to_others_[edge]++;
  }
  return sender_->Send(plan_, step_id_, edge, turn, task, tensor, is_dead);
}

void Rendezvous::Flush() {
  if (sender_ != nullptr) sender_->Flush(plan_, step_id_);
}

void Rendezvous::FlushLast() {
  if (sender_ != nullptr) sender_->FlushLast(plan_, step_id_);
}

void Rendezvous::Reset(int64_t step_id) {
  if (sender_ != nullptr) sender_->Discard(plan_, step_id_);
  absl::MutexLock lock(&mutex_);
  step_id_ = step_id;
  aborted_ = absl::OkStatus();
  for (Slot& slot : slots_) slot.Clear();
  num_sent_to_others_.clear();
}

}  // namespace weir
