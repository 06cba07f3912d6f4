#include "distributed/transport/host/host_listener.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "distributed/security.h"
#include "distributed/transport/call_errors.h"
#include "distributed/transport/handlers_call.h"
#include "distributed/transport/host/process_memory.h"
#include "distributed/transport/host/socket_connection.h"
#include "distributed/transport/host/unanswered_calls.h"
#include "distributed/transport/host/unix_socket.h"
#include "distributed/transport/pending_reply.h"
#include "distributed/transport/wire.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr uint32_t kMaxHelloBytes = 256;
constexpr size_t kMinProofBytes = 16;  // shorter ones could be found by accident
constexpr absl::Duration kAcceptAgain = absl::Milliseconds(100);

// Empty when the system has none to give.
std::string RandomName() {
  std::string bytes(kSecretBytes, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return "";
  return absl::BytesToHexString(bytes);
}

}  // namespace

class HostListener::Connection final : public SocketConnection {
 public:
  Connection(int fd, HostListener* listener)
      : SocketConnection(fd, *listener->poller_, SocketMessageReader(kMaxHelloBytes, 0)),
        listener_(listener),
        num_strangers_(listener->num_strangers_),
        client_(absl::StrCat("unix:", listener->name_.substr(0, 8))) {
    num_strangers_->fetch_add(1);
  }
  ~Connection() override {
    if (is_stranger_) num_strangers_->fetch_sub(1);
  }

  const std::string& client() const { return client_; }
  bool is_stranger() const { return is_stranger_; }
  void Forget(uint64_t call) { calls_.Remove(call); }
  void Compute(absl::AnyInvocable<void()> work) { poller().Compute(std::move(work)); }

 private:
  static constexpr size_t kMaxUnansweredCalls = 1 << 16;

  Payload Place(const SocketMessage& message, size_t index, size_t num_bytes) override;
  absl::Status Admit(const SocketMessage& message, SocketMessageReader* reader) override;
  absl::Status AdmitStranger(const SocketMessage& message, SocketMessageReader* reader);
  // Whether this process can read the client's memory, where `proof` is said to be.
  bool CanBorrow(uint64_t address, absl::string_view proof);
  void OnMessage(SocketMessage message) override;
  void OnClosed(const absl::Status& reason) override;
  void OnRequest(SocketMessage message);

  HostListener* const listener_;  // for messages, which come only while it listens
  const std::shared_ptr<std::atomic<int>> num_strangers_;
  const std::string client_;
  std::atomic<bool> is_stranger_{true};
  UnansweredCalls calls_{kMaxUnansweredCalls};
};

class HostListener::Call final : public IncomingCall {
 public:
  Call(std::shared_ptr<Connection> connection, uint64_t number, std::string method, absl::Time deadline,
       Frame request, int64_t max_reply_bytes)
      : connection_(std::move(connection)),
        number_(number),
        method_(std::move(method)),
        deadline_(deadline),
        request_(std::move(request)),
        max_reply_bytes_(max_reply_bytes) {}

  PendingReply& pending() { return pending_; }

  const std::string& method() const override { return method_; }
  Frame& request() override { return request_; }
  absl::Time deadline() const override { return deadline_; }
  std::string client() const override { return connection_->client(); }
  void Compute(absl::AnyInvocable<void()> work) override { connection_->Compute(std::move(work)); }

  void Reply(absl::StatusOr<Frame> reply) override {
    if (!pending_.BeginReply()) return;
    connection_->Forget(number_);
    absl::Status status = reply.status();
    if (reply.ok()) status = CheckReplySize(method_, reply->num_wire_bytes(), max_reply_bytes_);
    if (status.ok())
      status = CheckReplySize(method_, NumTextBytes(*reply), SocketMessageReader::kMaxTextBytes);
    SocketMessage message;
    message.kind = SocketMessage::Kind::kReply;
    message.call = number_;
    WireWriter text;
    text.StatusValue(status);
    message.text = text.Take();
    message.has_frame = status.ok();
    if (status.ok()) message.frame = *std::move(reply);
    connection_->Send(message);
  }

  void OnCancel(std::function<void()> callback) override { pending_.OnGivenUp(std::move(callback)); }

 private:
  const std::shared_ptr<Connection> connection_;
  const uint64_t number_;
  const std::string method_;
  const absl::Time deadline_;
  Frame request_;
  const int64_t max_reply_bytes_;
  PendingReply pending_;
};

Payload HostListener::Connection::Place(const SocketMessage& message, size_t index, size_t num_bytes) {
  if (listener_->placement_ == nullptr || message.kind != SocketMessage::Kind::kRequest) return Payload();
  WireReader reader(message.text);
  const absl::string_view method = reader.String();
  if (!IsFramedMethod(method)) return Payload();
  return listener_->placement_(method, message.frame.header, index, num_bytes);
}

absl::Status HostListener::Connection::Admit(const SocketMessage& message, SocketMessageReader* reader) {
  if (is_stranger_) return AdmitStranger(message, reader);
  if (message.kind == SocketMessage::Kind::kCancel) return absl::OkStatus();
  if (message.kind == SocketMessage::Kind::kRequest && message.has_frame) return calls_.Admit(message.call);
  return absl::InvalidArgumentError("the client sent what is no request");
}

absl::Status HostListener::Connection::AdmitStranger(const SocketMessage& message,
                                                     SocketMessageReader* reader) {
  WireReader hello(message.text);
  const absl::string_view secret = hello.String();
  const uint64_t address = hello.Unsigned();
  const absl::string_view proof = hello.String();
  if (message.kind != SocketMessage::Kind::kHello || !hello.Finish("a hello").ok() ||
      !TokensMatch(secret, listener_->secret_)) {
    return absl::UnauthenticatedError("whoever connected does not know the secret");
  }
  is_stranger_ = false;
  num_strangers_->fetch_sub(1);
  reader->set_limits(SocketMessageReader::kMaxTextBytes,
                     static_cast<uint64_t>(listener_->options_.max_message_bytes));
  const bool can_borrow = CanBorrow(address, proof);
  if (can_borrow) reader->AcceptLoans();
  WireWriter text;
  text.Unsigned(can_borrow ? 1 : 0);
  SocketMessage welcome;
  welcome.kind = SocketMessage::Kind::kWelcome;
  welcome.text = text.Take();
  Send(welcome);
  return absl::OkStatus();
}

bool HostListener::Connection::CanBorrow(uint64_t address, absl::string_view proof) {
  if (address == 0 || proof.size() < kMinProofBytes) return false;
  // Not only whether it may be read: the process that the system names may be another one, from before a
  // fork.
  std::string found(proof.size(), '\0');
  return ReadProcessMemory(ProcessAt(fd()), address, found.data(), found.size()).ok() && found == proof;
}

void HostListener::Connection::OnMessage(SocketMessage message) {
  if (message.kind == SocketMessage::Kind::kRequest) return OnRequest(std::move(message));
  if (message.kind == SocketMessage::Kind::kCancel) calls_.GiveUp(message.call);
}

void HostListener::Connection::OnRequest(SocketMessage message) {
  WireReader reader(message.text);
  const absl::string_view method = reader.String();
  const absl::Time deadline = reader.Deadline(ProcessNow());
  if (absl::Status whole = reader.Finish("a request"); !whole.ok()) return Close(whole);
  if (!IsFramedMethod(method)) {
    return Close(absl::InvalidArgumentError(absl::StrCat("the method ", method, " came through a socket")));
  }
  auto call = std::make_shared<Call>(std::static_pointer_cast<Connection>(shared_from_this()), message.call,
                                     std::string(method), deadline, std::move(message.frame),
                                     listener_->options_.max_message_bytes);
  const std::shared_ptr<PendingReply> reply(call, &call->pending());
  if (!calls_.Begin(message.call, reply)) return;
  listener_->OnCall(std::make_shared<HandlersCall>(std::move(call)));
}

void HostListener::Connection::OnClosed(const absl::Status&) { calls_.Close(); }

class HostListener::Acceptor final : public SocketPoller::Socket,
                                     public std::enable_shared_from_this<HostListener::Acceptor> {
 public:
  Acceptor(int fd, HostListener* listener) : fd_(fd), listener_(listener) {}
  ~Acceptor() override { close(fd_); }

  absl::Status Start() {
    absl::MutexLock lock(&mutex_);
    WEIR_ASSIGN_OR_RETURN(id_, listener_->poller_->Add(fd_, shared_from_this()));
    listener_->poller_->Arm(id_, fd_, EPOLLIN);
    return absl::OkStatus();
  }

  void Stop() {
    absl::MutexLock lock(&mutex_);
    is_stopped_ = true;
    shutdown(fd_, SHUT_RDWR);
    listener_->poller_->Remove(id_, fd_);
  }

  void OnReady(uint32_t) override {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const bool may_last =
        fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
    if (fd >= 0) listener_->OnConnected(fd);
    if (!may_last) return Arm();
    // The connection still waits. Arming at once would report it again and again, and keep a core busy.
    listener_->timers_.Schedule(ProcessNow() + kAcceptAgain, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Arm();
    });
  }

 private:
  void Arm() {
    absl::MutexLock lock(&mutex_);
    if (!is_stopped_) listener_->poller_->Arm(id_, fd_, EPOLLIN);
  }

  const int fd_;
  HostListener* const listener_;
  absl::Mutex mutex_;
  SocketPoller::Id id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

HostListener::HostListener(CallHandler handler, PayloadPlacement placement, TimerQueue& timers,
                           const HostTransportOptions& options)
    : handler_(std::move(handler)),
      placement_(std::move(placement)),
      timers_(timers),
      options_(options),
      name_(absl::StrCat(kSocketNamePrefix, RandomName())),
      secret_(RandomName()) {}

absl::StatusOr<std::unique_ptr<Listener>> HostListener::Start(Transport& network, const std::string& address,
                                                              CallHandler handler, PayloadPlacement placement,
                                                              TimerQueue& timers,
                                                              const HostTransportOptions& options) {
  std::unique_ptr<HostListener> listener(new HostListener(std::move(handler), placement, timers, options));
  // Where the system grants no socket the network does it all.
  if (!listener->OpenSocket().ok()) listener->acceptor_.reset();
  WEIR_ASSIGN_OR_RETURN(listener->network_,
                        network.Listen(
                            address,
                            [listener = listener.get()](std::shared_ptr<IncomingCall> call) {
                              listener->OnCall(std::move(call));
                            },
                            std::move(placement)));
  return listener;
}

HostListener::~HostListener() { Shutdown(); }

absl::Status HostListener::OpenSocket() {
  if (secret_.empty()) return absl::ResourceExhaustedError("the system gives no random numbers");
  WEIR_ASSIGN_OR_RETURN(poller_, SocketPoller::Start({.num_threads = options_.num_server_threads,
                                                      .max_threads = options_.max_server_threads},
                                                     options_.poll_before_sleep));
  WEIR_ASSIGN_OR_RETURN(const int fd, ListenAtUnixSocket(name_));
  acceptor_ = std::make_shared<Acceptor>(fd, this);
  return acceptor_->Start();
}

void HostListener::OnCall(std::shared_ptr<IncomingCall> call) {
  if (call->method() != kFindSocketMethod) return handler_(std::move(call));
  if (acceptor_ == nullptr) return call->Reply(absl::UnimplementedError("this listener has no socket"));
  WireWriter answer;
  answer.String(name_);
  answer.String(secret_);
  Frame frame;
  frame.header = answer.Take();
  call->Reply(std::move(frame));
}

void HostListener::OnConnected(int fd) {
  if (!IsOfSameUser(fd) || num_strangers_->load() >= kMaxStrangers) {
    close(fd);
    return;
  }
  const auto connection = std::make_shared<Connection>(fd, this);
  {
    absl::MutexLock lock(&mutex_);
    if (is_closing_ || !connection->Start().ok()) return;
    std::erase_if(connections_, [](const auto& earlier) { return earlier.expired(); });
    connections_.push_back(connection);
  }
  timers_.Schedule(ProcessNow() + options_.hello_timeout, [weak = std::weak_ptr<Connection>(connection)] {
    const auto late = weak.lock();
    if (late != nullptr && late->is_stranger()) late->Close(absl::DeadlineExceededError("no hello came"));
  });
}

void HostListener::Shutdown() {
  std::vector<std::weak_ptr<Connection>> connections;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(is_closing_, true)) return;
    connections.swap(connections_);
  }
  if (acceptor_ != nullptr) acceptor_->Stop();
  for (const auto& weak : connections) {
    if (const auto connection = weak.lock())
      connection->Close(absl::CancelledError("the listener has closed"));
  }
  if (network_ != nullptr) network_->Shutdown();
  if (poller_ != nullptr) poller_->Stop();
}

}  // namespace weir
