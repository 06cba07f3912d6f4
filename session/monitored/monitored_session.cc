#include "session/monitored/monitored_session.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"
#include "kernels/done_by_others.h"
#include "kernels/notice.h"
#include "session/executor/update_ledger.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooked_step.h"
#include "session/monitored/left_out_step.h"
#include "session/monitored/queue_runner.h"

namespace weir {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
// A wait is never silent for longer.
constexpr absl::Duration kReportAfter = absl::Seconds(10);

absl::Status GaveUp(absl::Duration patience, const absl::Status& error) {
  return absl::DeadlineExceededError(
      absl::StrCat("gave up after ", absl::FormatDuration(patience), ": ", error.message()));
}

// How much time attempts have cost by the patience their error deserves, so that waiting for the chief takes
// nothing from what lost peers are given.
class Attempts {
 public:
  explicit Attempts(const Environment& environment)
      : environment_(environment), last_(environment.Now()), next_report_(last_ + kReportAfter) {}

  // Waits before the next attempt, less long when a stop is requested. DeadlineExceeded when the patience is
  // over.
  absl::Status PauseAfter(const absl::Status& error, absl::Duration patience, const Coordinator& stop) {
    const absl::Time now = environment_.Now();
    const absl::Duration length = now - last_;
    absl::Duration& spent = spent_[patience];
    spent += now - last_;
    if (spent + pause_ > patience) {
      return GaveUp(patience, error);
    }
    // The next attempt may take as long as this one.
    if (now + pause_ + length >= next_report_) {
      PrintNotice(absl::StrCat("still waiting (",
                               absl::FormatDuration(absl::Trunc(patience - spent, absl::Seconds(1))),
                               " left): ", error.message()));
      next_report_ = now + kReportAfter;
    }
    stop.WaitForStop(pause_);
    last_ = environment_.Now();
    spent += last_ - now;
    pause_ = std::min(pause_ * 2, kLongestPause);
    return absl::OkStatus();
  }

 private:
  const Environment& environment_;
  absl::Duration pause_ = kFirstPause;
  absl::Time last_;
  absl::Time next_report_;
  std::map<absl::Duration, absl::Duration> spent_;
};

// Steps that were refused one after another because variables are being restored.
class Refusals {
 public:
  // How long they have been refused while there was this patience. A chief that is lost leaves less of it,
  // from then on.
  absl::Duration Add(absl::Time now, absl::Duration patience) {
    if (last_ != absl::InfinitePast()) spent_[patience] += now - last_;
    last_ = now;
    return spent_[patience];
  }

 private:
  absl::Time last_ = absl::InfinitePast();
  std::map<absl::Duration, absl::Duration> spent_;
};

}  // namespace

MonitoredSession::MonitoredSession(GraphBuilder& graph, std::unique_ptr<SessionCreator> creator,
                                   MonitoredSessionOptions options)
    : graph_(graph),
      creator_(std::move(creator)),
      options_(std::move(options)),
      stop_(creator_->environment()),
      stop_end_(creator_->environment()),
      steps_(options_.recovers ? creator_->environment().Random() | 1 : 0) {}

absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredSession::Create(
    GraphBuilder& graph, std::unique_ptr<SessionCreator> creator, MonitoredSessionOptions options) {
  if (creator == nullptr) return absl::InvalidArgumentError("a monitored session needs a session creator");
  std::unique_ptr<MonitoredSession> session(
      new MonitoredSession(graph, std::move(creator), std::move(options)));
  WEIR_RETURN_IF_ERROR(session->Begin());
  WEIR_RETURN_IF_ERROR(session->CreateSession(session->stop_));
  return session;
}

MonitoredSession::~MonitoredSession() {
  const std::shared_ptr<CoordinatedSession> session = current();
  if (session != nullptr && !is_closed_) session->Close().IgnoreError();
}

std::shared_ptr<CoordinatedSession> MonitoredSession::current() const {
  absl::MutexLock lock(&mutex_);
  return current_;
}

std::shared_ptr<CoordinatedSession> MonitoredSession::SetCurrent(
    std::shared_ptr<CoordinatedSession> session) {
  absl::MutexLock lock(&mutex_);
  return std::exchange(current_, std::move(session));
}

bool MonitoredSession::should_stop() const {
  if (stop_.should_stop() || is_at_end_) return true;
  const std::shared_ptr<CoordinatedSession> session = current();
  return session != nullptr && session->coordinator().should_stop() && LostUnderThread(*session).ok();
}

Session& MonitoredSession::session() {
  const std::shared_ptr<CoordinatedSession> session = current();
  return session != nullptr ? session->session() : lost_->session();
}

void MonitoredSession::RequestStop() {
  // Between two calls nothing waits: it says that no other step is wanted, and the last save may still be
  // tried again.
  if (is_ending_ && num_calls_ > 0) stop_end_.RequestStop();
  StopTraining();
}

void MonitoredSession::StopTraining() {
  stop_.RequestStop();
  if (const std::shared_ptr<CoordinatedSession> session = current()) session->StopThreadsSoon();
}

void MonitoredSession::OnSigterm() {
  if (!stop_.should_stop() && !is_at_end_) sigterm_stopped_it_ = true;
  if (is_ending_) stop_end_.RequestStop();
  StopTraining();
}

bool MonitoredSession::WasTerminated() const {
  return sigterm_stopped_it_ || (termination_ != nullptr && Termination::IsRequested());
}

absl::Status MonitoredSession::Begin() {
  for (size_t i = 0; i < options_.hooks.size(); ++i) {
    if (options_.hooks[i] != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("hook ", i, " of ", options_.hooks.size(), " of a monitored session is null"));
  }
  if (options_.stops_on_sigterm) {
    WEIR_ASSIGN_OR_RETURN(termination_, Termination::Watch([this] { OnSigterm(); }));
    if (Termination::IsRequested()) OnSigterm();
  }
  // Hooks first: the creator initialises and saves the variables that they make.
  for (const HookPtr& hook : options_.hooks) {
    hook->SetTarget(creator_->target());
    hook->SetSteps(steps_);
    hook->SetEnd(stop_end_);
    WEIR_RETURN_IF_ERROR(hook->Begin(graph_));
  }
  WEIR_RETURN_IF_ERROR(creator_->Begin(graph_));
  return graph_.status();
}

absl::Status MonitoredSession::CreateSession(const Coordinator& stop) {
  Attempts attempts(creator_->environment());
  while (true) {
    const absl::Status status = TryCreateSession();
    if (status.ok()) return status;
    // Peers that are late are waited for in any case; a session that does not recover gets here only once.
    const absl::Duration patience = creator_->Patience(status);
    if (patience <= absl::ZeroDuration()) return status;
    if (stop.should_stop()) {
      const std::string message = absl::StrCat("stopped while waiting for the cluster: ", status.message());
      return WasTerminated() ? TerminatedError(message) : absl::CancelledError(message);
    }
    WEIR_RETURN_IF_ERROR(attempts.PauseAfter(status, patience, stop));
  }
}

absl::Status MonitoredSession::TryCreateSession() {
  if (std::shared_ptr<CoordinatedSession> lost = SetCurrent(nullptr)) {
    lost->CloseLost();
    lost_ = std::move(lost);
  }
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Session> created, creator_->Create(graph_.graph()));
  const auto session = std::make_shared<CoordinatedSession>(
      std::move(created), CoordinatedSession::Options{.stop_grace_period = options_.stop_grace_period,
                                                      .step_grace_period = options_.step_grace_period});
  // An earlier attempt may have done it, and have failed before all hooks had heard of it.
  if (creator_->num_restores() != num_restores_told_) session->session().NoteRestored();
  SetCurrent(session);
  lost_ = nullptr;
  // After SetCurrent: a stop comes before it or finds it. What Close waits for may need its threads.
  if (stop_now().should_stop()) session->StopThreadsSoon();
  WEIR_RETURN_IF_ERROR(
      StartQueueRunners(scaffold().queue_runners, session->session(), session->coordinator()));
  // Those that set the variables come first: before that they may be torn, and others save and read them.
  std::vector<HookPtr> hooks = options_.hooks;
  std::stable_partition(hooks.begin(), hooks.end(),
                        [](const HookPtr& hook) { return hook->OwnsVariables(); });
  for (const HookPtr& hook : hooks) {
    WEIR_RETURN_IF_ERROR(hook->AfterCreateSession(session->session(), session->coordinator()));
  }
  num_restores_told_ = creator_->num_restores();
  // Nobody has requested a stop: the step that was lost, and maybe the session again, is still waited for.
  // The end is forgotten when that session restores earlier variables.
  is_at_end_ = IsAtEnd();
  return absl::OkStatus();
}

bool MonitoredSession::IsAtEnd() const {
  return std::any_of(options_.hooks.begin(), options_.hooks.end(),
                     [](const HookPtr& hook) { return hook->IsAtEnd(); });
}

bool MonitoredSession::LostCallIsDone() const {
  return std::any_of(options_.hooks.begin(), options_.hooks.end(),
                     [this](const HookPtr& hook) { return hook->HasDoneLostCall(is_at_end_); });
}

absl::Status MonitoredSession::LostUnderThread(CoordinatedSession& session) const {
  const absl::Status status = session.coordinator().status();
  return options_.recovers && IsRecoverable(status) ? status : absl::OkStatus();
}

absl::Status MonitoredSession::FailureOfThreads(CoordinatedSession& session) const {
  const absl::Status status = session.coordinator().status();
  return options_.recovers && IsRecoverable(status) ? absl::OkStatus() : status;
}

absl::Status MonitoredSession::RunUntilKnown(LogicalSteps::Call& call,
                                             absl::FunctionRef<absl::Status()> step) {
  const CallUnderWay under_way(num_calls_);
  if (!failure_.ok()) return failure_;
  if (is_closed_) return absl::FailedPreconditionError("the monitored session is closed");
  if (!over_.ok()) return over_;
  if (have_hooks_ended_) {
    return CausedBySigterm(absl::OutOfRangeError("stopped by SIGTERM: nothing would save another step"));
  }
  if (hook_requested_stop_) {
    return absl::FailedPreconditionError("a hook has requested a stop: check should_stop() before every Run");
  }
  if (const absl::Status lost = LostUnderThread(*current()); !lost.ok()) WEIR_RETURN_IF_ERROR(Recover(lost));
  Refusals refusals;
  // A step that fails in every new session would otherwise be tried without end and without a pause.
  for (absl::Duration pause; true; pause = std::clamp(pause * 2, kFirstPause, kLongestPause)) {
    call.BeginAttempt();
    for (const HookPtr& hook : options_.hooks) hook->BeforeCall();
    absl::Status status = step();
    if (IsDoneByOthers(status) && LostCallIsDone()) status = CannotLeaveOut(status);
    // A recovery within it.
    if (!failure_.ok()) return failure_;
    if (!over_.ok()) return over_;
    if (status.ok()) {
      // A peer was lost under a hook, after the step: the step stays done, only the session is made anew.
      absl::Status lost = std::exchange(lost_under_hook_, absl::OkStatus());
      lost.Update(EndCall(call, /*is_done=*/true));
      if (lost.ok()) return lost;
      return IsRecoverable(lost) ? Recover(lost) : failure_ = lost;
    }
    // A thread that has failed, or lost a peer, is why the step failed. It is no end of the input then.
    const absl::Status cause = current()->coordinator().status();
    if (!cause.ok() && (absl::IsOutOfRange(status) || IsRecoverable(cause))) status = cause;
    if (absl::IsOutOfRange(status)) {
      const bool are_threads_stopped = current()->coordinator().should_stop();
      StopTraining();
      is_ending_ = true;  // what follows, as Horovod's Join, waits for lost peers as Close does
      const absl::Status ended = EndCall(call, /*is_done=*/false);
      if (!ended.ok() && !IsRecoverable(ended)) return failure_ = ended;
      return sigterm_stopped_it_ ? EndTerminated(status, are_threads_stopped) : status;
    }
    if (!IsRecoverable(status)) return failure_ = status;
    if (IsRefusedByRestore(status)) {
      status = creator_->AwaitRestore(status);
      const absl::Duration patience = creator_->Patience(status);
      if (refusals.Add(creator_->environment().Now(), patience) >= patience) {
        return failure_ = GaveUp(patience, status);
      }
    } else {
      refusals = Refusals();
    }
    const bool is_stopped = pause > absl::ZeroDuration() && stop_now().WaitForStop(pause);
    if (is_stopped && !sigterm_stopped_it_) return failure_ = status;
    WEIR_RETURN_IF_ERROR(Recover(status));
  }
}

MonitoredSession::CallUnderWay::CallUnderWay(std::atomic<int>& num_calls) : num_calls_(num_calls) {
  ++num_calls_;
}

MonitoredSession::CallUnderWay::~CallUnderWay() { --num_calls_; }

absl::Status MonitoredSession::EndCall(LogicalSteps::Call& call, bool is_done) {
  call.Settle();
  absl::Status status;
  for (const HookPtr& hook : options_.hooks) status.Update(hook->AfterCall(is_done));
  return status;
}

absl::StatusOr<std::vector<Tensor>> MonitoredSession::Run(const Feeds& feeds,
                                                          const std::vector<TensorRef>& fetches,
                                                          const std::vector<TargetRef>& targets,
                                                          const RunOptions& options) {
  const RunArgs args = {fetches, feeds, targets, options};
  std::vector<Tensor> results;
  LogicalSteps::Call call(steps_);
  WEIR_RETURN_IF_ERROR(RunUntilKnown(call, [&]() -> absl::Status {
    WEIR_ASSIGN_OR_RETURN(results, RunOnce(args, call));
    return absl::OkStatus();
  }));
  return results;
}

absl::Status MonitoredSession::RunStepFn(absl::FunctionRef<absl::Status(StepContext& context)> step) {
  LogicalSteps::Call call(steps_);
  return RunUntilKnown(call, [&] {
    StepContext context(*this, call);
    return step(context);
  });
}

absl::Status MonitoredSession::Recover(const absl::Status& reason) {
  if (!options_.recovers) return failure_ = reason;
  if (sigterm_stopped_it_) {
    // The whole job may be ending: there is nobody to wait for.
    SaveOwnVariables();
    return failure_ =
               TerminatedError(absl::StrCat("stopped by SIGTERM, and a peer was lost: ", reason.message()));
  }
  PrintNotice(absl::StrCat("creating the session anew: ", reason.message()));
  const bool was_at_end = hook_requested_stop_ || is_at_end_;
  const int restores_before = creator_->num_restores();
  absl::Status status = CreateSession(stop_now());
  if (status.ok() && was_at_end) NoteLoss(reason, restores_before);
  if (status.ok()) return status;
  if (absl::IsOutOfRange(status)) {
    StopTraining();
    return over_ = status;
  }
  if (sigterm_stopped_it_) SaveOwnVariables();
  return failure_ = status;
}

absl::Status MonitoredSession::EndTerminated(absl::Status end, bool are_threads_stopped) {
  if (failure_ = EndHooksAndRecover(); !failure_.ok()) return failure_;
  if (are_threads_stopped) {
    end = absl::OutOfRangeError("stopped by SIGTERM before the step under way was done");
  }
  return CausedBySigterm(std::move(end));
}

void MonitoredSession::SaveOwnVariables() {
  const bool owns = std::any_of(options_.hooks.begin(), options_.hooks.end(),
                                [](const HookPtr& hook) { return hook->OwnsVariables(); });
  if (!owns || current() == nullptr) return;
  const bool are_whole = std::all_of(options_.hooks.begin(), options_.hooks.end(),
                                     [](const HookPtr& hook) { return hook->AreVariablesWhole(); });
  if (!are_whole) {
    PrintNotice("ending after SIGTERM: the variables have a part of the step that failed, and are not saved");
    return;
  }
  for (const HookPtr& hook : options_.hooks) hook->OnTerminated();
  if (const absl::Status saved = EndHooks(); !saved.ok()) {
    PrintNotice(absl::StrCat("ending after SIGTERM: ", saved.message()));
  }
}

absl::StatusOr<std::vector<Tensor>> MonitoredSession::RunOnce(RunArgs args, LogicalSteps::Call& call) {
  const bool is_done = LostCallIsDone();
  if (!is_done) args.options.logical_step = call.Next();
  WEIR_ASSIGN_OR_RETURN(
      HookedStepResult result,
      RunWithHooks(session(), options_.hooks, args, stop_, [&](RunArgs& all) -> absl::Status {
        return is_done ? LeaveOutTargets(graph_.graph(), all) : absl::OkStatus();
      }));
  // When a peer was lost too, what the hook saw may be lost with it: it sees the next step, and decides
  // again.
  const bool is_stop = result.stop_requested && result.lost_under_hook.ok();
  // Training has gone on from what was restored, and comes to its end, or has come to it now.
  if (is_stop || !hook_requested_stop_) lost_at_end_ = absl::OkStatus();
  if (is_stop) {
    // Threads go on: the hooks' End may still need them.
    hook_requested_stop_ = true;
    stop_.RequestStop();
  }
  lost_under_hook_ = result.lost_under_hook;
  return std::move(result.fetches);
}

absl::Status MonitoredSession::CannotLeaveOut(const absl::Status& reason) {
  if (is_at_end_) {
    return TrainingIsOverError(absl::StrCat("training is at its last step: ", reason.message()));
  }
  // A process that has just been started goes along with the others.
  return failure_ =
             absl::AbortedError(absl::StrCat("this process must be started again: ", reason.message()));
}

absl::Status MonitoredSession::Close() {
  const CallUnderWay under_way(num_calls_);
  if (is_closed_) return failure_;
  is_closed_ = true;
  stop_.RequestStop();
  // As in TensorFlow: after a thread has failed the hooks end and the model is saved, after a step it is not.
  if (failure_.ok() && over_.ok()) {
    failure_ = FailureOfThreads(*current());
    failure_.Update(EndHooksAndRecover());
  }
  if (const std::shared_ptr<CoordinatedSession> session = current()) {
    session->Close().IgnoreError();
    failure_.Update(FailureOfThreads(*session));
  }
  if (failure_.ok() && sigterm_stopped_it_ && !hook_requested_stop_) {
    failure_ = TerminatedError("stopped by SIGTERM");
  }
  termination_ = nullptr;
  return failure_;
}

absl::Status MonitoredSession::EndHooksAndRecover() {
  if (std::exchange(have_hooks_ended_, true)) return absl::OkStatus();
  is_ending_ = true;
  if (sigterm_stopped_it_ && !hook_requested_stop_) {
    for (const HookPtr& hook : options_.hooks) hook->OnTerminated();
  } else if (WasTerminated()) {
    stop_end_.RequestStop();  // training has come to its end all the same
  }
  absl::Status first = lost_at_end_;
  for (const HookPtr& hook : options_.hooks) {
    if (over_.ok()) first.Update(RecoverWhile(first.ok(), [&] { return hook->End(session()); }));
  }
  for (const HookPtr& hook : options_.hooks) {
    if (over_.ok() && first.ok()) first = RecoverWhile(true, [&] { return hook->AfterEnd(session()); });
  }
  // What could not be saved is to be done again, which the code of an error of the disk would forbid.
  const int exit_code = ExitCodeFor(first);
  const bool forbids_it = exit_code == kExitUserError || exit_code == kExitBadData;
  return forbids_it && WasTerminated() ? CausedBySigterm(first) : first;
}

absl::Status MonitoredSession::RecoverWhile(bool may_recover, absl::FunctionRef<absl::Status()> end) {
  may_recover &= options_.recovers && !sigterm_stopped_it_;
  absl::Status status = end();
  for (absl::Duration pause = kFirstPause; may_recover && IsRecoverable(status);
       pause = std::min(pause * 2, kLongestPause)) {
    WEIR_RETURN_IF_ERROR(RecoverAtTheEnd(status));
    if (!over_.ok()) return absl::OkStatus();
    if (stop_end_.WaitForStop(pause)) break;
    status = end();
  }
  return status;
}

absl::Status MonitoredSession::RecoverAtTheEnd(const absl::Status& reason) {
  PrintNotice(absl::StrCat("creating the session anew, at the end: ", reason.message()));
  const int restores_before = creator_->num_restores();
  const absl::Status created = CreateSession(stop_end_);
  if (absl::IsOutOfRange(created) && !creator_->RestoresVariables()) {
    over_ = created;  // the chief has saved all that there was
    return absl::OkStatus();
  }
  WEIR_RETURN_IF_ERROR(created);
  NoteLoss(reason, restores_before);
  return lost_at_end_;
}

void MonitoredSession::NoteLoss(const absl::Status& reason, int restores_before) {
  const bool is_chief = creator_->RestoresVariables();
  // A worker does not know whether somebody has set them; others may have done since what was missing.
  if (!IsAtEnd() && (!is_chief || creator_->num_restores() != restores_before)) {
    lost_at_end_ = absl::AbortedError(
        absl::StrCat("variables were lost at the end, and are now as they were saved before: started again, "
                     "the program does the steps that are missing (",
                     reason.message(), ")"));
  } else if (!is_chief) {
    lost_at_end_ = absl::OkStatus();
  }
}

absl::Status MonitoredSession::EndHooks() {
  absl::Status first;
  for (const HookPtr& hook : options_.hooks) first.Update(hook->End(session()));
  return first;
}

absl::StatusOr<int64_t> MonitoredSession::GlobalStep() {
  const CallUnderWay under_way(num_calls_);
  const Output step = scaffold().global_step;
  if (!step) return absl::FailedPreconditionError("the graph has no global step");
  while (true) {
    if (!failure_.ok()) return failure_;
    if (!over_.ok()) return over_;
    absl::StatusOr<std::vector<Tensor>> values = session().Run({}, {step});
    if (values.ok()) return (*values)[0].scalar<int64_t>();
    if (!IsRecoverable(values.status()) || is_closed_) return values.status();
    WEIR_RETURN_IF_ERROR(Recover(values.status()));
  }
}

}  // namespace weir
