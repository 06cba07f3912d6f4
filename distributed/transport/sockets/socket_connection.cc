#include "distributed/transport/sockets/socket_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/transport/host/process_memory.h"
#include "distributed/transport/host/unix_socket.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxPartsPerCall = 64;

}  // namespace

SocketConnection::~SocketConnection() { close(fd_); }

absl::Status SocketConnection::Start() {
  absl::MutexLock lock(&mutex_);
  if (is_closed_) return absl::CancelledError("the connection is closed already");
  WEIR_ASSIGN_OR_RETURN(id_, poller_.Add(fd_, shared_from_this()));
  ArmLocked();
  return absl::OkStatus();
}

void SocketConnection::Outgoing::BeginPiece() {
  num_left_in_unit = std::min(num_left_beyond, SocketMessageReader::kPieceBytes);
  num_left_beyond -= num_left_in_unit;
  begin = EncodePiece(call, num_left_in_unit);
  num_begin_sent = 0;
}

void SocketConnection::Send(const SocketMessage& message) {
  Outgoing outgoing;
  outgoing.kind = message.kind;
  outgoing.call = message.call;
  outgoing.begin = EncodeSocketMessage(message);
  for (size_t i = 0; i < message.frame.payloads.size(); ++i) {
    const bool is_lent = !message.loans.empty() && message.loans[i].address != 0;
    if (is_lent) continue;
    outgoing.payloads.push_back(message.frame.payloads[i]);
    outgoing.num_left_in_unit += message.frame.payloads[i].num_bytes();
  }
  outgoing.num_bytes = outgoing.begin.size() + outgoing.num_left_in_unit;
  outgoing.is_large = outgoing.num_left_in_unit > SocketMessageReader::kPieceBytes;
  if (outgoing.is_large) outgoing.num_left_beyond = std::exchange(outgoing.num_left_in_unit, 0);
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return;
    num_queued_bytes_ += outgoing.num_bytes;
    outgoing.is_large |=
        message.kind == SocketMessage::Kind::kCancel && large_requests_.contains(message.call);
    if (outgoing.is_large) {
      if (message.kind == SocketMessage::Kind::kRequest) large_requests_.insert(message.call);
      large_.push_back(std::move(outgoing));
    } else {
      small_.push_back(std::move(outgoing));
    }
    if (is_flushing_ || (armed_ & EPOLLOUT) != 0) return;
    is_flushing_ = true;
  }
  Flush();
}

bool SocketConnection::Withdraw(uint64_t call) {
  Outgoing withdrawn;  // freed outside the lock
  absl::MutexLock lock(&mutex_);
  for (std::deque<Outgoing>* queue : {&small_, &large_}) {
    const auto found = std::find_if(queue->begin(), queue->end(), [call](const Outgoing& message) {
      return message.kind == SocketMessage::Kind::kRequest && message.call == call;
    });
    if (found == queue->end()) continue;
    if (found->has_begun) return false;
    num_queued_bytes_ -= found->num_bytes;
    large_requests_.erase(call);
    withdrawn = std::move(*found);
    queue->erase(found);
    return true;
  }
  return false;
}

// Small ones first, but a piece whenever as many bytes of small ones have gone before it.
SocketConnection::Outgoing SocketConnection::TakeNextLocked() {
  if (unfinished_.has_value()) {
    Outgoing message = *std::move(unfinished_);
    unfinished_.reset();
    return message;
  }
  const bool is_turn_of_large =
      small_.empty() || (!large_.empty() && num_small_bytes_ >= SocketMessageReader::kPieceBytes);
  std::deque<Outgoing>& queue = is_turn_of_large ? large_ : small_;
  Outgoing message = std::move(queue.front());
  queue.pop_front();
  num_small_bytes_ = is_turn_of_large ? 0 : num_small_bytes_ + message.num_bytes;
  if (message.has_begun) message.BeginPiece();
  message.has_begun = true;
  return message;
}

// By the one thread that has set is_flushing_.
void SocketConnection::Flush() {
  while (true) {
    Outgoing message;
    {
      absl::MutexLock lock(&mutex_);
      if (is_closed_ || !HasQueuedLocked()) {
        is_flushing_ = false;
        if (!is_closed_) ArmLocked();  // reading may have waited for this
        return;
      }
      message = TakeNextLocked();
    }
    if (const absl::Status written = Write(&message); !written.ok()) {
      Close(written);
      continue;
    }
    absl::MutexLock lock(&mutex_);
    if (is_closed_) continue;
    if (!message.is_unit_sent()) {
      unfinished_ = std::move(message);
      is_flushing_ = false;
      return ArmLocked();
    }
    if (!message.is_sent()) {
      large_.push_front(std::move(message));
      continue;
    }
    num_queued_bytes_ -= message.num_bytes;
    if (message.kind == SocketMessage::Kind::kRequest) large_requests_.erase(message.call);
  }
}

absl::Status SocketConnection::Write(Outgoing* message) {
  while (!message->is_unit_sent()) {
    iovec parts[kMaxPartsPerCall];
    int num_parts = 0;
    const size_t num_begin_left = message->begin.size() - message->num_begin_sent;
    if (num_begin_left > 0) {
      parts[num_parts++] = {message->begin.data() + message->num_begin_sent, num_begin_left};
    }
    num_parts = message->next.AddParts(message->payloads, message->num_left_in_unit, parts, num_parts,
                                       kMaxPartsPerCall);
    WEIR_ASSIGN_OR_RETURN(const size_t count, stream_->Write(parts, num_parts));
    if (count == 0) break;
    const size_t of_begin = std::min(count, num_begin_left);
    message->num_begin_sent += of_begin;
    message->num_left_in_unit -= count - of_begin;
    message->next.Advance(message->payloads, count - of_begin);
  }
  return absl::OkStatus();
}

void SocketConnection::OnReady(uint32_t events) {
  bool may_read = false, may_flush = false;
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return;
    armed_ = 0;
    is_posted_ = false;
    if ((events & ~EPOLLOUT) != 0 && !is_reading_) may_read = is_reading_ = true;
    if ((events & ~EPOLLIN) != 0 && !is_flushing_ && HasQueuedLocked()) may_flush = is_flushing_ = true;
    ArmLocked();
  }
  if (may_flush) Flush();
  if (may_read) ReadOne();
}

void SocketConnection::ReadOne() {
  absl::StatusOr<bool> is_whole =
      reader_.Read(*stream_, [this](const SocketMessage& message, size_t index, size_t num_bytes) {
        return Place(message, index, num_bytes);
      });
  SocketMessage message;
  if (is_whole.ok() && *is_whole) {
    message = reader_.Take();
    if (absl::Status admitted = Admit(message, &reader_); !admitted.ok()) is_whole = admitted;
  }
  if (!is_whole.ok()) Close(is_whole.status());
  {
    absl::MutexLock lock(&mutex_);
    is_reading_ = false;
    if (is_closed_) {
      reader_.Drop();
      return;
    }
    ArmLocked();
  }
  if (!*is_whole) return;
  if (!message.loans.empty()) {
    if (absl::Status borrowed = Borrow(&message); !borrowed.ok()) return Close(borrowed);
  }
  OnMessage(std::move(message));
}

absl::Status SocketConnection::Borrow(SocketMessage* message) {
  const pid_t sender = ProcessAt(fd_);
  std::vector<Payload>& payloads = message->frame.payloads;
  for (size_t i = 0; i < payloads.size(); ++i) {
    const auto& [address, num_bytes] = message->loans[i];
    if (address == 0) continue;
    absl::StatusOr<Payload> place = Place(*message, i, num_bytes);
    if (place->num_bytes() != num_bytes || num_bytes == 0) place = Payload::Allocate(num_bytes);
    WEIR_RETURN_IF_ERROR(place.status());
    WEIR_RETURN_IF_ERROR(ReadProcessMemory(sender, address, place->mutable_data(), num_bytes));
    payloads[i] = *std::move(place);
  }
  if (!OtherEndHasClosed(fd_)) return absl::OkStatus();
  return absl::UnavailableError("the other side has closed the connection");
}

void SocketConnection::Close(const absl::Status& reason) {
  const std::shared_ptr<SocketConnection> self = shared_from_this();
  std::deque<Outgoing> dropped[2];  // freed outside the lock
  std::optional<Outgoing> unfinished;
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    shutdown(fd_, SHUT_RDWR);
    if (id_ != 0) poller_.Remove(id_, fd_);
    dropped[0].swap(small_);
    dropped[1].swap(large_);
    unfinished.swap(unfinished_);
    if (!is_reading_) reader_.Drop();
  }
  OnClosed(reason);
}

void SocketConnection::ArmLocked() {
  if (id_ == 0) return;  // Start does it
  uint32_t wanted = 0;
  if (!is_reading_ && num_queued_bytes_ <= max_queued_bytes_) wanted |= EPOLLIN;
  if (!is_flushing_ && HasQueuedLocked() && !stream_->write_needs_input()) wanted |= EPOLLOUT;
  if ((wanted & EPOLLIN) != 0 && stream_->has_input() && !is_posted_) {
    is_posted_ = true;
    poller_.Post(id_);
  }
  if ((wanted & ~armed_) == 0) return;
  armed_ = wanted;
  poller_.Arm(id_, fd_, wanted);
}

}  // namespace weir
