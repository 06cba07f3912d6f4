#include "distributed/transport/fault/fault_transport.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/transport/handlers_call.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

namespace weir {
namespace {

// A call whose real one begins later, or never. Answers once.
class HeldCall final : public OutgoingCall {
 public:
  explicit HeldCall(Channel::Done done) : done_(std::move(done)) {}

  void Finish(absl::StatusOr<Frame> result) {
    Channel::Done done;
    {
      absl::MutexLock lock(&mutex_);
      if (!done_) return;
      done = std::exchange(done_, nullptr);
    }
    done(std::move(result));
  }

  void Cancel() override {
    std::shared_ptr<OutgoingCall> real;
    {
      absl::MutexLock lock(&mutex_);
      real = real_;
    }
    if (real) return real->Cancel();
    Finish(absl::CancelledError("the call was cancelled"));
  }

  bool is_over() {
    absl::MutexLock lock(&mutex_);
    return !done_;
  }

  void set_real(std::shared_ptr<OutgoingCall> real) {
    absl::MutexLock lock(&mutex_);
    real_ = std::move(real);
  }

 private:
  absl::Mutex mutex_;
  Channel::Done done_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<OutgoingCall> real_ ABSL_GUARDED_BY(mutex_);
};

// Its handler's thread is held up when it has answered.
class PausingCall final : public HandlersCall {
 public:
  PausingCall(std::shared_ptr<IncomingCall> call, absl::Duration pause)
      : HandlersCall(std::move(call)), pause_(pause) {}

  void Reply(absl::StatusOr<Frame> reply) override {
    HandlersCall::Reply(std::move(reply));
    absl::SleepFor(pause_);
  }

 private:
  const absl::Duration pause_;
};

}  // namespace

class FaultTransport::FaultChannel final : public Channel {
 public:
  FaultChannel(FaultTransport* transport, std::unique_ptr<Channel> wrapped)
      : transport_(transport), wrapped_(std::move(wrapped)) {}

  ~FaultChannel() override {
    std::vector<std::weak_ptr<HeldCall>> held;
    {
      absl::MutexLock lock(&state_->mutex);
      state_->is_open = false;
      held.swap(held_);
    }
    for (const auto& weak : held) {
      if (auto call = weak.lock()) call->Cancel();
    }
    wrapped_.reset();
  }

  std::shared_ptr<OutgoingCall> Call(absl::string_view method, Frame request, const CallOptions& wanted,
                                     Done done) override {
    Fault fault;
    if (!transport_->Match(&peer(), method, &fault)) {
      return wrapped_->Call(method, std::move(request), wanted, std::move(done));
    }
    CallOptions options = wanted;
    options.answered_by = nullptr;  // calls of the wrapped transport may outlast `done`
    auto call =
        Hold(std::move(done), options, absl::StrCat(peer().ToString(), " at ", address(), ": ", method));
    switch (fault.action) {
      case Fault::Action::kDropRequest:
        break;
      case Fault::Action::kClose:
        call->Finish(absl::UnavailableError(
            absl::StrCat(peer().ToString(), " at ", address(), ": connection closed")));
        break;
      case Fault::Action::kDropReply:
        call->set_real(wrapped_->Call(method, std::move(request), options, [call](absl::StatusOr<Frame>) {
          call->Finish(absl::UnavailableError("connection closed before the reply"));
        }));
        break;
      case Fault::Action::kDuplicate:
        wrapped_->Call(method, request, options,
                       [call](absl::StatusOr<Frame> reply) { call->Finish(std::move(reply)); });
        wrapped_->Call(method, std::move(request), options,
                       [call](absl::StatusOr<Frame> reply) { call->Finish(std::move(reply)); });
        break;
      case Fault::Action::kDelay:
        SendLater(call, std::string(method), std::move(request), options, fault.delay);
        break;
      case Fault::Action::kPauseAfter:  // the handler's side has it
        break;
    }
    return call;
  }

  const TaskName& peer() const override { return wrapped_->peer(); }
  const std::string& address() const override { return wrapped_->address(); }

 private:
  // Shared with delayed sends, which may fire after the channel is gone.
  struct State {
    absl::Mutex mutex;
    bool is_open ABSL_GUARDED_BY(mutex) = true;
  };

  std::shared_ptr<HeldCall> Hold(Done done, const CallOptions& options, std::string what) {
    auto call = std::make_shared<HeldCall>(std::move(done));
    {
      absl::MutexLock lock(&state_->mutex);
      held_.push_back(call);
    }
    if (options.deadline != absl::InfiniteFuture()) {
      // The timer keeps a dropped call alive until its caller has been told.
      transport_->timers_.Schedule(options.deadline, [call, what = std::move(what)] {
        call->Finish(absl::DeadlineExceededError(absl::StrCat(what, " did not answer in time")));
      });
    }
    return call;
  }

  void SendLater(const std::shared_ptr<HeldCall>& call, std::string method, Frame request,
                 const CallOptions& options, absl::Duration delay) {
    transport_->timers_.Schedule(ProcessNow() + delay, [this, state = state_, call,
                                                        method = std::move(method),
                                                        request = std::move(request), options]() mutable {
      absl::MutexLock lock(&state->mutex);
      if (!state->is_open || call->is_over()) return;
      call->set_real(wrapped_->Call(method, std::move(request), options,
                                    [call](absl::StatusOr<Frame> reply) { call->Finish(std::move(reply)); }));
    });
  }

  FaultTransport* const transport_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::vector<std::weak_ptr<HeldCall>> held_ ABSL_GUARDED_BY(state_->mutex);
  std::unique_ptr<Channel> wrapped_;
};

FaultTransport::FaultTransport(std::unique_ptr<Transport> wrapped) : wrapped_(std::move(wrapped)) {}
FaultTransport::~FaultTransport() = default;

void FaultTransport::Add(Fault fault) {
  absl::MutexLock lock(&mutex_);
  faults_.push_back(std::move(fault));
}

void FaultTransport::Clear() {
  absl::MutexLock lock(&mutex_);
  faults_.clear();
}

int FaultTransport::num_hits() const {
  absl::MutexLock lock(&mutex_);
  return num_hits_;
}

bool FaultTransport::Match(const TaskName* peer, absl::string_view method, Fault* fault) {
  absl::MutexLock lock(&mutex_);
  for (Fault& rule : faults_) {
    const bool is_for_handler = rule.action == Fault::Action::kPauseAfter;
    const bool is_for_task = peer == nullptr || ((rule.job.empty() || rule.job == peer->job) &&
                                                 (rule.task < 0 || rule.task == peer->index));
    const bool matches = is_for_handler == (peer == nullptr) && is_for_task &&
                         absl::StrContains(method, rule.method) && rule.count > 0;
    if (!matches) continue;
    if (rule.skip > 0) {
      --rule.skip;
      continue;
    }
    --rule.count;
    ++num_hits_;
    *fault = rule;
    return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Channel>> FaultTransport::Connect(const TaskName& peer,
                                                                 const std::string& address) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, wrapped_->Connect(peer, address));
  return std::make_unique<FaultChannel>(this, std::move(channel));
}

absl::StatusOr<std::unique_ptr<Listener>> FaultTransport::Listen(const std::string& address,
                                                                 CallHandler handler,
                                                                 PayloadPlacement placement) {
  const auto pausing = [this, handler = std::move(handler)](std::shared_ptr<IncomingCall> call) {
    Fault fault;
    if (Match(nullptr, call->method(), &fault)) {
      call = std::make_shared<PausingCall>(std::move(call), fault.delay);
    }
    handler(std::move(call));
  };
  return wrapped_->Listen(address, pausing, std::move(placement));
}

}  // namespace weir
