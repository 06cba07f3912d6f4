#include "session/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "session/tensor_sender.h"

namespace weir {

Rendezvous::Rendezvous(const ReceivedEdges& edges, TensorSender* sender, uint64_t plan)
    : edges_(edges), sender_(sender), plan_(plan), slots_(edges.size()) {}

absl::Status Rendezvous::Send(int edge, const Tensor& tensor, bool is_dead) {
  Received waiter;
  {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    Slot* const slot = FindLocked(edge);
    if (slot == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor came for edge ", edge,
                                                     ", which is none of the ", slots_.size(),
                                                     " that are received here"));
    }
    if (slot->state == Slot::State::kSent || slot->state == Slot::State::kDone) {
      return absl::InvalidArgumentError(absl::StrCat("a second tensor came for edge ", edge));
    }
    if (slot->state == Slot::State::kEmpty) {
      slot->state = Slot::State::kSent;
      slot->tensor = tensor;
      slot->is_dead = is_dead;
      return absl::OkStatus();
    }
    slot->state = Slot::State::kDone;
    waiter = std::exchange(slot->waiter, nullptr);
  }
  waiter(absl::OkStatus(), tensor, is_dead);
  return absl::OkStatus();
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
    } else if (slot->state == Slot::State::kEmpty) {
      slot->state = Slot::State::kAwaited;
      slot->waiter = std::move(done);
      return;
    } else {
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
      slot.tensor = Tensor();
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

absl::Status Rendezvous::SendTo(const DeviceName& task, int edge, const Tensor& tensor, bool is_dead) {
  if (sender_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a tensor for ", task.TaskString(), " cannot be sent: this worker is connected to no other"));
  }
  return sender_->Send(plan_, step_id_, edge, task, tensor, is_dead);
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
  for (Slot& slot : slots_) slot = Slot();
}

}  // namespace weir
