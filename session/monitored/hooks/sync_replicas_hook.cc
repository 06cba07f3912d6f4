#include "session/monitored/hooks/sync_replicas_hook.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"
#include "kernels/long_wait.h"
#include "kernels/notice.h"
#include "ops/training/sync_replicas.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/logical_steps.h"
#include "session/step.h"

namespace weir {
namespace {

// Of steps that wait as long as training goes on. The system's timers have no longer one.
constexpr absl::Duration kAsLongAsItTakes = absl::Hours(24 * 365);
// Between looks whether a stop was requested.
constexpr absl::Duration kJoinAttempt = absl::Seconds(2);
// A worker that has ended may wait for hours, and says so ever more rarely.
constexpr absl::Duration kLongestNoticeInterval = absl::Minutes(5);
// Between looks whether a step goes on.
constexpr absl::Duration kGlance = absl::Seconds(4);
constexpr absl::Duration kShortestGlance = absl::Milliseconds(100);
// Of the last word to a task that may be gone.
constexpr absl::Duration kFarewell = absl::Seconds(10);
// How long, and how often, a replica says again that it stops, while a step of its own may wait for that.
constexpr absl::Duration kLongestStop = absl::Seconds(30);
constexpr absl::Duration kStopPause = absl::Seconds(1);

class SyncReplica final : public Hook {
 public:
  SyncReplica(bool is_chief, absl::Duration max_wait) : is_chief_(is_chief), max_wait_(max_wait) {}

  absl::string_view name() const override { return "SyncReplicasHook"; }
  void SetTarget(const SessionTarget& target) override {
    if (!is_chief_) chief_is_done_ = target.chief_is_done;
  }
  absl::Status Begin(GraphBuilder& graph) override;
  absl::Status AfterCreateSession(Session& session, Coordinator& coordinator) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    training_->is_in_step = true;
    return RunArgs{.feeds = Life()};
  }
  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    training_->is_in_step = false;
    if (training_->is_over) context.RequestStop();
    return absl::OkStatus();
  }
  // The last step was made with the gradients of the step that was lost, or without them. Asked for again it
  // would make one more.
  bool HasDoneLostCall(bool is_at_end) const override { return has_lost_session_ && is_at_end; }
  void OnTerminated() override { is_terminated_ = true; }
  absl::Status AfterEnd(Session& session) override {
    const absl::Status ended = is_chief_ || is_terminated_ ? absl::OkStatus() : AwaitEnd(session);
    training_->is_left = true;
    // What is left is the session's end: a group that is gone is left, too. A replica that may come again is
    // lost, and not at its end.
    const bool is_lost = !training_->is_over && (is_terminated_ || !ended.ok());
    const SyncReplicasNode end = is_chief_ ? SyncReplicasNode::kClose : SyncReplicasNode::kEnd;
    Run(session, is_lost ? SyncReplicasNode::kStop : end, kFarewell).IgnoreError();
    return ended;
  }

 private:
  Node* NodeFor(SyncReplicasNode what) const { return nodes_[static_cast<size_t>(what)]; }
  Feeds Life() const { return {{NodeFor(SyncReplicasNode::kLife)->output(0), Tensor::Scalar(life_)}}; }
  absl::Status Run(Session& session, SyncReplicasNode what, absl::Duration timeout) const {
    RunOptions options;
    options.timeout = timeout;
    return session.Run(Life(), {}, {NodeFor(what)}, options).status();
  }
  // For steps that are expected to wait: nobody is told that they do.
  absl::Status RunPatiently(Session& session, Node* what, const LogicalStep& update = {}) const;
  absl::Status ResetIfRestored(Session& session);
  absl::Status Join(Session& session, const Coordinator& coordinator) const;
  // On threads. They keep the hook as it was for their session: a later session has another life.
  absl::Status Stay(Session& session, Node* stay, const Coordinator& coordinator) const;
  // Whether the chief has ended, as the tasks say: a group that was lost, or could not be reached when the
  // chief closed its groups, does not know it.
  bool ChiefIsDone() const { return chief_is_done_ && chief_is_done_(); }
  void NoteEnd(Session& session) const;
  // Ends what this replica still waits for on the ps.
  void Stop(Session& session, const Coordinator& threads) const;
  absl::Status Drive(Session& session, const Coordinator& coordinator) const;

  // Until a stop: while a step takes long, whose gradients it waits for. The step itself cannot tell.
  void SayWhoIsAwaited(Session& session, const Coordinator& threads) const;

  // Of a worker that has done its last step: until the chief has ended, too.
  absl::Status AwaitEnd(Session& session) const;

  // Those that are expected to wait.
  class PatientSteps {
   public:
    void Add(const std::shared_ptr<Step>& step) {
      absl::Status cancelled;
      {
        absl::MutexLock lock(&mutex_);
        steps_.insert(step);
        cancelled = cancelled_;
      }
      if (!cancelled.ok()) step->Cancel(cancelled);
    }
    void Remove(const std::shared_ptr<Step>& step) {
      absl::MutexLock lock(&mutex_);
      steps_.erase(step);
    }
    void Cancel(const absl::Status& reason) {
      std::set<std::shared_ptr<Step>> steps;
      {
        absl::MutexLock lock(&mutex_);
        cancelled_ = reason;
        steps = steps_;
      }
      for (const std::shared_ptr<Step>& step : steps) step->Cancel(reason);
    }

   private:
    absl::Mutex mutex_;
    std::set<std::shared_ptr<Step>> steps_ ABSL_GUARDED_BY(mutex_);
    absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  };

  // Shared with the threads of a session.
  struct Training {
    explicit Training(const Coordinator& threads) : threads(threads) {}

    Coordinator threads;
    std::atomic<bool> is_over{false};      // the chief has ended it
    std::atomic<bool> is_finished{false};  // this replica waits for that: the threads stop then
    std::atomic<bool> is_left{false};      // by this replica
    std::atomic<bool> is_in_step{false};   // or in one that has failed
    PatientSteps steps;
  };

  // The chief's updates. One that is lost with its session keeps its number in the next.
  class Updates {
   public:
    explicit Updates(uint64_t writer) : steps_(writer) {}
    LogicalStep Begin() {
      absl::MutexLock lock(&mutex_);
      if (unfinished_ == nullptr) unfinished_ = std::make_unique<LogicalSteps::Call>(steps_);
      unfinished_->BeginAttempt();
      return last_ = unfinished_->Next();
    }
    void Finish(const LogicalStep& step) {
      absl::MutexLock lock(&mutex_);
      if (step.number == last_.number) unfinished_ = nullptr;
    }
    // Its variables have other values now.
    void Forget() {
      absl::MutexLock lock(&mutex_);
      unfinished_ = nullptr;
    }

   private:
    LogicalSteps steps_;
    absl::Mutex mutex_;
    std::unique_ptr<LogicalSteps::Call> unfinished_ ABSL_GUARDED_BY(mutex_);
    LogicalStep last_ ABSL_GUARDED_BY(mutex_);
  };

  const bool is_chief_;
  const absl::Duration max_wait_;
  std::function<bool()> chief_is_done_;  // null of the chief, and where nobody knows
  bool is_terminated_ = false;
  bool has_lost_session_ = false;
  bool needs_reset_ = true;  // of the chief: the groups do not know the values that it has set
  std::shared_ptr<Updates> updates_;
  Output global_step_;
  std::array<Node*, static_cast<size_t>(SyncReplicasNode::kCount)> nodes_ = {};
  std::vector<Node*> stays_, awaited_;  // one for each group
  int64_t life_ = 0;                    // of this session
  std::shared_ptr<Training> training_;
};

absl::Status SyncReplica::Begin(GraphBuilder& graph) {
  const auto& collections = graph.graph().collections();
  const auto found = collections.find(kSyncReplicasCollection);
  if (found == collections.end() || found->second.size() <= nodes_.size()) {
    return absl::FailedPreconditionError(
        "SyncReplicasHook: the graph has no SyncReplicas optimizer whose gradients are applied");
  }
  WEIR_ASSIGN_OR_RETURN(global_step_, GlobalStepOutput(graph.graph(), {}, "SyncReplicasHook"));
  stays_.clear();
  awaited_.clear();
  for (size_t i = 0; i < found->second.size(); ++i) {
    Node* const node = graph.graph().FindNode(found->second[i]);
    if (node == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("SyncReplicasHook: the graph has no node '", found->second[i], "'"));
    }
    const size_t num_groups = (found->second.size() - nodes_.size()) / 2;
    if (i < nodes_.size()) {
      nodes_[i] = node;
    } else {
      (i < nodes_.size() + num_groups ? stays_ : awaited_).push_back(node);
    }
  }
  return absl::OkStatus();
}

absl::Status SyncReplica::AfterCreateSession(Session& session, Coordinator& coordinator) {
  has_lost_session_ = training_ != nullptr;
  training_ = std::make_shared<Training>(coordinator);
  life_ = static_cast<int64_t>(session.environment().Random() >> 1);
  if (is_chief_) WEIR_RETURN_IF_ERROR(ResetIfRestored(session));
  for (Node* const stay : stays_) {
    coordinator.Start("a replica's stay", [self = *this, stay, &session](Coordinator& threads) {
      return self.Stay(session, stay, threads);
    });
  }
  coordinator.Start("a replica's end", [self = *this, &session](Coordinator& threads) {
    self.SayWhoIsAwaited(session, threads);
    self.Stop(session, threads);
    return absl::OkStatus();
  });
  const absl::Status joined = Join(session, coordinator);
  if (absl::IsOutOfRange(joined)) {
    coordinator.RequestStop();  // it has come after the end
    return absl::OkStatus();
  }
  if (!joined.ok() || !is_chief_) return joined;
  coordinator.Start("the driver of replicas",
                    [self = *this, &session](Coordinator& threads) { return self.Drive(session, threads); });
  return absl::OkStatus();
}

absl::Status SyncReplica::ResetIfRestored(Session& session) {
  if (updates_ == nullptr) updates_ = std::make_shared<Updates>(session.environment().Random() | 1);
  needs_reset_ = needs_reset_ || session.has_restored();
  // A group that knows of no step has lost what it had, with its task.
  for (size_t i = 0; i < awaited_.size() && !needs_reset_; ++i) {
    WEIR_ASSIGN_OR_RETURN(const auto group, session.Run({}, {awaited_[i]->output(0)}));
    needs_reset_ = group[0].scalar<int64_t>() == 0;
  }
  if (!needs_reset_) return absl::OkStatus();
  updates_->Forget();
  WEIR_RETURN_IF_ERROR(session.Run(Life(), {}, {NodeFor(SyncReplicasNode::kReset)}).status());
  needs_reset_ = false;
  return absl::OkStatus();
}

absl::Status SyncReplica::Join(Session& session, const Coordinator& coordinator) const {
  Environment& environment = session.environment();
  const absl::Time deadline = environment.Now() + max_wait_;
  LongWait wait(environment, deadline);
  while (true) {
    const absl::Time next_look = std::min(environment.Now() + kJoinAttempt, wait.next_word());
    const absl::Status status =
        Run(session, SyncReplicasNode::kJoin, std::max(next_look - environment.Now(), kShortestGlance));
    if (!absl::IsDeadlineExceeded(status)) return status;
    if (ChiefIsDone()) return absl::OutOfRangeError("training is over: the chief is done");
    if (environment.Now() >= deadline) {
      return absl::FailedPreconditionError(absl::StrCat(
          "SyncReplicasHook: the chief of the replicas has not begun training within ",
          absl::FormatDuration(max_wait_), ": it may have ended, or may have no SyncReplicasHook"));
    }
    wait.Say([] { return "still waiting for the chief of the replicas to begin training"; });
    if (coordinator.should_stop()) {
      const absl::Status why = coordinator.status();
      return why.ok() ? absl::CancelledError("stopped while waiting for the chief of the replicas") : why;
    }
  }
}

absl::Status SyncReplica::RunPatiently(Session& session, Node* what, const LogicalStep& update) const {
  const TensorRef life = NodeFor(SyncReplicasNode::kLife)->output(0);
  const TensorRef number = NodeFor(SyncReplicasNode::kUpdateNumber)->output(0);
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<PreparedStep> step,
                        session.Prepare({life, number}, {}, {what}));
  RunOptions options;
  options.timeout = kAsLongAsItTakes;
  options.logical_step = update;
  const std::shared_ptr<Step> running =
      step->Start({Tensor::Scalar(life_), Tensor::Scalar(update.number)}, options);
  training_->steps.Add(running);
  const absl::Status status = AwaitResults(session.environment(), [&](Step::Done done) {
                                running->OnDone(std::move(done));
                              }).status();
  training_->steps.Remove(running);
  return status;
}

absl::Status SyncReplica::Stay(Session& session, Node* stay, const Coordinator& coordinator) const {
  const absl::Status status = RunPatiently(session, stay);
  if (coordinator.should_stop() || training_->is_left) return absl::OkStatus();
  if (status.ok()) NoteEnd(session);
  return status;
}

void SyncReplica::NoteEnd(Session& session) const {
  if (training_->is_over.exchange(true)) return;
  if (training_->is_finished) return training_->threads.RequestStop();
  // What waits in another group, which has not heard of the end, is dropped.
  Run(session, SyncReplicasNode::kEnd, kFarewell).IgnoreError();
}

void SyncReplica::Stop(Session& session, const Coordinator& threads) const {
  const Environment& environment = session.environment();
  const absl::Time end = environment.SteadyNow() + kLongestStop;
  const Coordinator pause(session.environment());  // nobody stops it
  do {
    // Ends its own waiting too. After End this does nothing. Where one ps is lost the others do not hear it.
    const absl::Status stopped = Run(session, SyncReplicasNode::kStop, kFarewell);
    if (stopped.ok()) return;
    training_->steps.Cancel(stopped);
    const bool is_closed = !IsRecoverable(stopped) && !absl::IsDeadlineExceeded(stopped);
    // A thread has lost a ps, which the program's step may not have: it waits there until the ps hears this.
    const bool may_wait = training_->is_in_step && IsRecoverable(threads.status());
    if (is_closed || !may_wait) return;
    pause.WaitForStop(kStopPause);
  } while (environment.SteadyNow() < end);
}

void SyncReplica::SayWhoIsAwaited(Session& session, const Coordinator& threads) const {
  Environment& environment = session.environment();
  std::vector<int64_t> marks(awaited_.size(), 0);
  absl::Time glance = environment.Now();
  LongWait wait(environment);
  for (absl::Duration pause = kGlance; !threads.WaitForStop(pause);
       pause = std::clamp(wait.next_word() - environment.Now(), kShortestGlance, kGlance)) {
    if (ChiefIsDone()) NoteEnd(session);
    const absl::Time before = std::exchange(glance, environment.Now());
    std::string text;
    bool has_moved = false;
    for (size_t i = 0; i < awaited_.size(); ++i) {
      const auto found =
          session.Run({}, {awaited_[i]->output(0), awaited_[i]->output(1)}, {}, {.timeout = kFarewell});
      if (!found.ok()) continue;  // a ps that is lost: others say so
      const int64_t mark = (*found)[0].scalar<int64_t>();
      has_moved = mark != std::exchange(marks[i], mark) || has_moved;
      if (text.empty()) text = (*found)[1].scalar<std::string>();
    }
    if (text.empty()) {
      wait.Restart(glance);
      continue;
    }
    if (has_moved) wait.Restart(before);  // it may have begun just after that
    wait.Say([&] { return text; });
  }
}

absl::Status SyncReplica::AwaitEnd(Session& session) const {
  training_->is_finished = true;
  Environment& environment = session.environment();
  bool is_told = false;
  int64_t last_step = -1;
  absl::Time last_progress = environment.SteadyNow();
  for (absl::Duration interval = LongWait::kSilence; !training_->is_over && !training_->threads.should_stop();
       interval = std::min(interval * 2, kLongestNoticeInterval)) {
    if (!is_told) {
      const absl::Status told = Run(session, SyncReplicasNode::kFinish, kFarewell);
      if (IsRecoverable(told)) return told;
      is_told = told.ok();
    }
    if (training_->threads.WaitForStop(is_told ? interval : LongWait::kSilence)) break;
    // An error is the same as no progress: the stay tells of a ps that is lost.
    const absl::StatusOr<int64_t> step = ReadGlobalStep(session, global_step_);
    const absl::Time now = environment.SteadyNow();
    if (step.ok() && *step != std::exchange(last_step, *step)) last_progress = now;
    const absl::Duration left = max_wait_ - (now - last_progress);
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "SyncReplicasHook: this worker has done its last step, and the chief has neither ended "
          "training nor made a step for ",
          absl::FormatDuration(max_wait_), ": it may be gone, with what it had not saved"));
    }
    PrintNotice(absl::StrCat("this worker has done its last step, and waits for the chief to end training",
                             last_step >= 0 ? absl::StrCat(", which is at step ", last_step) : "", " (",
                             absl::FormatDuration(absl::Trunc(left, absl::Seconds(1))),
                             " left without a step)"));
  }
  return training_->is_over ? absl::OkStatus() : training_->threads.status();
}

absl::Status SyncReplica::Drive(Session& session, const Coordinator& coordinator) const {
  while (true) {
    const LogicalStep update = updates_->Begin();
    const absl::Status status = RunPatiently(session, NodeFor(SyncReplicasNode::kUpdate), update);
    if (status.ok()) updates_->Finish(update);
    if (absl::IsOutOfRange(status) || coordinator.should_stop()) return absl::OkStatus();
    WEIR_RETURN_IF_ERROR(status);
  }
}

}  // namespace

HookPtr SyncReplicasHook(bool is_chief, absl::Duration max_wait) {
  return std::make_shared<SyncReplica>(is_chief, max_wait);
}

}  // namespace weir
