// Implementation notes. A call goes through these events of the completion queue: accepted, read, sent; and
// `over` (AsyncNotifyWhenDone) at any time after the first, when the client is gone or has everything. gRPC
// forbids starting anything on a queue that was shut down, so after `over` a call starts nothing (its mutex
// decides), and the queue is shut down only when all accepted calls are over. A call object lives while an
// event is pending or the handler's side holds it.
#include "distributed/transport/grpc/grpc_listener.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/cluster_spec.h"
#include "distributed/transport/call_errors.h"
#include "distributed/transport/grpc/bulk_arguments.h"
#include "distributed/transport/grpc/byte_buffer.h"
#include "distributed/transport/grpc/health_check.h"
#include "distributed/transport/grpc/metadata_keys.h"
#include "distributed/transport/handlers_call.h"
#include "distributed/transport/pending_reply.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

constexpr int kMaxStreams = 10'000;         // of a connection; a step that waits has one open
constexpr int kMaxMetadataBytes = 8 << 10;  // of a call: the token and gRPC's own
constexpr int kHandshakeMilliseconds = 20'000;
// gRPC looks at everything that it has read before it does anything else for the connection. A megabyte has
// room for 36,000 calls (rapid_resets.h); a large message takes as long in small pieces.
constexpr int kReadBytes = 32 << 10;

bool IsReadChunk(absl::string_view name) {
  return name == GRPC_ARG_TCP_READ_CHUNK_SIZE || name == GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE;
}

std::vector<std::string> NamesOfCertificate(const grpc::AuthContext& caller) {
  std::vector<std::string> names;
  if (!caller.IsPeerAuthenticated()) return names;
  for (const grpc::string_ref& name : caller.FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)) {
    names.emplace_back(name.data(), name.size());
  }
  return names;
}

ConnectionGate::Options GateOptions(const GrpcOptions& options) {
  ConnectionGate::Options gate;
  gate.token = options.security.token;
  gate.is_encrypted = options.security.uses_tls();
  gate.max_streams = kMaxStreams;
  gate.max_header_bytes = kMaxMetadataBytes;
  gate.max_strangers = options.max_strangers;
  gate.max_descriptors = options.max_descriptors;
  gate.is_serving = options.is_serving;
  gate.silence = options.keepalive_timeout;
  gate.on_refused = options.on_refused;
  return gate;
}

}  // namespace

class GrpcListener::ServedCall final : public IncomingCall, public std::enable_shared_from_this<ServedCall> {
 public:
  explicit ServedCall(GrpcListener* listener)
      : listener_(listener), poller_(listener->poller_.get()), stream_(&context_) {}

  void Accept() {
    context_.AsyncNotifyWhenDone(Expect(&over_));
    listener_->service_.RequestCall(&context_, &stream_, listener_->queue_.get(), listener_->queue_.get(),
                                    Expect(&accepted_));
  }

  const std::string& method() const override { return context_.method(); }
  Frame& request() override { return request_; }
  absl::Time deadline() const override { return deadline_; }
  std::string client() const override { return context_.peer(); }
  std::vector<std::string> caller_names() const override {
    return NamesOfCertificate(*context_.auth_context());
  }
  std::string caller_mark() const override {
    if (listener_->revoked_ == nullptr) return "";
    const auto certificates = context_.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (certificates.empty()) return "";
    return RevocationList::MarkOf(absl::string_view(certificates[0].data(), certificates[0].size()));
  }

  void Compute(absl::AnyInvocable<void()> work) override { poller_->Compute(std::move(work)); }

  void Reply(absl::StatusOr<Frame> reply) override {
    if (!pending_.BeginReply()) return;
    absl::MutexLock lock(&mutex_);
    if (!is_over_) SendLocked(reply);
  }

  void OnCancel(std::function<void()> callback) override { pending_.OnGivenUp(std::move(callback)); }

 private:
  // One kind of event; which one is known by its address.
  class Event final : public CompletionEvent {
   public:
    using Method = void (ServedCall::*)(bool ok);
    explicit Event(Method method) : method_(method) {}
    void OnCompletion(bool ok) override {
      const std::shared_ptr<ServedCall> call = std::move(call_);
      (call.get()->*method_)(ok);
    }
    std::shared_ptr<ServedCall> call_;  // while the event is pending

   private:
    const Method method_;
  };

  void* Expect(Event* event) {
    event->call_ = shared_from_this();
    return static_cast<CompletionEvent*>(event);
  }

  void OnAccepted(bool ok) {
    if (!ok) {  // the listener closes: `over` will not come for this one
      over_.call_.reset();
      return listener_->OnCallOver();
    }
    listener_->AcceptNext();
    if (const auto deadline = context_.deadline(); deadline != std::chrono::system_clock::time_point::max()) {
      deadline_ = ProcessNow() + (absl::FromChrono(deadline) - absl::Now());
    }
    // Without reading what is asked: who asks may be anybody.
    if (auto health =
            AnswerHealthCheck(method(), listener_->is_serving_ == nullptr || listener_->is_serving_())) {
      return ReplyHealth(*std::move(health));
    }
    if (!listener_->IsAuthorized(context_)) {
      if (listener_->is_encrypted_) listener_->gate_->OnRefused(context_.peer());
      if (listener_->on_refused_) listener_->on_refused_(Refusal::kToken, client(), kNoToken);
      return Reply(absl::UnauthenticatedError(absl::StrCat(method(), ": ", WhyNoToken(method()))));
    }
    if (const absl::Status admitted = listener_->CheckCaller(caller_mark()); !admitted.ok()) {
      listener_->gate_->OnRefused(context_.peer());
      if (listener_->on_refused_) {
        listener_->on_refused_(Refusal::kCertificate, client(), admitted.message());
      }
      return Reply(absl::PermissionDeniedError(absl::StrCat(method(), ": ", admitted.message())));
    }
    if (listener_->is_encrypted_) listener_->gate_->OnAdmitted(context_.peer());
    absl::MutexLock lock(&mutex_);
    if (!is_over_) stream_.Read(&message_, Expect(&read_));
  }

  void OnRead(bool ok) {
    if (!ok) {
      listener_->gate_->OnReset(context_.peer());
      return Reply(absl::InvalidArgumentError(absl::StrCat(method(), ": the request did not arrive whole")));
    }
    absl::StatusOr<Frame> request = FromByteBuffer(
        message_, IsFramedMethod(method()), [this](absl::string_view header, size_t index, size_t num_bytes) {
          // Not for a caller that is checked first.
          return listener_->placement_ && listener_->admits_ == nullptr
                     ? listener_->placement_(method(), header, index, num_bytes)
                     : Payload();
        });
    message_.Clear();
    if (!request.ok()) return Reply(request.status());
    request_ = *std::move(request);
    if (listener_->admits_ != nullptr) {
      const absl::Status admitted =
          listener_->admits_(NamesOfCertificate(*context_.auth_context()), method(), request_.header);
      if (!admitted.ok()) {
        if (listener_->on_refused_) {
          listener_->on_refused_(Refusal::kCertificate, client(), admitted.message());
        }
        return Reply(admitted);
      }
    }
    listener_->handler_(std::make_shared<HandlersCall>(shared_from_this()));
  }

  void ReplyHealth(absl::StatusOr<std::string> response) {
    if (!response.ok()) return Reply(response.status());
    Frame reply;
    reply.payloads.push_back(Payload::OfString(*std::move(response)));
    Reply(std::move(reply));
  }

  void OnSent(bool) {}

  void OnOver(bool) {
    {
      absl::MutexLock lock(&mutex_);
      is_over_ = true;
    }
    pending_.GiveUp();
    listener_->OnCallOver();
  }

  void SendLocked(const absl::StatusOr<Frame>& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::Status status = reply.status();
    if (reply.ok()) status = CheckReplySize(method(), reply->num_wire_bytes(), listener_->max_message_bytes_);
    if (status.ok()) {
      stream_.WriteAndFinish(ToByteBuffer(*reply, IsFramedMethod(method())), grpc::WriteOptions(),
                             grpc::Status::OK, Expect(&sent_));
    } else {
      context_.AddTrailingMetadata(kRepliedKey, "1");
      stream_.Finish(ToGrpcStatus(status), Expect(&sent_));
    }
  }

  GrpcListener* const listener_;
  CompletionPoller* const poller_;  // its own, for the listener lets go of it while the last handlers run
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer message_;
  absl::Time deadline_ = absl::InfiniteFuture();
  Frame request_;
  Event accepted_{&ServedCall::OnAccepted};
  Event read_{&ServedCall::OnRead};
  Event sent_{&ServedCall::OnSent};
  Event over_{&ServedCall::OnOver};

  PendingReply pending_;

  absl::Mutex mutex_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<Listener>> GrpcListener::Start(
    const std::string& address, CallHandler handler, PayloadPlacement placement, const GrpcOptions& options,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  WEIR_ASSIGN_OR_RETURN(HostPort host_port, HostPort::Parse(address));
  std::unique_ptr<GrpcListener> listener(new GrpcListener(std::move(handler), std::move(placement), options));
  ConnectionGate::Options gate_options = GateOptions(options);
  gate_options.num_taken = [&calls = *listener] {
    absl::MutexLock lock(&calls.mutex_);
    return static_cast<int64_t>(calls.num_calls_);
  };
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ConnectionGate> gate,
                        ConnectionGate::Listen(address, std::move(gate_options)));
  const SecurityOptions& security = options.security;
  if (!security.tls_revoked_file.empty()) {
    WEIR_ASSIGN_OR_RETURN(listener->revoked_,
                          RevocationList::Follow(security.tls_revoked_file, security.tls_ca_file));
  }
  grpc::ServerBuilder builder;
  // What a caller may cost before its token was checked.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_interval)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_timeout)));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  for (const auto& [name, value] : kBulkArguments) {
    if (!IsReadChunk(name)) builder.AddChannelArgument(name, value);
  }
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadBytes);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  // Of a message that says that it is larger nothing is read.
  builder.SetMaxReceiveMessageSize(LargestMessage(options));
  listener->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
  builder.RegisterAsyncGenericService(&listener->service_);
  listener->queue_ = builder.AddCompletionQueue();
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    // BuildAndStart leaves a queue that must be shut down and drained before it goes.
    listener->poller_ = std::make_unique<CompletionPoller>(listener->queue_.get(),
                                                           ListeningThreads::Options(), absl::ZeroDuration());
    return absl::InternalError(absl::StrCat("cannot listen at ", address, ": gRPC has made no server"));
  }
  host_port.port = gate->port();
  listener->address_ = host_port.ToString();
  listener->gate_ = std::move(gate);  // the poller's threads look at it
  listener->poller_ =
      std::make_unique<CompletionPoller>(listener->queue_.get(),
                                         ListeningThreads::Options{.num_threads = options.num_server_threads,
                                                                   .max_threads = options.max_server_threads},
                                         options.poll_before_sleep);
  WEIR_RETURN_IF_ERROR(listener->poller_->status());
  // Several are waiting at once, so that a burst of calls need not wait for an acceptance each.
  for (int i = 0; i < 4; ++i) listener->AcceptNext();
  WEIR_RETURN_IF_ERROR(listener->gate_->Start(
      [acceptor = listener->acceptor_.get()](int fd, int listening_fd, std::string bytes) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = fd;
        connection.listener_fd = listening_fd;
        const grpc::Slice slice(bytes);
        if (!bytes.empty()) connection.read_buffer = grpc::ByteBuffer(&slice, 1);
        acceptor->HandleNewConnection(&connection);
      }));
  return listener;
}

GrpcListener::~GrpcListener() { Shutdown(); }

void GrpcListener::Shutdown() {
  if (gate_ != nullptr) gate_->Stop();
  if (server_ != nullptr) {
    {
      absl::MutexLock lock(&mutex_);
      is_closing_ = true;
    }
    server_->Shutdown(std::chrono::system_clock::now());  // cancels what is under way
    if (gate_ != nullptr) gate_->AwaitHandler();
    absl::MutexLock lock(&mutex_);
    while (num_calls_ > 0) idle_.Wait(&mutex_);
  }
  poller_.reset();
  server_.reset();
  if (gate_ != nullptr) gate_->End();
}

void GrpcListener::AcceptNext() {
  absl::MutexLock lock(&mutex_);
  if (is_closing_) return;
  ++num_calls_;
  std::make_shared<ServedCall>(this)->Accept();
}

bool GrpcListener::IsAuthorized(const grpc::GenericServerContext& context) const {
  if (token_.empty()) return true;
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kTokenKey);
  return it != metadata.end() && TokensMatch(absl::string_view(it->second.data(), it->second.size()), token_);
}

absl::Status GrpcListener::CheckCaller(absl::string_view mark) const {
  if (revoked_ == nullptr || !revoked_->Has(mark)) return absl::OkStatus();
  return absl::PermissionDeniedError("the caller's certificate is revoked (--tls_revoked)");
}

void GrpcListener::OnCallOver() {
  absl::MutexLock lock(&mutex_);
  if (--num_calls_ == 0) idle_.SignalAll();
}

}  // namespace weir
