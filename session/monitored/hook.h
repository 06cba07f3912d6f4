// A hook: code that runs around the steps of a MonitoredSession (tf.train.SessionRunHook).
//
// Order of calls: Begin once, while the graph may still grow (variables made there are initialised and saved
// with the others); AfterCreateSession after every creation or recovery of the session; then BeforeRun and
// AfterRun around each step, BeforeCall and AfterCall around what the program has called; End once, after
// the last good step (not after a step that failed), and AfterEnd when all hooks have ended. Each of them is
// called for one hook after the other, in their order. All calls come from the thread that runs the session.
// An error from any of them ends the session with that error; every End is called all the same.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/graph_builder.h"
#include "session/monitored/coordinator.h"
#include "session/monitored/logical_steps.h"
#include "session/session.h"
#include "session/session_target.h"

namespace weir {

// What a step is asked for: by its caller, and by each hook beside it.
//
// The step fetches and runs what all of them ask for. A feed may come from one of them only. Of the options
// the largest timeout counts; it is traced when one of them wants that.
struct RunArgs {
  std::vector<TensorRef> fetches;
  Feeds feeds;
  std::vector<TargetRef> targets;
  RunOptions options;
};

// The step that hooks run around. One object for all of them.
class RunContext {
 public:
  // `session_stop`: on which the stop of the whole session is requested.
  RunContext(const RunArgs& original_args, Session& session, const Coordinator& session_stop)
      : original_args_(original_args), session_(session), session_stop_(session_stop) {}

  // What the step's caller asked for, without what hooks added.
  const RunArgs& original_args() const { return original_args_; }
  Session& session() { return session_; }
  // No further step: should_stop() of the monitored session is true after this one.
  void RequestStop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }
  // For hooks that wait: true as soon as somebody else has requested a stop of the session (SIGTERM does),
  // false when the time is over.
  bool WaitForSessionStop(absl::Duration timeout) const { return session_stop_.WaitForStop(timeout); }

 private:
  const RunArgs& original_args_;
  Session& session_;
  const Coordinator& session_stop_;
  bool stop_requested_ = false;
};

// What came of a step.
struct RunValues {
  // The values of the fetches that this hook's BeforeRun asked for, in order.
  absl::Span<const Tensor> results;
  // What the step ran with.
  RunOptions options;
  // What became of it otherwise; when it was traced, its step_stats. Never null.
  const RunMetadata* metadata = nullptr;
};

class Hook {
 public:
  virtual ~Hook() = default;
  // For messages: "StopAtStepHook".
  virtual absl::string_view name() const { return "a hook"; }
  // Before Begin: what all sessions run on, as long as the hook is used.
  virtual void SetTarget(const SessionTarget&) {}
  // The same of the numbers of its steps.
  virtual void SetSteps(const LogicalSteps&) {}
  // The same: a stop of it ends what End waits for. That the input has come to its end, or that a stop was
  // requested before Close, is none.
  virtual void SetEnd(const Coordinator&) {}
  virtual absl::Status Begin(GraphBuilder&) { return absl::OkStatus(); }
  // Threads that the hook starts with the coordinator are stopped and joined before the session is closed or
  // created again; each session has a coordinator of its own. A thread that does not stop in time finds the
  // session closed. An error of a thread stops training; a lost peer (IsRecoverable) costs a session, as it
  // does in a step.
  virtual absl::Status AfterCreateSession(Session&, Coordinator&) { return absl::OkStatus(); }
  // Asked before every step: whether the call that it belongs to failed with an earlier session and has been
  // done all the same, by others. Then targets, of hooks too, are not run again: the step's fetches are
  // computed without them, on what the variables are now. Where that cannot be, the process must be started
  // again (Aborted, which ends the session). `is_at_end`: a hook has said IsAtEnd; then training is over.
  virtual bool HasDoneLostCall(bool /*is_at_end*/) const { return false; }
  // Asked after AfterCreateSession: whether there is no step to be done, as in a program that is started
  // again after its last one. Then should_stop() is true.
  virtual bool IsAtEnd() const { return false; }
  // Asked before the first session: whether IsAtEnd would be true at that step, whatever else there is.
  virtual bool WouldBeAtEnd(int64_t) const { return false; }
  // Whether all variables are in this process: then they are saved also when SIGTERM has ended a peer first.
  virtual bool OwnsVariables() const { return false; }
  // Asked before that: whether they have no part of a step that was cancelled while it updated them.
  virtual bool AreVariablesWhole() const { return true; }
  // What the coming step shall do beside what its caller asks for.
  virtual absl::StatusOr<RunArgs> BeforeRun(RunContext&) { return RunArgs(); }
  virtual absl::Status AfterRun(RunContext&, const RunValues&) { return absl::OkStatus(); }
  // A call of the session's Run or RunStepFn: before each attempt, and when it is done, with all of its
  // steps, or has come to the end of the input. Then no part of it is tried again.
  virtual void BeforeCall() {}
  virtual absl::Status AfterCall(bool /*is_done*/) { return absl::OkStatus(); }
  // Before End, when SIGTERM has stopped training before its end: the program may be started again.
  virtual void OnTerminated() {}
  virtual absl::Status End(Session&) { return absl::OkStatus(); }
  // After the End of all hooks, if none of them failed: for tasks that end together. Rank 0 and the chief
  // have saved by then.
  virtual absl::Status AfterEnd(Session&) { return absl::OkStatus(); }
};

using HookPtr = std::shared_ptr<Hook>;

}  // namespace weir
