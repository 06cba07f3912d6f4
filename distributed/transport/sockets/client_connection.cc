#include "distributed/transport/sockets/client_connection.h"

#include <sys/random.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "distributed/transport/call_errors.h"
#include "distributed/transport/tls/shared_key.h"
#include "distributed/transport/wire.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {

ClientConnection::ClientConnection(int fd, std::unique_ptr<ByteStream> stream, bool is_local,
                                   SocketPoller& poller, TimerQueue& timers, TaskName peer,
                                   std::string address, const SocketTransportOptions& options, OnEnd on_end)
    : SocketConnection(fd, std::move(stream), poller, SocketMessageReader(kMaxIntroductionBytes, 0),
                       /*max_queued_bytes=*/SIZE_MAX),
      is_local_(is_local),
      lent_bytes_(options.lent_bytes),
      max_abandoned_bytes_(options.max_abandoned_bytes),
      hello_timeout_(options.hello_timeout),
      max_message_bytes_(static_cast<uint64_t>(options.max_message_bytes)),
      timers_(timers),
      peer_(std::move(peer)),
      address_(std::move(address)),
      on_end_(std::move(on_end)) {}

absl::Status ClientConnection::Begin(Ticket ticket) {
  introduction_.ticket = std::move(ticket);
  introduction_.client_nonce = RandomBytes(kNonceBytes);
  if (introduction_.client_nonce.empty())
    return absl::ResourceExhaustedError("the system has no random numbers to give");
  // Before anything is read: a socket tells once why it could not connect. A reader at its side could take
  // that from the writer, and both would see a connection that ended for no reason.
  SayHello();
  WEIR_RETURN_IF_ERROR(Start());
  timers_.Schedule(ProcessNow() + hello_timeout_,
                   [weak = std::weak_ptr<SocketConnection>(shared_from_this()), this] {
                     const auto alive = weak.lock();
                     if (alive == nullptr || is_welcome()) return;
                     alive->Close(absl::DeadlineExceededError(
                         absl::StrCat("it has not answered for ", absl::FormatDuration(hello_timeout_))));
                   });
  return absl::OkStatus();
}

void ClientConnection::SayHello() {
  WireWriter text;
  text.String(introduction_.ticket.text);
  text.String(introduction_.client_nonce);
  SocketMessage hello;
  hello.kind = SocketMessage::Kind::kHello;
  hello.text = text.Take();
  Send(hello);
}

absl::Status ClientConnection::Admit(const SocketMessage& message, SocketMessageReader* reader) {
  if (stage_ == Stage::kWelcome && message.kind == SocketMessage::Kind::kReply) return absl::OkStatus();
  if (stage_ == Stage::kHello && message.kind == SocketMessage::Kind::kChallenge) {
    stage_ = Stage::kProof;
    return AnswerChallenge(message);
  }
  if (stage_ == Stage::kProof && message.kind == SocketMessage::Kind::kWelcome) {
    stage_ = Stage::kWelcome;
    reader->set_limits(SocketMessageReader::kMaxTextBytes, max_message_bytes_);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the server sent what is no reply");
}

absl::Status ClientConnection::AnswerChallenge(const SocketMessage& challenge) {
  WireReader reader(challenge.text);
  introduction_.listener_nonce = std::string(reader.String());
  const absl::string_view proof = reader.String();
  if (!reader.Finish("a challenge").ok() || introduction_.listener_nonce.size() != kNonceBytes ||
      !introduction_.IsListenersProof(proof)) {
    return absl::UnauthenticatedError("who listens there does not know the key that this task was told");
  }
  const bool may_lend = is_local_ && lent_bytes_ > 0 &&
                        getrandom(proof_.data(), proof_.size(), 0) == static_cast<ssize_t>(proof_.size());
  WireWriter text;
  text.String(introduction_.ClientsProof());
  text.Unsigned(may_lend ? reinterpret_cast<uintptr_t>(proof_.data()) : 0);
  text.String(absl::string_view(proof_.data(), proof_.size()));
  SocketMessage answer;
  answer.kind = SocketMessage::Kind::kProof;
  answer.text = text.Take();
  Send(answer);
  return absl::OkStatus();
}

void ClientConnection::LendLocked(SocketMessage* request) {
  const std::vector<Payload>& payloads = request->frame.payloads;
  const auto is_large = [this](const Payload& payload) { return payload.num_bytes() >= lent_bytes_; };
  if (!may_lend_ || std::none_of(payloads.begin(), payloads.end(), is_large)) return;
  for (const Payload& payload : payloads) {
    const uint64_t address = is_large(payload) ? reinterpret_cast<uintptr_t>(payload.data()) : 0;
    request->loans.push_back({address, payload.num_bytes()});
  }
  lent_[request->call].payloads = payloads;
}

std::shared_ptr<OutgoingCall> ClientConnection::Call(absl::string_view method, Frame* request,
                                                     const CallOptions& options, Done* done) {
  SocketMessage message;
  message.kind = SocketMessage::Kind::kRequest;
  WireWriter text;
  text.String(method);
  text.Deadline(options.deadline, ProcessNow());
  message.text = text.Take();
  message.has_frame = true;
  message.frame = std::move(*request);
  {
    absl::MutexLock lock(&mutex_);
    if (!is_open_ || !is_welcome_) {
      *request = std::move(message.frame);
      return nullptr;
    }
    message.call = next_call_++;
    pending_[message.call] = {std::string(method), ProcessNow(), options.deadline, std::move(*done)};
    if (options.deadline != absl::InfiniteFuture()) deadlines_.emplace(options.deadline, message.call);
    LendLocked(&message);
  }
  Send(message);
  if (!NoteSent(message.call)) CancelRequest(message.call);
  WakeAtFirstDeadline();
  return std::make_shared<Handle>(std::static_pointer_cast<ClientConnection>(shared_from_this()),
                                  message.call);
}

bool ClientConnection::NoteSent(uint64_t call) {
  absl::MutexLock lock(&mutex_);
  if (given_up_early_.erase(call) > 0) return false;
  if (const auto it = pending_.find(call); it != pending_.end()) it->second.was_sent = true;
  return true;
}

bool ClientConnection::TakeLocked(uint64_t call, Pending* pending) {
  auto it = pending_.find(call);
  if (it == pending_.end()) return false;
  deadlines_.erase({it->second.deadline, call});
  *pending = std::move(it->second);
  pending_.erase(it);
  ++num_ending_;
  return true;
}

void ClientConnection::End(Pending pending, absl::StatusOr<Frame> result) {
  std::exchange(pending.done, nullptr)(std::move(result));
  absl::MutexLock lock(&mutex_);
  --num_ending_;
}

void ClientConnection::Fail(Pending pending, const absl::Status& reason) {
  const absl::Status status =
      DescribeCallError(peer_, address_, pending.method, reason, ProcessNow() - pending.started);
  End(std::move(pending), status);
}

void ClientConnection::GiveUp(uint64_t call, const absl::Status& reason) {
  Pending pending;
  {
    absl::MutexLock lock(&mutex_);
    if (!TakeLocked(call, &pending)) return;
    // A cancellation must not overtake its request: nothing would cancel that any more.
    if (!pending.was_sent) given_up_early_.insert(call);
  }
  if (pending.was_sent) CancelRequest(call);
  Fail(std::move(pending), reason);
}

void ClientConnection::CancelRequest(uint64_t call) {
  if (Withdraw(call)) {
    TakeLoans(call);
    return;
  }
  SocketMessage cancel;
  cancel.kind = SocketMessage::Kind::kCancel;
  cancel.call = call;
  Send(cancel);
  if (!Abandon(call)) Close(absl::UnavailableError("the peer keeps too much of calls that were given up"));
}

void ClientConnection::OnMessage(SocketMessage message) {
  WireReader reader(message.text);
  if (message.kind == SocketMessage::Kind::kWelcome) {
    absl::MutexLock lock(&mutex_);
    may_lend_ = reader.Unsigned() == 1;
    is_welcome_ = true;
    return;
  }
  if (message.kind != SocketMessage::Kind::kReply) return;
  const std::vector<Payload> returned = TakeLoans(message.call);
  Pending pending;
  if (!Take(message.call, &pending)) return;  // it was given up meanwhile
  const absl::Status status = reader.StatusValue();
  const absl::Status whole = reader.Finish("the status of a reply");
  if (!whole.ok()) return Fail(std::move(pending), absl::InternalError(whole.message()));
  if (!status.ok()) return End(std::move(pending), status);
  End(std::move(pending), std::move(message.frame));
}

std::vector<Payload> ClientConnection::TakeLoans(uint64_t call) {
  absl::MutexLock lock(&mutex_);
  auto lent = lent_.extract(call);
  if (lent.empty()) return {};
  num_abandoned_bytes_ -= lent.mapped().num_abandoned_bytes;
  return std::move(lent.mapped().payloads);
}

bool ClientConnection::Abandon(uint64_t call) {
  absl::MutexLock lock(&mutex_);
  const auto lent = lent_.find(call);
  if (lent == lent_.end()) return true;
  size_t& num_bytes = lent->second.num_abandoned_bytes;
  for (const Payload& payload : lent->second.payloads) num_bytes += payload.num_bytes();
  num_abandoned_bytes_ += num_bytes;
  return num_abandoned_bytes_ <= max_abandoned_bytes_;
}

void ClientConnection::OnClosed(const absl::Status& reason) {
  absl::flat_hash_map<uint64_t, Pending> lost;
  absl::flat_hash_map<uint64_t, Lent> returned;
  bool was_welcome = false;
  {
    absl::MutexLock lock(&mutex_);
    is_open_ = false;
    returned.swap(lent_);
    lost.swap(pending_);
    deadlines_.clear();
    was_welcome = is_welcome_;
    num_ending_ += static_cast<int>(lost.size()) + 1;
  }
  if (on_end_) on_end_(was_welcome, reason);
  for (auto& [call, pending] : lost) Fail(std::move(pending), reason);
  absl::MutexLock lock(&mutex_);
  --num_ending_;
}

void ClientConnection::WakeAtFirstDeadline() {
  absl::Time first;
  {
    absl::MutexLock lock(&mutex_);
    if (deadlines_.empty() || deadlines_.begin()->first >= wakes_at_) return;
    first = wakes_at_ = deadlines_.begin()->first;
  }
  const auto self = std::static_pointer_cast<ClientConnection>(shared_from_this());
  timers_.Schedule(first, [connection = std::weak_ptr<ClientConnection>(self)] {
    if (const auto alive = connection.lock()) alive->EndOverdue();
  });
}

void ClientConnection::EndOverdue() {
  std::vector<uint64_t> overdue;
  {
    absl::MutexLock lock(&mutex_);
    wakes_at_ = absl::InfiniteFuture();
    const absl::Time now = ProcessNow();
    for (const auto& [deadline, call] : deadlines_) {
      if (deadline > now) break;
      overdue.push_back(call);
    }
  }
  for (const uint64_t call : overdue) GiveUp(call, absl::DeadlineExceededError(""));
  WakeAtFirstDeadline();
}

}  // namespace weir
