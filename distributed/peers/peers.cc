#include "distributed/peers/peers.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/host_name.h"
#include "distributed/peers/worker_protocol.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(60);

class OverHandle final : public Peers::Handle {
 public:
  void Cancel(absl::Status) override {}
};

// What is wrong with the peer's host name, for those who wait for it; empty when it resolves.
std::string NameProblem(const Environment& environment, const std::string& address) {
  if (environment.is_simulated()) return "";  // without a name server
  const absl::StatusOr<HostPort> host_port = HostPort::Parse(address);
  if (!host_port.ok()) return "";
  const absl::Status status = LookUpHost(host_port->host, absl::Seconds(1)).status();
  return status.ok() ? "" : absl::StrCat("; ", status.message());
}

absl::Status WithSuffix(const absl::Status& status, absl::string_view suffix) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), suffix));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { longer.SetPayload(type, payload); });
  return longer;
}

}  // namespace

// One call with its attempts. Kept by Peers until `done` has been called.
class Peers::PendingCall final : public Handle, public std::enable_shared_from_this<PendingCall> {
 public:
  PendingCall(Peers* peers, Channel* channel, Incarnation addressee, absl::string_view method, Frame request,
              const PeerCallOptions& options, Done done)
      : peers_(peers),
        channel_(channel),
        addressee_(addressee),
        method_(method),
        request_(std::move(request)),
        options_(options),
        retry_until_(absl::InfinitePast()),
        done_(std::move(done)) {}

  const TaskName& peer() const { return channel_->peer(); }
  Incarnation addressee() const { return addressee_; }
  // In the order of calls. Before Attempt.
  void set_number(uint64_t number) { number_ = number; }
  uint64_t number() const { return number_; }

  void Attempt() {
    std::shared_ptr<OutgoingCall> call = channel_->Call(
        method_, request_, {options_.deadline, options_.wait_for_ready},
        [self = shared_from_this()](absl::StatusOr<Frame> reply) { self->OnReply(std::move(reply)); });
    bool is_cancelled = false;
    {
      absl::MutexLock lock(&mutex_);
      is_cancelled = !cancelled_.ok();
      attempt_ = call;
    }
    if (is_cancelled) call->Cancel();
  }

  // The transport's answer to its own cancellation ends the call, so that nothing of it is left in the
  // transport.
  void Cancel(absl::Status reason) override {
    std::shared_ptr<OutgoingCall> attempt;
    {
      absl::MutexLock lock(&mutex_);
      if (!cancelled_.ok()) return;
      cancelled_ = std::move(reason);
      attempt = attempt_;
    }
    if (attempt) attempt->Cancel();
  }

 private:
  void OnReply(absl::StatusOr<Frame> reply) {
    {
      absl::MutexLock lock(&mutex_);
      if (!cancelled_.ok()) reply = cancelled_;
    }
    if (absl::IsUnavailable(reply.status()) && ShouldRetry()) {
      const std::shared_ptr<PendingCall> self = shared_from_this();
      peers_->timers_->At(peers_->environment_.Now() + kRetryDelay, [self] { self->Retry(); });
      return;
    }
    Finish(reply.ok() ? Open(*std::move(reply)) : absl::StatusOr<PeerReply>(reply.status()));
  }

  // Only a connection that broke is tried again: statuses that a peer replies travel inside the frame.
  bool ShouldRetry() {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = peers_->environment_.Now();
    if (!cancelled_.ok()) return false;
    if (retry_until_ == absl::InfinitePast()) retry_until_ = now + options_.retry_for;
    return now + kRetryDelay < std::min(retry_until_, options_.deadline);
  }

  void Retry() {
    absl::Status cancelled;
    {
      absl::MutexLock lock(&mutex_);
      cancelled = cancelled_;
    }
    if (!cancelled.ok()) return Finish(cancelled);
    Attempt();
  }

  absl::StatusOr<PeerReply> Open(Frame frame) {
    WireReader reader(frame.header);
    Incarnation replier = 0;
    const absl::Status status = DecodeReplyStatus(&reader, &replier);
    if (replier != 0) {
      const absl::Status life = peers_->membership_.OnSignOfLife(peer(), replier);
      // A life that is over may still be answering. Not Aborted: that is what a peer says of a lost sender.
      if (absl::IsAborted(life)) return absl::UnavailableError(life.message());
      WEIR_RETURN_IF_ERROR(life);
    }
    WEIR_RETURN_IF_ERROR(status);
    PeerReply reply;
    reply.header_begin = frame.header.size() - reader.num_bytes_left();
    reply.frame = std::move(frame);
    return reply;
  }

  void Finish(absl::StatusOr<PeerReply> result) {
    std::exchange(done_, nullptr)(std::move(result));
    request_ = Frame();
    peers_->Forget(this);
  }

  Peers* const peers_;
  Channel* const channel_;
  const Incarnation addressee_;
  uint64_t number_ = 0;
  const std::string method_;
  Frame request_;
  const PeerCallOptions options_;
  absl::Mutex mutex_;
  absl::Time retry_until_ ABSL_GUARDED_BY(mutex_);
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<OutgoingCall> attempt_ ABSL_GUARDED_BY(mutex_);
  Done done_;
};

Peers::Peers(ClusterSpec cluster, Transport& transport, Membership& membership)
    : environment_(membership.environment()),
      cluster_(std::move(cluster)),
      transport_(transport),
      membership_(membership),
      timers_(environment_.MakeTimers()) {}

Peers::~Peers() {
  Shutdown();
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return pending_.empty(); };
  environment_.Await(mutex_, absl::Condition(&is_idle));
}

void Peers::Shutdown() {
  std::vector<std::shared_ptr<PendingCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    is_closing_ = true;
    calls.assign(pending_.begin(), pending_.end());
  }
  Sort(&calls);
  for (const auto& call : calls) call->Cancel(absl::CancelledError("this task is shutting down"));
}

absl::StatusOr<Channel*> Peers::FindChannel(const TaskName& peer) {
  absl::MutexLock lock(&mutex_);
  if (is_closing_) return absl::CancelledError("this task is shutting down");
  std::unique_ptr<Channel>& channel = channels_[peer];
  if (channel == nullptr) {
    absl::StatusOr<std::string> address = cluster_.address(peer);
    absl::StatusOr<std::unique_ptr<Channel>> connected =
        address.ok() ? transport_.Connect(peer, *address)
                     : absl::StatusOr<std::unique_ptr<Channel>>(address.status());
    if (!connected.ok()) {
      channels_.erase(peer);
      return connected.status();
    }
    channel = *std::move(connected);
  }
  return channel.get();
}

std::shared_ptr<Peers::Handle> Peers::Call(const TaskName& peer, absl::string_view method, std::string body,
                                           std::vector<Payload> payloads, const PeerCallOptions& options,
                                           Done done) {
  absl::StatusOr<Channel*> channel = FindChannel(peer);
  if (!channel.ok()) {
    done(channel.status());
    return std::make_shared<OverHandle>();
  }
  const Incarnation addressee = options.any_life ? 0 : membership_.incarnation_of(peer);
  WireWriter envelope;
  Envelope{membership_.self(), membership_.incarnation(), addressee}.EncodeTo(&envelope);
  Frame request;
  request.header = envelope.Take() + body;
  request.payloads = std::move(payloads);
  auto call = std::make_shared<PendingCall>(this, *channel, addressee, method, std::move(request), options,
                                            std::move(done));
  bool is_too_late = false;
  {
    absl::MutexLock lock(&mutex_);
    call->set_number(next_call_++);
    pending_.insert(call);
    is_too_late = is_closing_;  // after Shutdown has looked for calls to cancel
  }
  if (is_too_late) call->Cancel(absl::CancelledError("this task is shutting down"));
  call->Attempt();
  return call;
}

absl::StatusOr<PeerReply> Peers::CallAndWait(const TaskName& peer, absl::string_view method, std::string body,
                                             std::vector<Payload> payloads, const PeerCallOptions& options) {
  absl::Mutex mutex;
  std::optional<absl::StatusOr<PeerReply>> told;
  Call(peer, method, std::move(body), std::move(payloads), options, [&](absl::StatusOr<PeerReply> reply) {
    absl::MutexLock lock(&mutex);
    told = std::move(reply);
  });
  const auto is_told_by = [&](absl::Time time) {
    const auto is_told = [&told] { return told.has_value(); };
    absl::MutexLock lock(&mutex);
    return environment_.Await(mutex, absl::Condition(&is_told), time);
  };
  while (!is_told_by(environment_.Now() + kPatience)) {
    const std::string left =
        options.deadline == absl::InfiniteFuture()
            ? "no time limit"
            : absl::StrCat(
                  absl::FormatDuration(absl::Trunc(options.deadline - environment_.Now(), absl::Seconds(1))),
                  " left");
    const std::string address = cluster_.address(peer).value_or("?");
    const std::string line =
        absl::StrCat("weir: ", membership_.self().ToString(), " waits for ", peer.ToString(), " at ", address,
                     ": ", method, " (", left, NameProblem(environment_, address), ")\n");
    std::fputs(line.c_str(), stderr);
  }
  absl::StatusOr<PeerReply> result = *std::move(told);
  // gRPC waits for a name in silence.
  return absl::IsDeadlineExceeded(result.status())
             ? WithSuffix(result.status(), NameProblem(environment_, cluster_.address(peer).value_or("?")))
             : std::move(result);
}

void Peers::OnLoss(const TaskName& peer, Incarnation incarnation, const absl::Status& reason) {
  std::vector<std::shared_ptr<PendingCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& call : pending_) {
      if (call->peer() == peer && call->addressee() == incarnation) calls.push_back(call);
    }
  }
  Sort(&calls);
  for (const auto& call : calls) call->Cancel(reason);
}

void Peers::Sort(std::vector<std::shared_ptr<PendingCall>>* calls) {
  std::sort(calls->begin(), calls->end(),
            [](const auto& a, const auto& b) { return a->number() < b->number(); });
}

std::set<TaskName> Peers::contacted() const {
  absl::MutexLock lock(&mutex_);
  std::set<TaskName> tasks;
  for (const auto& [task, channel] : channels_) tasks.insert(task);
  return tasks;
}

void Peers::Forget(PendingCall* call) {
  absl::MutexLock lock(&mutex_);
  pending_.erase(call->shared_from_this());
}

}  // namespace weir
