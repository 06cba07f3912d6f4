#include "distributed/peers/peers.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/host_name.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/tcp_probe.h"
#include "graph/types/status_macros.h"
#include "kernels/long_wait.h"
#include "kernels/notice.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);
// How long an address is looked at, at most; after a deadline no longer than this part of the time the call
// had, or kGlance.
constexpr absl::Duration kLookAtAddress = absl::Seconds(1), kGlance = absl::Milliseconds(100);
constexpr int kPartOfCall = 10;
// No answer for this long says something of an address.
constexpr absl::Duration kTellingSilence = absl::Milliseconds(500);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(60);
constexpr absl::Duration kSoon = absl::Seconds(5);
constexpr absl::Duration kLateRetryDelay = absl::Milliseconds(500);

class OverHandle final : public Peers::Handle {
 public:
  void Cancel(absl::Status) override {}
};

// What the authority has answered to a heartbeat, or why it has not.
std::string DescribeFailedCall(const absl::Status& status) {
  if (status.ok() || absl::IsDeadlineExceeded(status)) return "has not answered";
  return absl::StrCat(absl::IsUnavailable(status) ? "cannot be reached: " : "has refused it: ",
                      status.message());
}

// What is wrong with the peer's address, for those who wait for it: its host name, or that nobody listens
// there. Empty where somebody does, and where `limit` is too short to tell.
std::string AddressProblem(const Environment& environment, const std::string& address, absl::Duration limit) {
  if (environment.is_simulated()) return "";  // without a name server and ports
  const absl::StatusOr<HostPort> host_port = HostPort::Parse(address);
  if (!host_port.ok()) return "";
  const absl::Time end = environment.Now() + limit;
  const bool is_long = limit >= kTellingSilence;
  const absl::StatusOr<HostAddresses> found = LookUpHost(host_port->host, limit);
  if (!found.ok()) {
    const bool may_be_slow = absl::IsUnavailable(found.status()) && !is_long;
    return may_be_slow ? "" : absl::StrCat("; ", found.status().message());
  }
  absl::Status reached;
  for (const std::string& one : found->addresses) {
    reached = TryConnect(one, host_port->port, std::max(absl::ZeroDuration(), end - environment.Now()));
    if (reached.ok()) return "";
  }
  if (absl::IsNotFound(reached)) return "; nobody listens there";
  if (absl::IsDeadlineExceeded(reached)) {
    if (!is_long) return "";
    return "; there is no sign of it: its host is down, or a firewall drops what is sent there";
  }
  return reached.ok() ? "" : absl::StrCat("; no way there: ", reached.message());
}

absl::Status WithSuffix(const absl::Status& status, absl::string_view suffix) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), suffix));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { longer.SetPayload(type, payload); });
  return longer;
}

}  // namespace

// One call with its attempts. Kept by Peers until `done` has been called.
//
// The addressee is chosen under Peers' mutex, after the call was inserted: a loss that is reported before
// that has changed what membership says, and one that is reported afterwards finds the call.
class Peers::PendingCall final : public Handle, public std::enable_shared_from_this<PendingCall> {
 public:
  // `request` without its envelope.
  PendingCall(Peers* peers, std::shared_ptr<Channel> channel, absl::string_view method, Frame request,
              const PeerCallOptions& options, Done done)
      : peers_(peers),
        channel_(std::move(channel)),
        peer_(channel_->peer()),
        begun_(peers->environment_.SteadyNow()),
        method_(method),
        request_(std::move(request)),
        options_(options),
        retry_until_(absl::InfinitePast()),
        done_(std::move(done)) {}

  const TaskName& peer() const { return peer_; }
  const std::string& method() const { return method_; }
  // Of the first attempt; 0 until then.
  Incarnation addressee() const { return addressee_; }
  void set_addressee(Incarnation addressee) { addressee_ = addressee; }
  absl::Time begun() const { return begun_; }
  // In the order of calls. Before Attempt.
  void set_number(uint64_t number) { number_ = number; }
  uint64_t number() const { return number_; }

  const PeerCallOptions& options() const { return options_; }

  // The first attempt, when nothing has to be waited for before.
  void Begin() {
    Membership& membership = peers_->membership_;
    peers_->Address(this);
    if (peers_->Park(shared_from_this())) return;
    WireWriter envelope;
    Envelope{membership.self(), membership.incarnation(), addressee(), membership.last_loss()}.EncodeTo(
        &envelope);
    request_.header = envelope.Take() + request_.header;
    Attempt();
  }

  void Attempt() {
    const std::shared_ptr<Channel> channel = channel_;
    std::shared_ptr<OutgoingCall> call = channel->Call(
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
    if (!peers_->Unpark(this)) return;
    peers_->timers_->At(absl::InfinitePast(), [self = shared_from_this()] { self->Retry(); });
  }

  // Ends the call if it is still parked at its deadline. Called by Park: with the lock nobody else can take
  // the call, and begin it once more, meanwhile.
  void AwaitDeadline() {
    if (options_.deadline == absl::InfiniteFuture() || std::exchange(awaits_deadline_, true)) return;
    peers_->timers_->At(options_.deadline, [call = weak_from_this()] {
      const std::shared_ptr<PendingCall> self = call.lock();  // null when it is over
      if (self != nullptr && self->peers_->Unpark(self.get())) self->Finish(self->WhyItWaited());
    });
  }

 private:
  absl::Status WhyItWaited() const {
    return absl::DeadlineExceededError(absl::StrCat(method_, " to ", peer_.ToString(), " at ",
                                                    channel_->address(), ": ", peers_->WhyItWaits()));
  }

  void OnReply(absl::StatusOr<Frame> reply) {
    {
      absl::MutexLock lock(&mutex_);
      if (!cancelled_.ok()) reply = cancelled_;
    }
    if (absl::IsUnavailable(reply.status()) && ShouldRetry()) {
      const std::shared_ptr<PendingCall> self = shared_from_this();
      peers_->timers_->At(peers_->environment_.Now() + RetryDelay(), [self] { self->Retry(); });
      return;
    }
    if (absl::IsUnavailable(reply.status()) && options_.names_link && !WasCancelled()) {
      return CheckLink(reply.status());
    }
    Finish(reply.ok() ? Open(*std::move(reply)) : absl::StatusOr<PeerReply>(reply.status()));
  }

  // Who is away for long need not be asked so often.
  absl::Duration RetryDelay() {
    absl::MutexLock lock(&mutex_);
    const absl::Duration broken_for = peers_->environment_.Now() - (retry_until_ - options_.retry_for);
    return broken_for < kSoon ? kRetryDelay : kLateRetryDelay;
  }

  bool WasCancelled() {
    absl::MutexLock lock(&mutex_);
    return !cancelled_.ok();
  }

  // The peer cannot be reached: is it lost, or only the link?
  void CheckLink(const absl::Status& status) {
    LinkCheck check;
    {
      absl::MutexLock lock(&peers_->mutex_);
      check = peers_->link_check_;
    }
    const Incarnation life = peers_->membership_.incarnation_of(peer_);
    if (!check || life == 0) return Finish(status);
    check(peer_, life, [self = shared_from_this(), status](const std::string& finding) {
      absl::Status end;
      {
        absl::MutexLock lock(&self->mutex_);
        end = self->cancelled_.ok() ? WithSuffix(status, finding) : self->cancelled_;
      }
      self->Finish(end);
    });
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
    // Who is a task now is for the authority to say. Another task may know of a life that is over, which an
    // authority that was just restarted, on a clock that is behind, did not know when it granted this one.
    const Membership& membership = peers_->membership_;
    const bool may_say_so = membership.is_authority() || peer_ == membership.authority();
    if (may_say_so && options_.may_end_this_life) {
      peers_->membership_.OnReplyStatus(status);
    }
    if (replier != 0) {
      const absl::Status life = peers_->membership_.OnSignOfLife(peer(), replier);
      // A life that is over may still be answering. This task may go on with the next one.
      if (IsSuperseded(life)) return absl::UnavailableError(life.message());
      WEIR_RETURN_IF_ERROR(life);
    }
    // It is the peer that was superseded, not this task, which may go on with the peer's successor.
    if (IsSuperseded(status) && peers_->membership_.superseded().ok()) {
      return absl::UnavailableError(status.message());
    }
    if (!options_.reads_refusals) WEIR_RETURN_IF_ERROR(status);
    PeerReply reply;
    reply.life = replier;
    reply.refusal = status;
    reply.header_begin = frame.header.size() - reader.num_bytes_left();
    reply.frame = std::move(frame);
    return reply;
  }

  void Finish(absl::StatusOr<PeerReply> result) {
    std::exchange(done_, nullptr)(std::move(result));
    request_ = Frame();
    channel_ = nullptr;
    peers_->Forget(this);
  }

  Peers* const peers_;
  std::shared_ptr<Channel> channel_;  // until Finish
  const TaskName peer_;
  std::atomic<Incarnation> addressee_{0};
  const absl::Time begun_;
  uint64_t number_ = 0;
  bool awaits_deadline_ = false;  // guarded by Peers' mutex
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

Peers::~Peers() { ShutdownAndWait(); }

void Peers::ShutdownAndWait() {
  Shutdown();
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return pending_.empty(); };
  AwaitAloud(environment_, mutex_, absl::Condition(&is_idle), [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    std::set<std::string> calls;
    for (const auto& call : pending_)
      calls.insert(absl::StrCat(call->method(), " of ", call->peer().ToString()));
    return absl::StrCat(membership_.self().ToString(), " shuts down, and waits for the end of ",
                        pending_.size(), " calls that it has cancelled: ", absl::StrJoin(calls, ", "));
  });
}

void Peers::Shutdown(absl::Status reason) {
  std::vector<std::shared_ptr<PendingCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    closed_.Update(reason);
    reason = closed_;
    calls.assign(pending_.begin(), pending_.end());
  }
  Sort(&calls);
  for (const auto& call : calls) call->Cancel(reason);
}

bool Peers::MustWait(const PendingCall& call) const {
  if (call.options().before_own_life) return false;
  if (membership_.incarnation() == 0) return true;
  return call.options().needs_lease && !membership_.HoldsLease() &&
         membership_.state(call.peer()) == Membership::State::kAlive;
}

bool Peers::Park(std::shared_ptr<PendingCall> call) {
  absl::MutexLock lock(&mutex_);
  if (!closed_.ok() || !MustWait(*call)) return false;
  call->AwaitDeadline();
  parked_.push_back(std::move(call));
  return true;
}

bool Peers::Unpark(PendingCall* call) {
  absl::MutexLock lock(&mutex_);
  return std::erase_if(parked_, [call](const auto& parked) { return parked.get() == call; }) > 0;
}

void Peers::SetLinkCheck(LinkCheck check) {
  absl::MutexLock lock(&mutex_);
  link_check_ = std::move(check);
}

void Peers::OnLease() {
  std::vector<std::shared_ptr<PendingCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    calls = std::exchange(parked_, {});
  }
  for (const auto& call : calls) call->Begin();
}

void Peers::NoteAuthoritySaid(const absl::Status& said) {
  absl::MutexLock lock(&mutex_);
  // That nobody has answered in time says less than why the connection failed.
  if (absl::IsDeadlineExceeded(said) && !authority_said_.ok()) return;
  authority_said_ = said;
}

std::string Peers::WhyItWaits() const {
  const TaskName authority = membership_.authority();
  absl::Status said;
  {
    absl::MutexLock lock(&mutex_);
    said = authority_said_;
  }
  const bool has_joined = membership_.incarnation() != 0;
  if (authority.job.empty()) {
    return absl::StrCat(membership_.self().ToString(),
                        has_joined ? " begins no steps" : " has not joined the cluster",
                        ", because no task is known to be the authority, which the store of the job says",
                        said.ok() ? "" : absl::StrCat(": ", said.message()));
  }
  return absl::StrCat(membership_.self().ToString(),
                      has_joined ? " begins no steps, because " : " has not joined the cluster, because ",
                      authority.ToString(), " at ", AddressOf(authority),
                      has_joined ? ", which says who is alive, " : ", which lets tasks join, ",
                      DescribeFailedCall(said));
}

void Peers::CloseRetiredChannels() {
  std::vector<std::shared_ptr<Channel>> closed;
  absl::MutexLock lock(&mutex_);
  // Who still uses one has a share of its own; none is given out any more.
  const auto unused = [](const auto& channel) { return channel.use_count() == 1; };
  for (auto& channel : retired_) {
    if (unused(channel)) closed.push_back(std::move(channel));
  }
  std::erase(retired_, nullptr);
}

absl::StatusOr<std::string> Peers::FindAddress(const TaskName& peer, const std::string& of_guest) const {
  if (of_guest.empty()) return cluster_.address(peer);
  if (of_guest != Guests::kNowhere) return of_guest;
  // As of one that is lost: it may come again.
  return absl::UnavailableError(absl::StrCat(
      peer.ToString(), " has left: nobody is called where it was, for another task may be there"));
}

std::string Peers::AddressOf(const TaskName& peer) const {
  if (peer == membership_.self()) {
    absl::MutexLock lock(&mutex_);
    if (!own_address_.empty()) return own_address_;
  }
  return FindAddress(peer, membership_.AddressOfGuest(peer)).value_or("?");
}

void Peers::SetOwnAddress(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  own_address_ = address;
}

absl::StatusOr<std::shared_ptr<Channel>> Peers::FindChannel(const TaskName& peer, bool anew) {
  const Incarnation life = membership_.incarnation_of(peer);
  const std::string of_guest = membership_.AddressOfGuest(peer);
  absl::MutexLock lock(&mutex_);
  if (!closed_.ok()) return closed_;
  auto& [channel, channel_life] = channels_[peer];
  // Another task may be found where a guest was.
  const bool has_moved = channel != nullptr && !of_guest.empty() && of_guest != channel->address();
  if (channel != nullptr && (anew || (channel_life != 0 && life > channel_life) || has_moved)) {
    retired_.push_back(std::exchange(channel, nullptr));
  }
  channel_life = std::max(channel_life, life);
  if (channel == nullptr) {
    absl::StatusOr<std::string> address = FindAddress(peer, of_guest);
    absl::StatusOr<std::unique_ptr<Channel>> connected =
        address.ok() ? transport_.Connect(peer, *address)
                     : absl::StatusOr<std::unique_ptr<Channel>>(address.status());
    if (!connected.ok()) {
      channels_.erase(peer);
      return connected.status();
    }
    channel = *std::move(connected);
  }
  return channel;
}

std::shared_ptr<Peers::Handle> Peers::Call(const TaskName& peer, absl::string_view method, std::string body,
                                           std::vector<Payload> payloads, const PeerCallOptions& options,
                                           Done done) {
  absl::StatusOr<std::shared_ptr<Channel>> channel = FindChannel(peer, options.anew);
  if (!channel.ok()) {
    done(channel.status());
    return std::make_shared<OverHandle>();
  }
  auto call =
      std::make_shared<PendingCall>(this, *std::move(channel), method,
                                    Frame{std::move(body), std::move(payloads)}, options, std::move(done));
  absl::Status closed;
  {
    absl::MutexLock lock(&mutex_);
    call->set_number(next_call_++);
    pending_.insert(call);
    closed = closed_;  // after Shutdown has looked for calls to cancel
  }
  if (!closed.ok()) call->Cancel(closed);
  call->Begin();
  return call;
}

absl::StatusOr<PeerReply> Peers::CallAndWait(const TaskName& peer, absl::string_view method, std::string body,
                                             std::vector<Payload> payloads, const PeerCallOptions& options) {
  const absl::Time begun = environment_.Now();
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
    const std::string address = AddressOf(peer);
    PrintNotice(absl::StrCat(
        membership_.self().ToString(), " waits for ", peer.ToString(), " at ", address, ": ", method, " (",
        left, AddressProblem(environment_, address, kLookAtAddress),
        membership_.incarnation() == 0 ? absl::StrCat("; it has to join first: ", WhyItWaits()) : "", ")"));
  }
  absl::StatusOr<PeerReply> result = *std::move(told);
  if (!absl::IsDeadlineExceeded(result.status())) return result;
  // gRPC waits for a name, and for somebody who listens, in silence.
  const absl::Duration look = std::clamp((environment_.Now() - begun) / kPartOfCall, kGlance, kLookAtAddress);
  return WithSuffix(result.status(), AddressProblem(environment_, AddressOf(peer), look));
}

void Peers::OnLoss(const TaskName& peer, Incarnation incarnation, const absl::Status& reason) {
  std::vector<std::shared_ptr<PendingCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& call : pending_) {
      if (call->peer() == peer && call->addressee() == incarnation && EndsWithLoss(*call)) {
        calls.push_back(call);
      }
    }
    // Its connections may be silent for ever, while another process is found under its name.
    if (const auto open = channels_.find(peer); open != channels_.end() && open->second.channel != nullptr) {
      retired_.push_back(std::exchange(open->second.channel, nullptr));
    }
  }
  Sort(&calls);
  for (const auto& call : calls) call->Cancel(reason);
}

bool Peers::EndsWithLoss(const PendingCall& call) const {
  return !call.options().outlives_silence || membership_.incarnation_of(call.peer()) > call.addressee();
}

void Peers::EndCallsToTheLost() {
  const absl::Time made_before = environment_.SteadyNow() - membership_.lease();
  std::vector<std::shared_ptr<PendingCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& call : pending_) {
      if (call->addressee() != 0 && call->begun() < made_before) calls.push_back(call);
    }
  }
  Sort(&calls);
  for (const auto& call : calls) {
    const absl::Status loss = membership_.LossOf(call->peer(), call->addressee());
    if (!loss.ok() && EndsWithLoss(*call)) call->Cancel(loss);
  }
}

void Peers::Address(PendingCall* call) {
  absl::MutexLock lock(&mutex_);
  if (!call->options().any_life) call->set_addressee(membership_.incarnation_of(call->peer()));
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
