#include "tests/simulation/simulated_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/transport/handlers_call.h"
#include "distributed/transport/pending_reply.h"
#include "graph/types/status_macros.h"

namespace weir {

using Process = Scheduler::Process;

constexpr absl::Duration kConnectAgain = absl::Milliseconds(100);

// Of a channel: the process that it reaches, until the connection breaks.
struct Connection {
  Process* server = nullptr;
};

// The client's side of a call.
class SimulatedCall final : public OutgoingCall, public std::enable_shared_from_this<SimulatedCall> {
 public:
  SimulatedCall(SimulatedNetwork& network, Process& client, std::shared_ptr<Connection> connection,
                std::string address, std::string what, std::string method, Frame request,
                const CallOptions& options, Channel::Done done)
      : network_(network),
        client_(client),
        connection_(std::move(connection)),
        address_(std::move(address)),
        what_(std::move(what)),
        method_(std::move(method)),
        request_(std::move(request)),
        options_(options),
        done_(std::move(done)) {}

  void Begin() {
    if (options_.deadline != absl::InfiniteFuture()) {
      const absl::Time deadline = client_.clock.WorldTimeOf(options_.deadline);
      deadline_event_ = network_.scheduler_.AddEvent(client_, deadline, [self = shared_from_this()] {
        self->deadline_event_ = 0;
        self->Finish(absl::DeadlineExceededError(absl::StrCat(self->what_, " did not answer in time")));
      });
    }
    Attempt();
  }

  void Cancel() override {
    network_.scheduler_.AddEvent(client_, network_.scheduler_.now(), [self = shared_from_this()] {
      self->Finish(absl::CancelledError(absl::StrCat(self->what_, " was cancelled")));
    });
  }

  // Once.
  void Finish(absl::StatusOr<Frame> result) {
    if (std::exchange(is_over_, true)) return;
    if (deadline_event_ != 0) network_.scheduler_.RemoveEvent(std::exchange(deadline_event_, 0));
    Channel::Done done = std::exchange(done_, nullptr);
    done(std::move(result));
  }
  void Break(absl::string_view why) { Finish(absl::UnavailableError(absl::StrCat(what_, ": ", why))); }
  // The same a little later, as whoever is told by the network is.
  void BreakSoon(absl::string_view why) {
    network_.scheduler_.AddEvent(client_, network_.scheduler_.now() + network_.Delay(),
                                 [self = shared_from_this(), why = std::string(why)] { self->Break(why); });
  }

  Process& client() { return client_; }
  const Process* server() const { return server_; }
  bool is_over() const { return is_over_; }
  // The client is gone: the server is told.
  void GiveUp();

 private:
  void Attempt();
  void Arrive(Frame request, bool is_repeated);

  SimulatedNetwork& network_;
  Process& client_;
  const std::shared_ptr<Connection> connection_;
  Process* server_ = nullptr;  // once it has been found
  const std::string address_;
  const std::string what_;
  const std::string method_;
  Frame request_;
  const CallOptions options_;
  std::weak_ptr<class SimulatedRequest> request_at_server_;
  Channel::Done done_;
  bool is_over_ = false;
  Scheduler::EventId deadline_event_ = 0;
};

// The server's side of a request that has come. Later ones of a repeated request are not answered.
class SimulatedRequest final : public IncomingCall {
 public:
  SimulatedRequest(SimulatedNetwork& network, class SimulatedListener* listener,
                   std::shared_ptr<SimulatedCall> call, std::string method, Frame request,
                   absl::Time deadline, bool is_repeated)
      : network_(network),
        listener_(listener),
        call_(std::move(call)),
        method_(std::move(method)),
        request_(std::move(request)),
        deadline_(deadline),
        is_repeated_(is_repeated) {}

  const std::string& method() const override { return method_; }
  Frame& request() override { return request_; }
  absl::Time deadline() const override { return deadline_; }
  std::string client() const override { return absl::StrCat("simulated:", call_->client().name); }
  void Compute(absl::AnyInvocable<void()> work) override;
  void Reply(absl::StatusOr<Frame> reply) override;
  void OnCancel(std::function<void()> callback) override { pending_.OnGivenUp(std::move(callback)); }

  void GiveUp() { pending_.GiveUp(); }
  // The listener is going.
  void Abandon() {
    Reply(absl::UnavailableError("the server was shut down"));
    listener_ = nullptr;
  }

 private:
  SimulatedNetwork& network_;
  class SimulatedListener* listener_;
  const std::shared_ptr<SimulatedCall> call_;
  const std::string method_;
  Frame request_;
  const absl::Time deadline_;
  const bool is_repeated_;
  PendingReply pending_;
};

class SimulatedListener final : public Listener {
 public:
  SimulatedListener(SimulatedNetwork& network, Process& process, std::string address, CallHandler handler)
      : network_(network), process_(process), address_(std::move(address)), handler_(std::move(handler)) {
    network_.listeners_[address_] = this;
    network_.listener_of_process_[&process_] = this;
  }
  ~SimulatedListener() override {
    Shutdown();
    *is_there_ = false;
  }

  const std::string& address() const override { return address_; }
  Process& process() { return process_; }

  // Handlers run in events, so none runs while somebody calls this.
  void Shutdown() override {
    if (std::exchange(is_shut_down_, true)) return;
    const auto bound = network_.listeners_.find(address_);
    if (bound != network_.listeners_.end() && bound->second == this) network_.listeners_.erase(bound);
    network_.listener_of_process_.erase(&process_);
    for (const auto& [id, weak] : std::exchange(requests_, {})) {
      if (const auto request = weak.lock()) request->Abandon();
    }
    works_.clear();
  }

  void Accept(std::shared_ptr<SimulatedRequest> request) {
    std::erase_if(requests_, [](const auto& entry) { return entry.second.expired(); });
    requests_.emplace(next_id_++, request);
    handler_(std::make_shared<HandlersCall>(std::move(request)));
  }

  void Compute(absl::AnyInvocable<void()> work) {
    const uint64_t id = next_id_++;
    works_.emplace(id, std::move(work));
    network_.scheduler_.AddEvent(process_, network_.scheduler_.now(), [this, id, is_there = is_there_] {
      if (!*is_there) return;
      auto found = works_.extract(id);
      if (!found.empty()) found.mapped()();
    });
  }

 private:
  SimulatedNetwork& network_;
  Process& process_;
  const std::string address_;
  const CallHandler handler_;
  bool is_shut_down_ = false;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::weak_ptr<SimulatedRequest>> requests_;
  std::map<uint64_t, absl::AnyInvocable<void()>> works_;  // not begun
  // Whether this object is still there, for events that come later.
  const std::shared_ptr<bool> is_there_ = std::make_shared<bool>(true);
};

void SimulatedCall::Attempt() {
  if (is_over_) return;
  // The system has closed the connections of a process that is gone: nobody waits for keepalives.
  if (!network_.listener_of_process_.contains(connection_->server)) connection_->server = nullptr;
  if (connection_->server == nullptr) {
    const auto found = network_.listeners_.find(address_);
    if (network_.is_closed_ || found == network_.listeners_.end()) {
      if (network_.is_closed_ || !options_.wait_for_ready) return BreakSoon("connection refused");
      network_.scheduler_.AddEvent(client_, network_.scheduler_.now() + kConnectAgain,
                                   [self = shared_from_this()] { self->Attempt(); });
      return;
    }
    connection_->server = &found->second->process();
  }
  server_ = connection_->server;
  const auto self = shared_from_this();
  const auto lost = [self] {
    if (self->connection_->server == self->server_) self->connection_->server = nullptr;
    if (self->options_.wait_for_ready && !self->is_over_) return self->Attempt();
    self->Break("the connection broke");
  };
  network_.scheduler_.AddEvent(client_, network_.scheduler_.now() + SimulatedNetwork::kKeepAlive,
                               [weak = weak_from_this(), connection = connection_, server = server_] {
                                 if (!server->is_paused) return;
                                 if (connection->server == server) connection->server = nullptr;
                                 if (const auto call = weak.lock()) call->Break("no answer to keepalives");
                               });
  if (network_.Happens(network_.options_.repeated)) {
    network_.Send(
        client_, *server_, client_, absl::StrCat("again ", method_),
        [self, request = request_] { self->Arrive(request, true); }, [] {});
  }
  if (network_.Happens(network_.options_.lost_requests)) {
    network_.scheduler_.Note({"lost ", method_});
    network_.scheduler_.AddEvent(client_, network_.scheduler_.now() + network_.Delay(), lost);
    return;
  }
  network_.Send(
      client_, *server_, client_, method_, [self, request = request_] { self->Arrive(request, false); },
      lost);
}

// On the server's process.
void SimulatedCall::Arrive(Frame request, bool is_repeated) {
  const auto found = network_.listener_of_process_.find(server_);
  if (found == network_.listener_of_process_.end()) {
    if (!is_repeated) BreakSoon("the connection broke");
    return;
  }
  // It travels as a duration.
  const absl::Time deadline = options_.deadline == absl::InfiniteFuture()
                                  ? options_.deadline
                                  : server_->clock.Shown(client_.clock.WorldTimeOf(options_.deadline));
  auto arrived = std::make_shared<SimulatedRequest>(network_, found->second, shared_from_this(), method_,
                                                    std::move(request), deadline, is_repeated);
  if (!is_repeated) request_at_server_ = arrived;
  found->second->Accept(std::move(arrived));
}

void SimulatedCall::GiveUp() {
  if (server_ == nullptr) return;
  network_.scheduler_.AddEvent(*server_, network_.scheduler_.now() + network_.Delay(),
                               [self = shared_from_this()] {
                                 if (const auto request = self->request_at_server_.lock()) request->GiveUp();
                               });
}

void SimulatedRequest::Compute(absl::AnyInvocable<void()> work) {
  if (listener_ != nullptr) listener_->Compute(std::move(work));
}

void SimulatedRequest::Reply(absl::StatusOr<Frame> reply) {
  if (!pending_.BeginReply() || is_repeated_ || listener_ == nullptr) return;
  const auto lost = [call = call_] { call->Break("the connection broke before the reply"); };
  if (network_.Happens(network_.options_.lost_replies)) {
    network_.scheduler_.Note({"lost the reply to ", method_});
    network_.scheduler_.AddEvent(call_->client(), network_.scheduler_.now() + network_.Delay(), lost);
    return;
  }
  network_.Send(
      listener_->process(), call_->client(), call_->client(), absl::StrCat("reply to ", method_),
      [call = call_, reply = std::move(reply)]() mutable { call->Finish(std::move(reply)); }, lost);
}

class SimulatedChannel final : public Channel {
 public:
  SimulatedChannel(SimulatedNetwork& network, Process& process, TaskName peer, std::string address)
      : network_(network), process_(process), peer_(std::move(peer)), address_(std::move(address)) {}
  ~SimulatedChannel() override {
    for (const auto& weak : calls_) {
      if (const auto call = weak.lock()) call->Finish(absl::CancelledError("the channel was closed"));
    }
  }

  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request, const CallOptions& options,
                                     Done done) override {
    auto call =
        std::make_shared<SimulatedCall>(network_, process_, connection_, address_,
                                        absl::StrCat(peer_.ToString(), " at ", address_, ": ", method),
                                        std::string(method), std::move(request), options, std::move(done));
    std::erase_if(calls_, [](const auto& weak) { return weak.expired(); });
    calls_.push_back(call);
    network_.Remember(call);
    call->Begin();
    return call;
  }

  const TaskName& peer() const override { return peer_; }
  const std::string& address() const override { return address_; }

 private:
  SimulatedNetwork& network_;
  Process& process_;
  const TaskName peer_;
  const std::string address_;
  const std::shared_ptr<Connection> connection_ = std::make_shared<Connection>();
  std::vector<std::weak_ptr<SimulatedCall>> calls_;
};

namespace {

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(SimulatedNetwork& network, Process& process,
                     const std::map<std::string, SimulatedListener*>& listeners)
      : network_(network), process_(process), listeners_(listeners) {}

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    WEIR_RETURN_IF_ERROR(HostPort::Parse(address).status());
    return std::make_unique<SimulatedChannel>(network_, process_, peer, address);
  }

  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement) override {
    WEIR_RETURN_IF_ERROR(HostPort::Parse(address).status());
    if (listeners_.contains(address)) {
      return absl::AlreadyExistsError(absl::StrCat("cannot listen at ", address, ": the port is in use"));
    }
    return std::make_unique<SimulatedListener>(network_, process_, address, std::move(handler));
  }

 private:
  SimulatedNetwork& network_;
  Process& process_;
  const std::map<std::string, SimulatedListener*>& listeners_;
};

}  // namespace

SimulatedNetwork::SimulatedNetwork(Scheduler& scheduler, const NetworkOptions& options)
    : scheduler_(scheduler), options_(options) {}

SimulatedNetwork::~SimulatedNetwork() = default;

std::unique_ptr<Transport> SimulatedNetwork::MakeTransport(SimulatedEnvironment& environment) {
  return std::make_unique<SimulatedTransport>(*this, environment.process(), listeners_);
}

SimulatedNetwork::LinkState SimulatedNetwork::StateOf(const Process& from, const Process& to) const {
  const auto found = links_.find({&from, &to});
  return found == links_.end() ? LinkState::kGood : found->second;
}

absl::Duration SimulatedNetwork::Delay() {
  constexpr size_t kSteps = 1000;
  const absl::Duration step = (options_.max_delay - options_.min_delay) / static_cast<int64_t>(kSteps);
  absl::Duration delay = options_.min_delay + step * static_cast<int64_t>(scheduler_.Below(kSteps));
  if (Happens(options_.slow)) delay += options_.long_delay;
  return delay;
}

bool SimulatedNetwork::Happens(double share) {
  constexpr size_t kParts = 1'000'000;
  return share > 0 && scheduler_.Below(kParts) < share * kParts;
}

void SimulatedNetwork::Send(Process& from, Process& to, Process& caller, absl::string_view what,
                            absl::AnyInvocable<void()> deliver, absl::AnyInvocable<void()> lost) {
  ++num_messages_;
  scheduler_.Note({from.name, " -> ", to.name, " ", what});
  const LinkState state = is_closed_ ? LinkState::kFlaps : StateOf(from, to);
  if (state == LinkState::kFlaps) {
    scheduler_.AddEvent(caller, scheduler_.now() + Delay(), std::move(lost));
    return;
  }
  if (state == LinkState::kGood) {
    scheduler_.AddEvent(to, scheduler_.now() + Delay(), std::move(deliver));
    return;
  }
  const uint64_t id = next_held_++;
  held_.emplace(id, Held{{&from, &to}, [this, &to, deliver = std::move(deliver)]() mutable {
                           scheduler_.AddEvent(to, scheduler_.now() + Delay(), std::move(deliver));
                         }});
  scheduler_.AddEvent(caller, scheduler_.now() + kKeepAlive, [this, id, lost = std::move(lost)]() mutable {
    if (held_.erase(id) == 1) lost();
  });
}

void SimulatedNetwork::Cut(const Process& from, const Process& to) {
  scheduler_.Note({"cut ", from.name, " -> ", to.name});
  links_[{&from, &to}] = LinkState::kCut;
  // Calls that only wait for their reply: the keepalive finds out, when the link is still cut.
  for (const auto& call : CallsBetween(from, &to)) {
    scheduler_.AddEvent(call->client(), scheduler_.now() + kKeepAlive, [this, call, &from, &to] {
      if (StateOf(from, to) == LinkState::kCut) call->Break("no answer to keepalives");
    });
  }
}

void SimulatedNetwork::Flap(const Process& from, const Process& to) {
  scheduler_.Note({"flap ", from.name, " -> ", to.name});
  links_[{&from, &to}] = LinkState::kFlaps;
}

void SimulatedNetwork::Heal(const Process& from, const Process& to) {
  scheduler_.Note({"heal ", from.name, " -> ", to.name});
  links_.erase({&from, &to});
  std::vector<absl::AnyInvocable<void()>> released;
  for (auto it = held_.begin(); it != held_.end();) {
    if (it->second.link == Link(&from, &to)) {
      released.push_back(std::move(it->second.deliver));
      it = held_.erase(it);
    } else {
      ++it;
    }
  }
  for (auto& deliver : released) deliver();
}

void SimulatedNetwork::Kill(const Process& process) {
  TakeAddresses(process);
  listener_of_process_.erase(&process);
  for (const auto& call : CallsBetween(process, nullptr)) {
    if (call->server() == &process) call->BreakSoon("connection reset");
    if (&call->client() == &process) call->GiveUp();
  }
}

void SimulatedNetwork::TakeAddresses(const Process& process) {
  std::erase_if(listeners_, [&](const auto& entry) { return &entry.second->process() == &process; });
}

void SimulatedNetwork::Close() {
  is_closed_ = true;
  listeners_.clear();
  listener_of_process_.clear();
  for (const auto& [id, weak] : calls_) {
    if (const auto call = weak.lock()) call->BreakSoon("the world ends");
  }
}

void SimulatedNetwork::Remember(const std::shared_ptr<SimulatedCall>& call) {
  std::erase_if(calls_, [](const auto& entry) { return entry.second.expired(); });
  calls_.emplace(next_call_++, call);
}

std::vector<std::shared_ptr<SimulatedCall>> SimulatedNetwork::CallsBetween(const Process& one,
                                                                           const Process* other) {
  std::vector<std::shared_ptr<SimulatedCall>> found;
  for (const auto& [id, weak] : calls_) {
    const auto call = weak.lock();
    if (call == nullptr || call->is_over()) continue;
    const Process* const ends[] = {&call->client(), call->server()};
    const bool has_one = ends[0] == &one || ends[1] == &one;
    const bool has_other = other == nullptr || ends[0] == other || ends[1] == other;
    if (has_one && has_other) found.push_back(call);
  }
  return found;
}

}  // namespace weir
