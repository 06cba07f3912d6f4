#include "distributed/transport/grpc/grpc_channel.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "distributed/transport/call_errors.h"
#include "distributed/transport/grpc/byte_buffer.h"
#include "distributed/transport/grpc/completion_poller.h"
#include "distributed/transport/grpc/metadata_keys.h"
#include "kernels/process_clock.h"

namespace weir {
// Holds itself until gRPC has finished with it.
class GrpcChannel::PendingCall final : public OutgoingCall, public CompletionEvent {
 public:
  PendingCall(GrpcChannel* channel, std::string method, Done done)
      : channel_(channel), method_(std::move(method)), done_(std::move(done)) {}

  void Start(const Frame& request, const CallOptions& options, std::shared_ptr<PendingCall> self) {
    self_ = std::move(self);
    started_ = ProcessNow();
    answered_by_ = options.answered_by;
    if (options.deadline != absl::InfiniteFuture())
      context_.set_deadline(absl::ToChronoTime(absl::Now() + (options.deadline - ProcessNow())));
    context_.set_wait_for_ready(options.wait_for_ready);
    if (!channel_->token_.empty()) context_.AddMetadata(kTokenKey, channel_->token_);
    const grpc::ByteBuffer bytes = ToByteBuffer(request, IsFramedMethod(method_));
    reader_ = channel_->stub_.PrepareUnaryCall(&context_, method_, bytes, channel_->queue_);
    reader_->StartCall();
    reader_->Finish(&reply_, &status_, static_cast<CompletionEvent*>(this));
  }

  void Cancel() override { context_.TryCancel(); }

  void OnCompletion(bool) override {
    const std::shared_ptr<PendingCall> self = std::move(self_);
    if (answered_by_ != nullptr) *answered_by_ = context_.peer();
    std::exchange(done_, nullptr)(Result());
    channel_->Forget(this);
  }

 private:
  absl::StatusOr<Frame> Result() {
    if (status_.ok()) return FromByteBuffer(reply_, IsFramedMethod(method_), AnyPlace);
    const absl::Status status = FromGrpcStatus(status_);
    const auto& trailers = context_.GetServerTrailingMetadata();
    // What a handler replied is passed on as it is; errors that gRPC itself raised name the peer, and so does
    // one of a caller whose token is wrong, which no handler has seen.
    if (absl::IsUnauthenticated(status)) {
      return absl::UnauthenticatedError(
          absl::StrCat(channel_->peer_.ToString(), " at ", channel_->address_, ": ", status.message()));
    }
    if (trailers.find(kRepliedKey) != trailers.end()) return status;
    return DescribeCallError(channel_->peer_, channel_->address_, method_, status, ProcessNow() - started_);
  }

  GrpcChannel* const channel_;
  const std::string method_;
  Done done_;
  std::string* answered_by_ = nullptr;
  absl::Time started_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  std::shared_ptr<PendingCall> self_;
};

GrpcChannel::GrpcChannel(TaskName peer, std::string address, std::shared_ptr<grpc::Channel> channel,
                         grpc::CompletionQueue* queue, std::string token, int64_t max_message_bytes)
    : peer_(std::move(peer)),
      address_(std::move(address)),
      channel_(channel),
      stub_(std::move(channel)),
      queue_(queue),
      token_(std::move(token)),
      max_message_bytes_(max_message_bytes) {}

GrpcChannel::~GrpcChannel() {
  absl::MutexLock lock(&mutex_);
  for (PendingCall* call : pending_) call->Cancel();
  while (!pending_.empty()) idle_.Wait(&mutex_);
}

std::shared_ptr<OutgoingCall> GrpcChannel::Call(absl::string_view method, Frame request,
                                                const CallOptions& options, Done done) {
  if (absl::Status size = CheckRequestSize(peer_, method, request.num_wire_bytes(), max_message_bytes_);
      !size.ok()) {
    done(std::move(size));
    return std::make_shared<CallThatIsOver>();
  }
  auto call = std::make_shared<PendingCall>(this, std::string(method), std::move(done));
  {
    absl::MutexLock lock(&mutex_);
    pending_.insert(call.get());
  }
  call->Start(request, options, call);
  return call;
}

void GrpcChannel::Forget(PendingCall* call) {
  absl::MutexLock lock(&mutex_);
  pending_.erase(call);
  if (pending_.empty()) idle_.SignalAll();
}

}  // namespace weir
