#include "distributed/transport/inproc/inproc_transport.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/timing/timer_queue.h"
#include "distributed/transport/handlers_call.h"
#include "distributed/transport/pending_reply.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {

class InprocListener;

class InprocNetwork {
 public:
  TimerQueue& threads() { return threads_; }

  absl::StatusOr<std::string> Bind(const std::string& address, InprocListener* listener) {
    WEIR_ASSIGN_OR_RETURN(HostPort host_port, HostPort::Parse(address));
    absl::MutexLock lock(&mutex_);
    if (host_port.port == 0) host_port.port = next_port_++;
    if (!listeners_.emplace(host_port.ToString(), listener).second) {
      return absl::AlreadyExistsError(absl::StrCat("cannot listen at ", address, ": the port is in use"));
    }
    return host_port.ToString();
  }

  void Unbind(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    listeners_.erase(address);
  }

  // False when nobody listens there. Holding the network's lock keeps the listener alive until it has the
  // call.
  template <typename Deliver>
  bool WithListener(const std::string& address, Deliver deliver) {
    absl::MutexLock lock(&mutex_);
    auto it = listeners_.find(address);
    if (it == listeners_.end()) return false;
    deliver(it->second);
    return true;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, InprocListener*> listeners_ ABSL_GUARDED_BY(mutex_);
  int next_port_ ABSL_GUARDED_BY(mutex_) = 40'000;
  TimerQueue threads_{ListeningThreads::Options{.num_threads = 4, .max_threads = 32}};
};

namespace {

// Both ends of one call. Answered once: by the handler, the deadline, a cancellation or the loss of a side.
class InprocCall final : public OutgoingCall, public IncomingCall {
 public:
  InprocCall(std::string method, Frame request, absl::Time deadline, Channel::Done done)
      : method_(std::move(method)),
        request_(std::move(request)),
        deadline_(deadline),
        done_(std::move(done)) {}

  // The client's side.
  void Cancel() override { Abandon(absl::CancelledError(absl::StrCat(method_, " was cancelled"))); }
  bool is_finished() {
    absl::MutexLock lock(&mutex_);
    return is_finished_;
  }
  void Abandon(absl::Status reason) {
    pending_.GiveUp();
    Finish(std::move(reason));
  }

  // The server's side. Before the handler is called.
  void set_listener(InprocListener* listener) { listener_ = listener; }
  const std::string& method() const override { return method_; }
  Frame& request() override { return request_; }
  absl::Time deadline() const override { return deadline_; }
  std::string client() const override { return "inproc"; }
  void Compute(absl::AnyInvocable<void()> work) override;
  void Reply(absl::StatusOr<Frame> reply) override {
    if (pending_.BeginReply()) Finish(std::move(reply));
  }
  void OnCancel(std::function<void()> callback) override { pending_.OnGivenUp(std::move(callback)); }

 private:
  void Finish(absl::StatusOr<Frame> result) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(is_finished_, true)) return;
    }
    Channel::Done done = std::exchange(done_, nullptr);
    done(std::move(result));
  }

  const std::string method_;
  Frame request_;
  const absl::Time deadline_;
  Channel::Done done_;
  InprocListener* listener_ = nullptr;
  PendingReply pending_;
  absl::Mutex mutex_;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;  // `done` has been called, or is about to be
};

// Calls that may still be under way; forgets those that are over now and then.
class CallSet {
 public:
  void Add(const std::shared_ptr<InprocCall>& call) {
    if (calls_.size() >= prune_at_) {
      std::erase_if(calls_, [](const std::weak_ptr<InprocCall>& call) { return call.expired(); });
      prune_at_ = 2 * calls_.size() + 16;
    }
    calls_.push_back(call);
  }
  std::vector<std::shared_ptr<InprocCall>> Live() const {
    std::vector<std::shared_ptr<InprocCall>> live;
    for (const auto& weak : calls_) {
      if (auto call = weak.lock()) live.push_back(std::move(call));
    }
    return live;
  }

 private:
  std::vector<std::weak_ptr<InprocCall>> calls_;
  size_t prune_at_ = 16;
};

}  // namespace

class InprocListener final : public Listener {
 public:
  InprocListener(std::shared_ptr<InprocNetwork> network, CallHandler handler)
      : network_(std::move(network)), handler_(std::move(handler)) {}
  ~InprocListener() override { Shutdown(); }

  absl::Status Bind(const std::string& address) {
    WEIR_ASSIGN_OR_RETURN(address_, network_->Bind(address, this));
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

  // Called under the network's lock.
  void Accept(std::shared_ptr<InprocCall> call) {
    absl::MutexLock lock(&mutex_);
    calls_.Add(call);
    ++num_handlers_;
    network_->threads().Run([this, call = std::move(call)] {
      call->set_listener(this);
      handler_(std::make_shared<HandlersCall>(call));
      OnHandlerDone();
    });
  }

  void Shutdown() override {
    if (!address_.empty()) network_->Unbind(std::exchange(address_, ""));
    std::vector<std::shared_ptr<InprocCall>> unanswered;
    std::map<int64_t, absl::AnyInvocable<void()>> dropped;  // outside the lock
    {
      absl::MutexLock lock(&mutex_);
      is_closing_ = true;
      unanswered = calls_.Live();
      dropped.swap(works_);
    }
    for (const auto& call : unanswered) call->Abandon(absl::UnavailableError("the server was shut down"));
    dropped.clear();
    absl::MutexLock lock(&mutex_);
    while (num_handlers_ > 0) idle_.Wait(&mutex_);
  }

  void Compute(absl::AnyInvocable<void()> work) {
    int64_t id = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (is_closing_) return;
      id = next_work_++;
      works_.emplace(id, std::move(work));
      ++num_handlers_;
    }
    network_->threads().Compute([this, id] {
      if (absl::AnyInvocable<void()> work = TakeWork(id)) work();  // and is dropped
      OnHandlerDone();
    });
  }

 private:
  // Empty when it was dropped.
  absl::AnyInvocable<void()> TakeWork(int64_t id) {
    absl::MutexLock lock(&mutex_);
    auto work = works_.extract(id);
    return work.empty() ? nullptr : std::move(work.mapped());
  }

  void OnHandlerDone() {
    absl::MutexLock lock(&mutex_);
    if (--num_handlers_ == 0) idle_.SignalAll();
  }

  const std::shared_ptr<InprocNetwork> network_;
  const CallHandler handler_;
  std::string address_;
  absl::Mutex mutex_;
  absl::CondVar idle_;
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  int num_handlers_ ABSL_GUARDED_BY(mutex_) = 0;  // handlers and works, running or to run
  int64_t next_work_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, absl::AnyInvocable<void()>> works_ ABSL_GUARDED_BY(mutex_);  // not begun
  CallSet calls_ ABSL_GUARDED_BY(mutex_);
};

namespace {

void InprocCall::Compute(absl::AnyInvocable<void()> work) { listener_->Compute(std::move(work)); }

class InprocChannel final : public Channel {
 public:
  InprocChannel(std::shared_ptr<InprocNetwork> network, TaskName peer, std::string address)
      : network_(std::move(network)), peer_(std::move(peer)), address_(std::move(address)) {}

  ~InprocChannel() override {
    std::vector<std::shared_ptr<InprocCall>> calls;
    {
      absl::MutexLock lock(&mutex_);
      calls = calls_.Live();
    }
    for (const auto& call : calls) call->Cancel();
    absl::MutexLock lock(&mutex_);
    while (num_calls_ > 0) idle_.Wait(&mutex_);
  }

  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request, const CallOptions& options,
                                     Done done) override {
    {
      absl::MutexLock lock(&mutex_);
      ++num_calls_;
    }
    auto finish = [this, done = std::move(done)](absl::StatusOr<Frame> reply) mutable {
      done(std::move(reply));
      done = nullptr;
      absl::MutexLock lock(&mutex_);
      if (--num_calls_ == 0) idle_.SignalAll();
    };
    auto call = std::make_shared<InprocCall>(std::string(method), std::move(request), options.deadline,
                                             std::move(finish));
    {
      absl::MutexLock lock(&mutex_);
      calls_.Add(call);
    }
    const Target target{network_.get(), address_,
                        absl::StrCat(peer_.ToString(), " at ", address_, ": ", method)};
    network_->threads().Run([target, call, options] { Deliver(target, call, options); });
    if (options.deadline != absl::InfiniteFuture()) {
      network_->threads().Schedule(
          options.deadline, [weak = std::weak_ptr<InprocCall>(call), what = target.what] {
            auto late = weak.lock();
            if (late)
              late->Abandon(absl::DeadlineExceededError(absl::StrCat(what, " did not answer in time")));
          });
    }
    return call;
  }

  const TaskName& peer() const override { return peer_; }
  const std::string& address() const override { return address_; }

 private:
  // What a delivery needs after the channel may be gone.
  struct Target {
    InprocNetwork* network;  // runs the deliveries, so it is there
    std::string address;
    std::string what;
  };

  static void Deliver(const Target& target, const std::shared_ptr<InprocCall>& call,
                      const CallOptions& options) {
    if (target.network->WithListener(target.address,
                                     [&](InprocListener* listener) { listener->Accept(call); }))
      return;
    if (!options.wait_for_ready) {
      return call->Abandon(absl::UnavailableError(absl::StrCat(target.what, ": connection refused")));
    }
    if (ProcessNow() >= options.deadline || call->is_finished()) return;
    target.network->threads().Schedule(ProcessNow() + absl::Milliseconds(5),
                                       [target, call, options] { Deliver(target, call, options); });
  }

  const std::shared_ptr<InprocNetwork> network_;
  const TaskName peer_;
  const std::string address_;
  absl::Mutex mutex_;
  absl::CondVar idle_;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  CallSet calls_ ABSL_GUARDED_BY(mutex_);
};

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(std::shared_ptr<InprocNetwork> network) : network_(std::move(network)) {}

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const TaskName& peer,
                                                   const std::string& address) override {
    WEIR_RETURN_IF_ERROR(HostPort::Parse(address).status());
    return std::make_unique<InprocChannel>(network_, peer, address);
  }

  using Transport::Listen;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, CallHandler handler,
                                                   PayloadPlacement) override {
    auto listener = std::make_unique<InprocListener>(network_, std::move(handler));
    WEIR_RETURN_IF_ERROR(listener->Bind(address));
    return listener;
  }

 private:
  const std::shared_ptr<InprocNetwork> network_;
};

}  // namespace

std::shared_ptr<InprocNetwork> MakeInprocNetwork() { return std::make_shared<InprocNetwork>(); }

std::unique_ptr<Transport> MakeInprocTransport(std::shared_ptr<InprocNetwork> network) {
  return std::make_unique<InprocTransport>(std::move(network));
}

}  // namespace weir
