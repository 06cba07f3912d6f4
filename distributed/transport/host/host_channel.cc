#include "distributed/transport/host/host_channel.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/transport/call_errors.h"
#include "distributed/transport/host/socket_connection.h"
#include "distributed/transport/host/unix_socket.h"
#include "distributed/transport/wire.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

constexpr absl::Duration kAskTimeout = absl::Seconds(10);
// A listener whose socket is out of reach is asked this many times less often.
constexpr int kRefusedFactor = 100;

}  // namespace

// The calls that have been sent through one socket and not been answered.
class HostChannel::Connection final : public SocketConnection {
 public:
  Connection(int fd, SocketPoller& poller, TimerQueue& timers, TaskName peer, std::string address,
             const HostTransportOptions& options)
      : SocketConnection(fd, poller,
                         SocketMessageReader(SocketMessageReader::kMaxTextBytes,
                                             static_cast<uint64_t>(options.max_message_bytes))),
        lent_bytes_(options.lent_bytes),
        max_abandoned_bytes_(options.max_abandoned_bytes),
        timers_(timers),
        peer_(std::move(peer)),
        address_(std::move(address)) {}

  bool is_open() const {
    absl::MutexLock lock(&mutex_);
    return is_open_;
  }
  // It may carry calls.
  bool is_welcome() const {
    absl::MutexLock lock(&mutex_);
    return is_open_ && is_welcome_;
  }

  void SayHello(absl::string_view secret);

  // Null, with request and done untouched, when the connection is closed or the server has not welcomed it.
  // The server may never do so: it may have no descriptors left, or too many connections that wait.
  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame* request, const CallOptions& options,
                                     Done* done);

  // Closed, and every `done` has returned.
  bool is_over() const {
    absl::MutexLock lock(&mutex_);
    return IsOverLocked();
  }
  // Waits until it is over. Another thread may have closed it, and not have called OnClosed yet.
  void CloseAndWait(const absl::Status& reason) {
    Close(reason);
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Connection::IsOverLocked));
  }

 private:
  struct Pending {
    std::string method;
    absl::Time started;
    absl::Time deadline;
    Done done;
  };
  struct Lent {
    std::vector<Payload> payloads;
    size_t num_abandoned_bytes = 0;  // once the call has been given up
  };
  class Handle final : public OutgoingCall {
   public:
    Handle(std::shared_ptr<Connection> connection, uint64_t call)
        : connection_(std::move(connection)), call_(call) {}
    void Cancel() override { connection_->GiveUp(call_, absl::CancelledError()); }

   private:
    const std::shared_ptr<Connection> connection_;
    const uint64_t call_;
  };

  Payload Place(const SocketMessage&, size_t, size_t) override { return Payload(); }
  absl::Status Admit(const SocketMessage& message, SocketMessageReader*) override {
    if (message.kind == SocketMessage::Kind::kReply || message.kind == SocketMessage::Kind::kWelcome)
      return absl::OkStatus();
    return absl::InvalidArgumentError("the server sent what is no reply");
  }
  void OnMessage(SocketMessage message) override;
  void OnClosed(const absl::Status& reason) override;

  bool IsOverLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !is_open_ && num_ending_ == 0; }
  // Fills in the loans of a request.
  void LendLocked(SocketMessage* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What was lent for a call, for the caller to free.
  std::vector<Payload> TakeLoans(uint64_t call);
  // A call that was given up keeps what was lent for it; once. False when that is too much with the others.
  bool Abandon(uint64_t call);

  // False when the call is over already.
  bool Take(uint64_t call, Pending* pending);
  // An error that the transport raises itself.
  void Fail(Pending pending, const absl::Status& reason);
  void End(Pending pending, absl::StatusOr<Frame> result);
  // Ends a call on this side and tells the other.
  void GiveUp(uint64_t call, const absl::Status& reason);
  void WakeAtFirstDeadline();
  void EndOverdue();

  const size_t lent_bytes_;
  const size_t max_abandoned_bytes_;
  TimerQueue& timers_;
  const TaskName peer_;
  const std::string address_;
  std::array<char, 16> proof_{};  // the server shows that it can read this memory by finding it here
  mutable absl::Mutex mutex_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_welcome_ ABSL_GUARDED_BY(mutex_) = false;
  bool may_lend_ ABSL_GUARDED_BY(mutex_) = false;
  // Payloads that the server may be reading. They stay until it has answered, even if the call was given up.
  absl::flat_hash_map<uint64_t, Lent> lent_ ABSL_GUARDED_BY(mutex_);
  size_t num_abandoned_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_ending_ ABSL_GUARDED_BY(mutex_) = 0;  // taken, and `done` has not returned
  uint64_t next_call_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Time, uint64_t>> deadlines_ ABSL_GUARDED_BY(mutex_);  // those that are finite
  absl::Time wakes_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

void HostChannel::Connection::SayHello(absl::string_view secret) {
  const bool may_lend =
      lent_bytes_ > 0 && getrandom(proof_.data(), proof_.size(), 0) == static_cast<ssize_t>(proof_.size());
  WireWriter text;
  text.String(secret);
  text.Unsigned(may_lend ? reinterpret_cast<uintptr_t>(proof_.data()) : 0);
  text.String(absl::string_view(proof_.data(), proof_.size()));
  SocketMessage hello;
  hello.kind = SocketMessage::Kind::kHello;
  hello.text = text.Take();
  Send(hello);
}

void HostChannel::Connection::LendLocked(SocketMessage* request) {
  const std::vector<Payload>& payloads = request->frame.payloads;
  const auto is_large = [this](const Payload& payload) { return payload.num_bytes() >= lent_bytes_; };
  if (!may_lend_ || std::none_of(payloads.begin(), payloads.end(), is_large)) return;
  for (const Payload& payload : payloads) {
    const uint64_t address = is_large(payload) ? reinterpret_cast<uintptr_t>(payload.data()) : 0;
    request->loans.push_back({address, payload.num_bytes()});
  }
  lent_[request->call].payloads = payloads;
}

std::shared_ptr<OutgoingCall> HostChannel::Connection::Call(absl::string_view method, Frame* request,
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
  WakeAtFirstDeadline();
  return std::make_shared<Handle>(std::static_pointer_cast<Connection>(shared_from_this()), message.call);
}

bool HostChannel::Connection::Take(uint64_t call, Pending* pending) {
  absl::MutexLock lock(&mutex_);
  auto it = pending_.find(call);
  if (it == pending_.end()) return false;
  deadlines_.erase({it->second.deadline, call});
  *pending = std::move(it->second);
  pending_.erase(it);
  ++num_ending_;
  return true;
}

void HostChannel::Connection::End(Pending pending, absl::StatusOr<Frame> result) {
  std::exchange(pending.done, nullptr)(std::move(result));
  absl::MutexLock lock(&mutex_);
  --num_ending_;
}

void HostChannel::Connection::Fail(Pending pending, const absl::Status& reason) {
  const absl::Status status =
      DescribeCallError(peer_, address_, pending.method, reason, ProcessNow() - pending.started);
  End(std::move(pending), status);
}

void HostChannel::Connection::GiveUp(uint64_t call, const absl::Status& reason) {
  Pending pending;
  if (!Take(call, &pending)) return;
  if (Withdraw(call)) {
    TakeLoans(call);
  } else {
    SocketMessage cancel;
    cancel.kind = SocketMessage::Kind::kCancel;
    cancel.call = call;
    Send(cancel);
    if (!Abandon(call)) Close(absl::UnavailableError("the peer keeps too much of calls that were given up"));
  }
  Fail(std::move(pending), reason);
}

void HostChannel::Connection::OnMessage(SocketMessage message) {
  WireReader reader(message.text);
  if (message.kind == SocketMessage::Kind::kWelcome) {
    absl::MutexLock lock(&mutex_);
    may_lend_ = reader.Unsigned() == 1;
    is_welcome_ = true;
    return;
  }
  const std::vector<Payload> returned = TakeLoans(message.call);
  Pending pending;
  if (!Take(message.call, &pending)) return;  // it was given up meanwhile
  const absl::Status status = reader.StatusValue();
  const absl::Status whole = reader.Finish("the status of a reply");
  if (!whole.ok()) return Fail(std::move(pending), absl::InternalError(whole.message()));
  if (!status.ok()) return End(std::move(pending), status);
  End(std::move(pending), std::move(message.frame));
}

std::vector<Payload> HostChannel::Connection::TakeLoans(uint64_t call) {
  absl::MutexLock lock(&mutex_);
  auto lent = lent_.extract(call);
  if (lent.empty()) return {};
  num_abandoned_bytes_ -= lent.mapped().num_abandoned_bytes;
  return std::move(lent.mapped().payloads);
}

bool HostChannel::Connection::Abandon(uint64_t call) {
  absl::MutexLock lock(&mutex_);
  const auto lent = lent_.find(call);
  if (lent == lent_.end()) return true;
  size_t& num_bytes = lent->second.num_abandoned_bytes;
  for (const Payload& payload : lent->second.payloads) num_bytes += payload.num_bytes();
  num_abandoned_bytes_ += num_bytes;
  return num_abandoned_bytes_ <= max_abandoned_bytes_;
}

void HostChannel::Connection::OnClosed(const absl::Status& reason) {
  absl::flat_hash_map<uint64_t, Pending> lost;
  absl::flat_hash_map<uint64_t, Lent> returned;
  {
    absl::MutexLock lock(&mutex_);
    is_open_ = false;
    returned.swap(lent_);
    lost.swap(pending_);
    deadlines_.clear();
    num_ending_ += static_cast<int>(lost.size());
  }
  for (auto& [call, pending] : lost) Fail(std::move(pending), reason);
}

void HostChannel::Connection::WakeAtFirstDeadline() {
  absl::Time first;
  {
    absl::MutexLock lock(&mutex_);
    if (deadlines_.empty() || deadlines_.begin()->first >= wakes_at_) return;
    first = wakes_at_ = deadlines_.begin()->first;
  }
  const auto self = std::static_pointer_cast<Connection>(shared_from_this());
  timers_.Schedule(first, [connection = std::weak_ptr<Connection>(self)] {
    if (const auto alive = connection.lock()) alive->EndOverdue();
  });
}

void HostChannel::Connection::EndOverdue() {
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

HostChannel::HostChannel(std::unique_ptr<Channel> network, SocketPoller& poller, TimerQueue& timers,
                         const HostTransportOptions& options)
    : peer_(network->peer()),
      address_(network->address()),
      poller_(poller),
      timers_(timers),
      options_(options),
      network_(std::move(network)) {}

HostChannel::~HostChannel() {
  network_.reset();               // nobody asks for a socket any more
  absl::MutexLock lock(&mutex_);  // only for the annotations: no other thread is left
  if (connection_ != nullptr) closing_.push_back(std::move(connection_));
  for (const auto& connection : closing_) connection->CloseAndWait(absl::CancelledError());
}

bool HostChannel::uses_socket() const {
  const auto connection = FindConnection();
  return connection != nullptr && connection->is_welcome();
}

std::shared_ptr<HostChannel::Connection> HostChannel::FindConnection() const {
  absl::MutexLock lock(&mutex_);
  return connection_;
}

std::shared_ptr<OutgoingCall> HostChannel::Call(absl::string_view method, Frame request,
                                                const CallOptions& options, Done done) {
  if (!IsFramedMethod(method) || NumTextBytes(request) > SocketMessageReader::kMaxTextBytes)
    return network_->Call(method, std::move(request), options, std::move(done));
  if (const auto connection = FindConnection()) {
    absl::Status size = CheckRequestSize(peer_, method, request.num_wire_bytes(), options_.max_message_bytes);
    if (!size.ok()) {
      done(std::move(size));
      return std::make_shared<CallThatIsOver>();
    }
    if (auto call = connection->Call(method, &request, options, &done)) return call;
  }
  AskForSocket();
  return network_->Call(method, std::move(request), options, std::move(done));
}

void HostChannel::AskForSocket() {
  const absl::Time now = ProcessNow();
  {
    absl::MutexLock lock(&mutex_);
    if (is_asking_ || now < ask_again_ || (connection_ != nullptr && connection_->is_open())) return;
    is_asking_ = true;
    ask_again_ = now + options_.retry_delay;
  }
  network_->Call(kFindSocketMethod, Frame(), {.deadline = now + kAskTimeout},
                 [this](absl::StatusOr<Frame> answer) { OnAnswer(answer); });
}

void HostChannel::OnAnswer(const absl::StatusOr<Frame>& answer) {
  std::shared_ptr<Connection> connection;
  bool may_work_later = true;
  if (answer.ok()) {
    WireReader reader(answer->header);
    const absl::string_view name = reader.String(), secret = reader.String();
    const absl::Status whole = reader.Finish("the name of a socket");
    absl::StatusOr<std::shared_ptr<Connection>> connected =
        whole.ok() ? Connect(name, secret) : absl::StatusOr<std::shared_ptr<Connection>>(whole);
    if (connected.ok()) connection = *std::move(connected);
    // The listener is on another machine, of another user, or has no socket: that is unlikely to change soon.
    may_work_later = connected.ok();
  }
  absl::MutexLock lock(&mutex_);
  is_asking_ = false;
  if (!may_work_later) ask_again_ = ProcessNow() + kRefusedFactor * options_.retry_delay;
  if (connection == nullptr) return;
  std::erase_if(closing_, [](const auto& earlier) { return earlier->is_over(); });
  if (connection_ != nullptr) closing_.push_back(std::move(connection_));
  connection_ = std::move(connection);
}

absl::StatusOr<std::shared_ptr<HostChannel::Connection>> HostChannel::Connect(absl::string_view name,
                                                                              absl::string_view secret) {
  if (!absl::StartsWith(name, kSocketNamePrefix))  // never connects to another program's socket
    return absl::InvalidArgumentError("the name of a socket that is not a listener's");
  WEIR_ASSIGN_OR_RETURN(const int fd, ConnectToUnixSocket(name));
  auto connection = std::make_shared<Connection>(fd, poller_, timers_, peer_, address_, options_);
  WEIR_RETURN_IF_ERROR(connection->Start());
  connection->SayHello(secret);
  return connection;
}

bool UsesSocket(const Channel& channel) {
  const auto* host = dynamic_cast<const HostChannel*>(&channel);
  return host != nullptr && host->uses_socket();
}

}  // namespace weir
