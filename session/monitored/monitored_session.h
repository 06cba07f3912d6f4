// A session that initialises or restores the model, runs hooks around every step, and survives lost peers
// (tf.train.MonitoredSession). MonitoredTrainingSession (training_session.h) makes one with the hooks that
// training needs.
//
//   while (!session->should_stop()) WEIR_RETURN_IF_ERROR(session->Run(feeds, {}, {train}).status());
//   return session->Close();
//
// When a step fails because a peer was lost or restarted (IsRecoverable), or a thread of a hook does, its
// creator makes a new session, the chief's restoring what was lost, and the step runs again. What the first
// attempt has applied to variables is not applied twice, as long as these have not been restored since
// (session/executor/update_ledger.h). While the chief restores, the steps of workers are refused: they are
// tried again for as long as variables without a value would be waited for (WorkerSessionOptions).
//
// A stop, by SIGTERM too, lets the step that runs end: the threads of hooks go on until Close has called the
// hooks' End, or until step_grace_period is over.
//
// Borrows the builder and the target's workers, which must outlive it; after creation the graph must not
// grow. Thread safety: one thread at a time; RequestStop and should_stop from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "graph/graph_builder.h"
#include "session/monitored/coordinated_session.h"
#include "session/monitored/coordinator.h"
#include "session/monitored/hook.h"
#include "session/monitored/logical_steps.h"
#include "session/monitored/scaffold.h"
#include "session/monitored/session_creator.h"
#include "session/monitored/termination.h"
#include "session/session.h"

namespace weir {

struct MonitoredSessionOptions {
  std::vector<HookPtr> hooks;
  // Whether a lost peer is waited for; otherwise its loss ends the session, as in a SingularMonitoredSession.
  bool recovers = true;
  // Whether SIGTERM stops the session (termination.h): the step that runs is finished, Close calls the hooks'
  // End, which saves, and returns TerminatedError, whose exit code is 143.
  bool stops_on_sigterm = true;
  // How long threads that hooks have started with the coordinator may take to stop, before the session is
  // closed under them.
  absl::Duration stop_grace_period = absl::Minutes(2);
  // How long these threads go on after a stop was requested, unless Close comes first: a step that waits for
  // what they bring gets it. Then they stop, and such a step ends as it does at the end of the input.
  absl::Duration step_grace_period = absl::Seconds(5);
};

class MonitoredSession {
 public:
  // Finishes the graph (hooks' Begin, then the creator's) and creates the session. Errors: the builder's, the
  // hooks', the creator's; DeadlineExceeded, naming the variables or tasks waited for.
  static absl::StatusOr<std::unique_ptr<MonitoredSession>> Create(GraphBuilder& graph,
                                                                  std::unique_ptr<SessionCreator> creator,
                                                                  MonitoredSessionOptions options = {});
  // Without Close: hooks' End is not called, nothing is saved.
  ~MonitoredSession();

  // After a hook or anybody else has requested a stop, or a thread of a hook has failed (Close says how). Not
  // when a thread has lost a peer: then the next step begins with a new session.
  bool should_stop() const;
  // Also ends what waits for the cluster.
  void RequestStop();

  // One step with the hooks around it. OutOfRange (the input is exhausted, or a stop has ended what brings
  // it, or variables were lost and the chief is done: then the exit code is 0) also requests a stop. After
  // SIGTERM its exit code is 143, and the hooks' End has been called, which saves, for a program that returns
  // it without Close. Aborted: this process must be started again, for others have done the call and it
  // cannot leave it out (Hook::HasDoneLostCall). FailedPrecondition after a hook has requested a stop.
  // DeadlineExceeded: a peer, or the end of a restore, was waited for in vain. An error that cannot be
  // recovered from is returned again by every later call.
  absl::StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                                          const std::vector<TargetRef>& targets = {},
                                          const RunOptions& options = {});

  // What a step that its caller writes may use.
  class StepContext {
   public:
    // Steps without hooks. What they update is updated again when a peer is lost.
    Session& session() { return session_.session(); }
    // One step with them; a lost peer is an error here. The n-th one of a call of RunStepFn is the same step
    // in every attempt.
    absl::StatusOr<std::vector<Tensor>> RunWithHooks(const Feeds& feeds,
                                                     const std::vector<TensorRef>& fetches,
                                                     const std::vector<TargetRef>& targets = {},
                                                     const RunOptions& options = {}) {
      return session_.RunOnce({fetches, feeds, targets, options}, call_);
    }
    void RequestStop() { session_.RequestStop(); }

   private:
    friend class MonitoredSession;
    StepContext(MonitoredSession& session, LogicalSteps::Call& call) : session_(session), call_(call) {}
    MonitoredSession& session_;
    LogicalSteps::Call& call_;
  };

  // Calls `step`, and again when it returns that a peer was lost, with a new session. What its steps have
  // updated is remembered until the call ends: ResourceExhausted, and the end of the session, when that is
  // more than UpdateLedger::kMaxMarks (a million) of steps and updates on one task.
  absl::Status RunStepFn(absl::FunctionRef<absl::Status(StepContext& context)> step);

  // Calls the End of all hooks (the checkpoint saver's saves a last time), unless a step has failed, and
  // closes. It waits here too for a peer that is lost, until it is back or a stop is requested, and calls the
  // End or AfterEnd that has failed again; of a worker not when the chief is done. The first error, of a
  // step, a thread or a hook; Aborted when variables were lost meanwhile, or since the last step (GlobalStep
  // may have waited for them), and were restored as they were before, and no hook is at its end in the new
  // session (of a worker, which cannot know what was lost, when none is): started again, the program does the
  // steps that are missing; else TerminatedError when SIGTERM stopped the session; idempotent.
  absl::Status Close();

  // Closed after a recovery that failed.
  Session& session();
  // The step counter as it is now; a lost peer is waited for as in Run. FailedPrecondition without a global
  // step.
  absl::StatusOr<int64_t> GlobalStep();
  const Scaffold& scaffold() const { return creator_->scaffold(); }

 private:
  MonitoredSession(GraphBuilder& graph, std::unique_ptr<SessionCreator> creator,
                   MonitoredSessionOptions options);

  class CallUnderWay {
   public:
    explicit CallUnderWay(std::atomic<int>& num_calls);
    ~CallUnderWay();

   private:
    std::atomic<int>& num_calls_;
  };

  absl::Status Begin();
  void OnSigterm();
  // No further step; what is waited for at the end goes on.
  void StopTraining();
  // Whether it came, before training was stopped or after that.
  bool WasTerminated() const;
  // Creates the session, trying again while peers are away and no stop is requested.
  absl::Status CreateSession(const Coordinator& stop);
  absl::Status TryCreateSession();
  // Says why on stderr and creates the session again; failure_ is set when that fails.
  absl::Status Recover(const absl::Status& reason);
  // Returns when an attempt of `call`, which `step` makes, has returned OK or an error that is no lost peer;
  // that one is kept.
  absl::Status RunUntilKnown(LogicalSteps::Call& call, absl::FunctionRef<absl::Status()> step);
  // It is not tried again. `is_done`: not the end of the input.
  absl::Status EndCall(LogicalSteps::Call& call, bool is_done);
  absl::StatusOr<std::vector<Tensor>> RunOnce(RunArgs args, LogicalSteps::Call& call);
  // Why a step that others have done was refused; what becomes of the session.
  absl::Status CannotLeaveOut(const absl::Status& reason);
  absl::Status EndHooks();
  // The same and AfterEnd, with a new session for one that has lost a peer. Once: nothing when it was called.
  absl::Status EndHooksAndRecover();
  bool IsAtEnd() const;
  // A request of which ends what is waited for now.
  Coordinator& stop_now() { return is_ending_ ? stop_end_ : stop_; }
  // By others, so this session is not to do it again.
  bool LostCallIsDone() const;
  // After a recovery at the end: whether steps are missing, in lost_at_end_.
  void NoteLoss(const absl::Status& reason, int restores_before);
  absl::Status RecoverWhile(bool may_recover, absl::FunctionRef<absl::Status()> end);
  absl::Status RecoverAtTheEnd(const absl::Status& reason);
  // After SIGTERM, when a step has ended as at the end of the input, `end`: because threads that were stopped
  // brought nothing any more, or by itself. Ends the hooks, as many programs return this without Close.
  absl::Status EndTerminated(absl::Status end, bool are_threads_stopped);
  // After SIGTERM, although a peer was lost, if this process has all of them.
  void SaveOwnVariables();
  // What a thread has failed with: if that costs only this session, and if it ends training.
  absl::Status LostUnderThread(CoordinatedSession& session) const;
  absl::Status FailureOfThreads(CoordinatedSession& session) const;
  std::shared_ptr<CoordinatedSession> current() const;
  // Returns the one before.
  std::shared_ptr<CoordinatedSession> SetCurrent(std::shared_ptr<CoordinatedSession> session);

  GraphBuilder& graph_;
  const std::unique_ptr<SessionCreator> creator_;
  const MonitoredSessionOptions options_;
  Coordinator stop_;      // of everything; has no threads
  Coordinator stop_end_;  // of what is waited for after the end of the input, and in Close
  LogicalSteps steps_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<CoordinatedSession> current_ ABSL_GUARDED_BY(mutex_);  // null while there is none
  std::atomic<bool> sigterm_stopped_it_{false};
  bool hook_requested_stop_ = false;
  bool is_closed_ = false;
  bool have_hooks_ended_ = false;             // or are ending
  std::atomic<bool> is_ending_{false};        // Close has begun, or the input has come to its end
  std::atomic<int> num_calls_{0};             // of Run, RunStepFn, GlobalStep and Close, under way
  std::atomic<bool> is_at_end_{false};        // a hook says that the variables are those of the last step
  std::shared_ptr<CoordinatedSession> lost_;  // the one before, while there is none
  absl::Status failure_;
  absl::Status over_;  // not OK: training is over, and there is no session any more
  absl::Status lost_under_hook_;
  absl::Status lost_at_end_;   // not OK: steps are missing that were done, and no hook has seen that
  int num_restores_told_ = 0;  // of the creator's restores, those that the hooks know of
  std::unique_ptr<Termination> termination_;  // last: it calls the session
};

}  // namespace weir
