#include "distributed/transport/sockets/socket_connection.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

void SocketConnection::Send(const SocketMessage& message) {
  Outgoing outgoing{message.kind, message.call, EncodeSocketMessage(message), {}, 0, 0};
  for (size_t i = 0; i < message.frame.payloads.size(); ++i) {
    const bool is_lent = !message.loans.empty() && message.loans[i].address != 0;
    if (!is_lent) outgoing.payloads.push_back(message.frame.payloads[i]);
  }
  outgoing.num_bytes = outgoing.begin.size();
  for (const Payload& payload : outgoing.payloads) outgoing.num_bytes += payload.num_bytes();
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return;
    num_queued_bytes_ += outgoing.num_bytes;
    queue_.push_back(std::move(outgoing));
    if (is_flushing_ || (armed_ & EPOLLOUT) != 0) return;
    is_flushing_ = true;
  }
  Flush();
}

bool SocketConnection::Withdraw(uint64_t call) {
  Outgoing withdrawn;  // freed outside the lock
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(queue_.begin(), queue_.end(), [call](const Outgoing& message) {
    return message.kind == SocketMessage::Kind::kRequest && message.call == call;
  });
  if (found == queue_.end() || found->num_sent > 0) return false;
  num_queued_bytes_ -= found->num_bytes;
  withdrawn = std::move(*found);
  queue_.erase(found);
  return true;
}

// By the one thread that has set is_flushing_.
void SocketConnection::Flush() {
  while (true) {
    Outgoing message;
    {
      absl::MutexLock lock(&mutex_);
      if (is_closed_ || queue_.empty()) {
        is_flushing_ = false;
        if (!is_closed_) ArmLocked();  // reading may have waited for this
        return;
      }
      message = std::move(queue_.front());
      queue_.pop_front();
    }
    const Sent sent = Write(&message);
    if (sent == Sent::kFailed) {
      const int error = errno;
      Close(absl::UnavailableError(absl::StrCat("the connection broke: ", strerror(error))));
      continue;
    }
    absl::MutexLock lock(&mutex_);
    if (is_closed_) continue;
    if (sent == Sent::kWhole) {
      num_queued_bytes_ -= message.num_bytes;
      continue;
    }
    queue_.push_front(std::move(message));
    is_flushing_ = false;
    return ArmLocked();
  }
}

SocketConnection::Sent SocketConnection::Write(Outgoing* message) {
  while (message->num_sent < message->num_bytes) {
    iovec parts[kMaxPartsPerCall];
    int num_parts = 0;
    size_t skip = message->num_sent;
    const auto add = [&](const char* data, size_t num_bytes) {
      if (skip < num_bytes) parts[num_parts++] = {const_cast<char*>(data) + skip, num_bytes - skip};
      skip -= std::min(skip, num_bytes);
    };
    add(message->begin.data(), message->begin.size());
    for (size_t i = 0; i < message->payloads.size() && num_parts < kMaxPartsPerCall; ++i) {
      add(message->payloads[i].data(), message->payloads[i].num_bytes());
    }
    msghdr header{};
    header.msg_iov = parts;
    header.msg_iovlen = num_parts;
    const ssize_t count = sendmsg(fd_, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      message->num_sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Sent::kNotYet;
    } else if (errno != EINTR) {
      return Sent::kFailed;
    }
  }
  return Sent::kWhole;
}

void SocketConnection::OnReady(uint32_t events) {
  bool may_read = false, may_flush = false;
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return;
    armed_ = 0;
    if ((events & ~EPOLLOUT) != 0 && !is_reading_) may_read = is_reading_ = true;
    if ((events & ~EPOLLIN) != 0 && !is_flushing_ && !queue_.empty()) may_flush = is_flushing_ = true;
    ArmLocked();
  }
  if (may_flush) Flush();
  if (may_read) ReadOne();
}

void SocketConnection::ReadOne() {
  absl::StatusOr<bool> is_whole =
      reader_.Read(fd_, [this](const SocketMessage& message, size_t index, size_t num_bytes) {
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
      reader_.Take();  // what will never be whole
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
  std::deque<Outgoing> dropped;  // freed outside the lock
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    shutdown(fd_, SHUT_RDWR);
    if (id_ != 0) poller_.Remove(id_, fd_);
    dropped.swap(queue_);
    if (!is_reading_) reader_.Take();
  }
  OnClosed(reason);
}

void SocketConnection::ArmLocked() {
  uint32_t wanted = 0;
  if (!is_reading_ && num_queued_bytes_ <= max_queued_bytes_) wanted |= EPOLLIN;
  if (!is_flushing_ && !queue_.empty()) wanted |= EPOLLOUT;
  if ((wanted & ~armed_) == 0) return;
  armed_ = wanted;
  poller_.Arm(id_, fd_, wanted);
}

}  // namespace weir
