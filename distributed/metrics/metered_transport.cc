#include "distributed/metrics/metered_transport.h"

#include <atomic>
#include <string>
#include <utility>

#include "distributed/peers/worker_protocol.h"
#include "distributed/task_status.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Errors of our methods are in the reply, behind OK of the transport.
bool IsOk(absl::string_view method, const absl::StatusOr<Frame>& reply) {
  if (!reply.ok()) return false;
  if (!IsFramedMethod(method) || method == kTaskStatusMethod) return true;
  Incarnation replier = 0;
  WireReader reader(reply->header);
  return DecodeReplyStatus(&reader, &replier).ok();
}

int64_t BytesOf(const absl::StatusOr<Frame>& frame) {
  return frame.ok() ? static_cast<int64_t>(frame->num_wire_bytes()) : 0;
}

class MeteredCall final : public IncomingCall {
 public:
  MeteredCall(std::shared_ptr<IncomingCall> call, Metrics& metrics, Environment& environment)
      : call_(std::move(call)),
        metrics_(metrics),
        environment_(environment),
        started_(environment.SteadyNow()) {
    counted_.bytes_received = static_cast<int64_t>(call_->request().num_wire_bytes());
  }

  // Nobody answered.
  ~MeteredCall() override {
    if (!has_replied_) Reply(absl::InternalError("the server gave no reply"));
  }

  const std::string& method() const override { return call_->method(); }
  Frame& request() override { return call_->request(); }
  absl::Time deadline() const override { return call_->deadline(); }
  std::string client() const override { return call_->client(); }
  void Compute(absl::AnyInvocable<void()> work) override { call_->Compute(std::move(work)); }
  void OnCancel(std::function<void()> callback) override { call_->OnCancel(std::move(callback)); }
  void Reply(absl::StatusOr<Frame> reply) override {
    if (has_replied_.exchange(true)) return;
    // Whoever calls may ask for any method.
    const bool is_served = !absl::IsUnimplemented(reply.status());
    counted_.method = is_served ? method() : "other";
    counted_.is_ok = IsOk(method(), reply);
    counted_.bytes_sent = BytesOf(reply);
    counted_.time = environment_.SteadyNow() - started_;
    metrics_.Count(counted_);
    call_->Reply(std::move(reply));
  }

 private:
  const std::shared_ptr<IncomingCall> call_;
  Metrics& metrics_;
  Environment& environment_;
  const absl::Time started_;
  std::atomic<bool> has_replied_{false};
  Metrics::Call counted_;
};

class MeteredChannel final : public Channel {
 public:
  MeteredChannel(std::unique_ptr<Channel> channel, Metrics& metrics, Environment& environment)
      : channel_(std::move(channel)), metrics_(metrics), environment_(environment) {}

  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request, const CallOptions& options,
                                     Done done) override {
    Metrics::Call counted{.direction = Metrics::Direction::kMade,
                          .method = std::string(method),
                          .bytes_sent = static_cast<int64_t>(request.num_wire_bytes())};
    return channel_->Call(
        method, std::move(request), options,
        [metrics = &metrics_, counted = std::move(counted), environment = &environment_,
         started = environment_.SteadyNow(), done = std::move(done)](absl::StatusOr<Frame> reply) mutable {
          counted.is_ok = IsOk(counted.method, reply);
          counted.bytes_received = BytesOf(reply);
          counted.time = environment->SteadyNow() - started;
          metrics->Count(counted);
          done(std::move(reply));
        });
  }
  const TaskName& peer() const override { return channel_->peer(); }
  const std::string& address() const override { return channel_->address(); }

 private:
  const std::unique_ptr<Channel> channel_;
  Metrics& metrics_;
  Environment& environment_;
};

class MeteredTransport final : public Transport {
 public:
  MeteredTransport(Transport& transport, Metrics& metrics, Environment& environment)
      : transport_(transport), metrics_(metrics), environment_(environment) {}

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, transport_.Connect(peer, address));
    return std::make_unique<MeteredChannel>(std::move(channel), metrics_, environment_);
  }

  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement placement) override {
    const auto metered = [metrics = &metrics_, environment = &environment_,
                          handler = std::move(handler)](std::shared_ptr<IncomingCall> call) {
      handler(std::make_shared<MeteredCall>(std::move(call), *metrics, *environment));
    };
    return transport_.Listen(address, metered, std::move(placement));
  }

 private:
  Transport& transport_;
  Metrics& metrics_;
  Environment& environment_;
};

}  // namespace

std::unique_ptr<Transport> MakeMeteredTransport(Transport& transport, Metrics& metrics,
                                                Environment& environment) {
  return std::make_unique<MeteredTransport>(transport, metrics, environment);
}

}  // namespace weir
