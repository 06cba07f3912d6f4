#include "distributed/transport/sockets/socket_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/transport/call_errors.h"
#include "distributed/transport/handlers_call.h"
#include "distributed/transport/host/process_memory.h"
#include "distributed/transport/host/unix_socket.h"
#include "distributed/transport/pending_reply.h"
#include "distributed/transport/socket_address.h"
#include "distributed/transport/sockets/socket_connection.h"
#include "distributed/transport/sockets/unanswered_calls.h"
#include "distributed/transport/tls/byte_stream.h"
#include "distributed/transport/tls/shared_key.h"
#include "distributed/transport/wire.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

constexpr size_t kNameBytes = 32;
constexpr size_t kMinProofBytes = 16;  // shorter ones could be found by accident

// Empty when the system has none to give.
std::string RandomName() { return absl::BytesToHexString(RandomBytes(kNameBytes)); }

}  // namespace

class SocketListener::Connection final : public SocketConnection {
 public:
  // `is_local`: the client is on this machine, and of this user.
  Connection(int fd, std::unique_ptr<ByteStream> stream, SocketListener* listener, bool is_local,
             std::string client)
      : SocketConnection(fd, std::move(stream), *listener->poller_,
                         SocketMessageReader(kMaxIntroductionBytes, 0), listener->options_.max_queued_bytes),
        listener_(listener),
        is_local_(is_local),
        client_(std::move(client)),
        on_refused_(listener->options_.on_refused),
        strangers_(listener->strangers_) {}
  ~Connection() override { strangers_->Remove(this); }

  const std::string& client() const { return client_; }
  void Forget(uint64_t call) { calls_.Remove(call); }
  void Compute(absl::AnyInvocable<void()> work) { poller().Compute(std::move(work)); }

 private:
  static constexpr size_t kMaxUnansweredCalls = 1 << 16;

  Payload Place(const SocketMessage& message, size_t index, size_t num_bytes) override;
  absl::Status Admit(const SocketMessage& message, SocketMessageReader* reader) override;
  absl::Status Challenge(const SocketMessage& hello);
  absl::Status Welcome(const SocketMessage& proof, SocketMessageReader* reader);
  // The error of a stranger that is sent away.
  static absl::Status Refuse();
  // Whether this client may send such a message.
  absl::Status Admits(absl::string_view method, absl::string_view header) const;
  // Whether this process can read the client's memory, where `proof` is said to be.
  bool CanBorrow(uint64_t address, absl::string_view proof);
  void OnMessage(SocketMessage message) override;
  void OnClosed(const absl::Status& reason) override;
  void OnRequest(SocketMessage message);

  SocketListener* const listener_;  // for messages, which come only while it listens
  const bool is_local_;
  const std::string client_;
  const OnRefusal on_refused_;
  const std::shared_ptr<Strangers> strangers_;
  // Of the thread that reads.
  enum class Stage { kNothing, kHello, kProof };
  Stage stage_ = Stage::kNothing;  // of the introduction, what came last
  Introduction introduction_;
  TicketHolder holder_;  // who the client is; set before its first request
  UnansweredCalls calls_{kMaxUnansweredCalls};
};

class SocketListener::Call final : public IncomingCall {
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

Payload SocketListener::Connection::Place(const SocketMessage& message, size_t index, size_t num_bytes) {
  if (listener_->placement_ == nullptr || message.kind != SocketMessage::Kind::kRequest) return Payload();
  // Nothing that a stranger sends is looked into: it is sent away when its message is whole.
  if (stage_ != Stage::kProof) return Payload();
  WireReader reader(message.text);
  const absl::string_view method = reader.String();
  // Not for a caller that may not send it.
  if (!IsFramedMethod(method) || !Admits(method, message.frame.header).ok()) return Payload();
  return listener_->placement_(method, message.frame.header, index, num_bytes);
}

absl::Status SocketListener::Connection::Admit(const SocketMessage& message, SocketMessageReader* reader) {
  if (stage_ == Stage::kNothing) return Challenge(message);
  if (stage_ == Stage::kHello) return Welcome(message, reader);
  if (message.kind == SocketMessage::Kind::kCancel) return absl::OkStatus();
  if (message.kind == SocketMessage::Kind::kRequest && message.has_frame) return calls_.Admit(message.call);
  return absl::InvalidArgumentError("the client sent what is no request");
}

absl::Status SocketListener::Connection::Refuse() {
  return absl::UnauthenticatedError("it does not know a key that this task tells its callers");
}

absl::Status SocketListener::Connection::Challenge(const SocketMessage& hello) {
  WireReader reader(hello.text);
  Ticket& ticket = introduction_.ticket;
  ticket.text = std::string(reader.String());
  introduction_.client_nonce = std::string(reader.String());
  introduction_.listener_nonce = RandomBytes(kNonceBytes);
  ticket.key = listener_->tickets_.KeyOf(ticket.text);
  if (hello.kind != SocketMessage::Kind::kHello || !reader.Finish("a hello").ok() || ticket.key.empty() ||
      introduction_.client_nonce.size() != kNonceBytes || introduction_.listener_nonce.empty()) {
    return Refuse();
  }
  stage_ = Stage::kHello;
  WireWriter text;
  text.String(introduction_.listener_nonce);
  text.String(introduction_.ListenersProof());
  SocketMessage challenge;
  challenge.kind = SocketMessage::Kind::kChallenge;
  challenge.text = text.Take();
  Send(challenge);
  return absl::OkStatus();
}

absl::Status SocketListener::Connection::Welcome(const SocketMessage& proof, SocketMessageReader* reader) {
  WireReader text(proof.text);
  const absl::string_view clients_proof = text.String();
  const uint64_t address = text.Unsigned();
  const absl::string_view memory = text.String();
  absl::StatusOr<TicketHolder> holder = Tickets::HolderOf(introduction_.ticket.text);
  if (proof.kind != SocketMessage::Kind::kProof || !text.Finish("a proof").ok() || !holder.ok() ||
      !introduction_.IsClientsProof(clients_proof)) {
    return Refuse();
  }
  // A ticket does not outlive its holder's right to call. Over the network it hears why.
  WEIR_RETURN_IF_ERROR(listener_->network_->CheckCaller(holder->mark));
  holder_ = *std::move(holder);
  introduction_ = Introduction();
  stage_ = Stage::kProof;
  strangers_->Remove(this);
  reader->set_limits(SocketMessageReader::kMaxTextBytes,
                     static_cast<uint64_t>(listener_->options_.max_message_bytes));
  const bool can_borrow = CanBorrow(address, memory);
  if (can_borrow) reader->AcceptLoans();
  WireWriter answer;
  answer.Unsigned(can_borrow ? 1 : 0);
  SocketMessage welcome;
  welcome.kind = SocketMessage::Kind::kWelcome;
  welcome.text = answer.Take();
  Send(welcome);
  return absl::OkStatus();
}

absl::Status SocketListener::Connection::Admits(absl::string_view method, absl::string_view header) const {
  const absl::Status admitted = listener_->network_->CheckCaller(holder_.mark);
  if (!admitted.ok()) return absl::Status(admitted.code(), absl::StrCat(method, ": ", admitted.message()));
  return listener_->options_.admits ? listener_->options_.admits(holder_.names, method, header)
                                    : absl::OkStatus();
}

bool SocketListener::Connection::CanBorrow(uint64_t address, absl::string_view proof) {
  if (!is_local_ || address == 0 || proof.size() < kMinProofBytes) return false;
  // Not only whether it may be read: the process that the system names may be another one, from before a
  // fork.
  std::string found(proof.size(), '\0');
  return ReadProcessMemory(ProcessAt(fd()), address, found.data(), found.size()).ok() && found == proof;
}

void SocketListener::Connection::OnMessage(SocketMessage message) {
  if (message.kind == SocketMessage::Kind::kRequest) return OnRequest(std::move(message));
  if (message.kind == SocketMessage::Kind::kCancel) calls_.GiveUp(message.call);
}

void SocketListener::Connection::OnRequest(SocketMessage message) {
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
  if (const absl::Status admitted = Admits(method, call->request().header); !admitted.ok()) {
    if (listener_->options_.on_refused) {
      listener_->options_.on_refused(Refusal::kCertificate, client_, admitted.message());
    }
    return call->Reply(admitted);
  }
  listener_->OnCall(std::make_shared<HandlersCall>(std::move(call)));
}

void SocketListener::Connection::OnClosed(const absl::Status& reason) {
  // Of a stranger that comes with TLS nothing else is heard.
  if (absl::IsUnauthenticated(reason) && on_refused_) {
    on_refused_(Refusal::kToken, client_, reason.message());
  }
  calls_.Close();
}

SocketListener::SocketListener(CallHandler handler, PayloadPlacement placement, TimerQueue& timers,
                               const SocketTransportOptions& options)
    : handler_(std::move(handler)),
      placement_(std::move(placement)),
      timers_(timers),
      options_(options),
      strangers_(std::make_shared<Strangers>(timers, options.hello_timeout, options.max_strangers)) {}

absl::StatusOr<std::unique_ptr<Listener>> SocketListener::Start(
    Transport& network, const std::string& address, CallHandler handler, PayloadPlacement placement,
    TimerQueue& timers, const SocketTransportOptions& options) {
  std::unique_ptr<SocketListener> listener(
      new SocketListener(std::move(handler), placement, timers, options));
  absl::StatusOr<std::unique_ptr<SocketPoller>> poller = SocketPoller::Start(
      {.num_threads = options.num_server_threads, .max_threads = options.max_server_threads},
      options.poll_before_sleep);
  // Where the system grants no sockets the network does it all.
  if (poller.ok() && listener->tickets_.are_good()) listener->poller_ = *std::move(poller);
  if (options.unix_sockets && !listener->OpenUnixSocket().ok()) listener->name_.clear();
  WEIR_ASSIGN_OR_RETURN(listener->network_,
                        network.Listen(
                            address,
                            [listener = listener.get()](std::shared_ptr<IncomingCall> call) {
                              listener->OnCall(std::move(call));
                            },
                            std::move(placement)));
  if (options.tcp_ports.has_value()) {
    WEIR_RETURN_IF_ERROR(listener->OpenTcpPort());
  } else {
    listener->tcp_port_ = kNoPort;
  }
  return listener;
}

SocketListener::~SocketListener() { Shutdown(); }

absl::Status SocketListener::OpenUnixSocket() {
  if (poller_ == nullptr) return absl::ResourceExhaustedError("this process can have no sockets");
  name_ = absl::StrCat(kSocketNamePrefix, RandomName());
  WEIR_ASSIGN_OR_RETURN(const int fd, ListenAtUnixSocket(name_));
  return Accept(fd);
}

absl::Status SocketListener::OpenTcpPort() {
  if (poller_ == nullptr) {
    tcp_port_ = kNoPort;
    return absl::OkStatus();
  }
  if (options_.encrypts_tcp) {
    WEIR_ASSIGN_OR_RETURN(
        tls_, TlsSettings::OfListener([this](absl::string_view ticket) { return tickets_.KeyOf(ticket); }));
  }
  WEIR_ASSIGN_OR_RETURN(const HostPort here, HostPort::Parse(address()));
  const absl::StatusOr<ListeningSockets> sockets = ListenAtOneOf(here.host, *options_.tcp_ports);
  const size_t num_before = acceptors_.size();
  absl::Status opened = sockets.status();
  if (sockets.ok()) {
    for (const int fd : sockets->fds) opened.Update(Accept(fd));
  }
  // A port of which nobody is told takes nobody in.
  for (; !opened.ok() && acceptors_.size() > num_before; acceptors_.pop_back()) acceptors_.back()->Stop();
  tcp_port_ = opened.ok() ? sockets->port : kNoPort;
  return options_.tcp_ports->first == 0 ? absl::OkStatus() : opened;  // ports that were asked for must do
}

absl::Status SocketListener::Accept(int listening_fd) {
  auto acceptor =
      std::make_shared<Acceptor>(listening_fd, *poller_, timers_, options_.max_descriptors,
                                 [this](int fd, const sockaddr_storage& client) { OnConnected(fd, client); });
  WEIR_RETURN_IF_ERROR(acceptor->Start());
  acceptors_.push_back(std::move(acceptor));
  return absl::OkStatus();
}

void SocketListener::OnCall(std::shared_ptr<IncomingCall> call) {
  if (call->method() != kFindSocketMethod) return handler_(std::move(call));
  TellSockets(*call);
}

void SocketListener::TellSockets(IncomingCall& call) const {
  const int port = tcp_port_;
  if (port == kNotKnown) return call.Reply(absl::UnavailableError("this listener has only begun to listen"));
  if (name_.empty() && port == kNoPort)
    return call.Reply(absl::UnimplementedError("this listener has no sockets"));
  TicketHolder holder = {.names = {}, .mark = call.caller_mark()};
  if (options_.admits) holder.names = call.caller_names();
  const absl::StatusOr<Ticket> ticket = tickets_.Give(holder);
  if (!ticket.ok()) return call.Reply(absl::UnimplementedError(ticket.status().message()));
  WireWriter answer;
  answer.String(name_);
  answer.Unsigned(static_cast<uint64_t>(port));
  answer.String(ticket->text);
  answer.String(ticket->key);
  Frame frame;
  frame.header = answer.Take();
  call.Reply(std::move(frame));
}

void SocketListener::OnConnected(int fd, const sockaddr_storage& client) {
  const bool is_local = client.ss_family == AF_UNIX;
  if (is_local && !IsOfSameUser(fd)) {
    close(fd);
    return;
  }
  if (!is_local) SetUpTcpSocket(fd);
  std::unique_ptr<ByteStream> stream = std::make_unique<PlainStream>(fd);
  if (!is_local && options_.encrypts_tcp) {
    absl::StatusOr<std::unique_ptr<ByteStream>> encrypted = tls_->NewStream(fd, "", "");
    if (!encrypted.ok()) {
      close(fd);
      return;
    }
    stream = *std::move(encrypted);
  }
  const auto connection = std::make_shared<Connection>(
      fd, std::move(stream), this, is_local,
      is_local ? absl::StrCat("unix:", name_.substr(0, 8)) : absl::StrCat("tcp:", AddressText(client)));
  strangers_->Add(connection, is_local ? "" : NetworkOf(client));
  absl::MutexLock lock(&mutex_);
  if (is_closing_ || !connection->Start().ok()) return;
  std::erase_if(connections_, [](const auto& earlier) { return earlier.expired(); });
  connections_.push_back(connection);
}

void SocketListener::Shutdown() {
  std::vector<std::weak_ptr<Connection>> connections;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(is_closing_, true)) return;
    connections.swap(connections_);
  }
  for (const auto& acceptor : acceptors_) acceptor->Stop();
  for (const auto& weak : connections) {
    if (const auto connection = weak.lock())
      connection->Close(absl::CancelledError("the listener has closed"));
  }
  if (network_ != nullptr) network_->Shutdown();
  if (poller_ != nullptr) poller_->Stop();
}

}  // namespace weir
