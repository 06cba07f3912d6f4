// The session of a training program: chief or worker, with the hooks that training needs.
//
//   auto session = MonitoredTrainingSession(g, {.target = server->target(),
//                                               .is_chief = task.is_chief(),
//                                               .checkpoint_dir = dir,
//                                               .hooks = {StopAtStepHook({.last_step = 1000})}});
//
// The chief restores the newest good checkpoint or initialises; the others wait until every variable has a
// value. Counterpart of tf.train.MonitoredTrainingSession and SingularMonitoredSession.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "graph/graph_builder.h"
#include "session/monitored/hook.h"
#include "session/monitored/hooks/checkpoint_saver_listener.h"
#include "session/monitored/monitored_session.h"
#include "session/monitored/scaffold.h"
#include "session/monitored/session_creator.h"
#include "session/session.h"
#include "session/session_target.h"

namespace weir {

struct TrainingSessionOptions {
  SessionTarget target;
  bool is_chief = true;
  // Where checkpoints and event files go and come from; empty: neither is written nor read.
  std::string checkpoint_dir;
  // Where summaries and step rates go; empty: checkpoint_dir.
  std::string summary_dir;
  // Whether training may begin anew when the checkpoints that the directory's file `checkpoint` names are
  // gone.
  bool allow_missing_checkpoints = false;
  // How long the chief waits for another process that writes to checkpoint_dir: the one before it may still
  // be ending.
  absl::Duration checkpoint_dir_max_wait = absl::Seconds(10);
  // A chief's hooks are called in this order: chief_only_hooks, its own (below), hooks. So the last
  // checkpoint is there when the End of one of `hooks` is called.
  std::vector<HookPtr> hooks;
  std::vector<HookPtr> chief_only_hooks;
  // The chief's own hooks, added for the directories that are set; zero turns one off.
  absl::Duration save_checkpoint_interval = absl::Minutes(10);
  int64_t save_checkpoint_steps = 0;  // instead of the interval when > 0
  // Whether training goes on while a checkpoint is written.
  bool save_checkpoints_asynchronously = false;
  // Called by the chief's checkpoint saver.
  std::vector<CheckpointSaverListenerPtr> checkpoint_listeners;
  // Where nothing is written, the scaffold's summary is computed all the same if replicas compute something
  // together for it: those that write wait for the others.
  int64_t save_summaries_steps = 100;
  absl::Duration save_summaries_interval = absl::ZeroDuration();  // instead of the steps when > 0
  int64_t log_step_count_steps = 100;
  std::shared_ptr<Scaffold> scaffold;  // null: the default one
  SessionOptions session;
  // How long a lost peer is waited for before the session gives up; kPatienceAtEnd when no step is left, and
  // the last chief has ended in good order or has left no claim (checkpoint_claim.h).
  absl::Duration recovery_timeout = absl::Minutes(5);
  // How long the others wait for the chief to give the variables a value. They wait no longer when
  // checkpoint_dir says that the job has ended (ended_job.h).
  absl::Duration max_wait = absl::Hours(2);
  // How much of that may pass while no chief is there, where checkpoint_dir is empty: the job may have ended,
  // and nobody is left who remembers it. As long as a ps waits for a lost chief.
  absl::Duration max_wait_for_absent_chief = absl::Minutes(10);
  // How long threads of hooks may take to stop, and how long they go on after a stop was requested
  // (MonitoredSessionOptions).
  absl::Duration stop_grace_period = absl::Minutes(2);
  absl::Duration step_grace_period = absl::Seconds(5);
  // Whether SIGTERM stops training after the step that runs, and the chief saves (MonitoredSessionOptions).
  bool stops_on_sigterm = true;

  static constexpr absl::Duration kPatienceAtEnd = absl::Seconds(10);
};

// A MonitoredSession of the chief or of another worker with the hooks that training needs. Errors: those of
// MonitoredSession::Create; FailedPrecondition when the chief's hooks find no global step, or for the target
// of an evaluator, which does not train (evaluation.h), or when another process writes to checkpoint_dir;
// OutOfRange, whose exit code is 0, when the program is started again after its last step was saved
// (StopAtStepHook), and its peers have gone.
absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(GraphBuilder& graph,
                                                                           TrainingSessionOptions options);

// A chief's session that a lost peer ends, for programs that run alone.
absl::StatusOr<std::unique_ptr<MonitoredSession>> SingularMonitoredSession(GraphBuilder& graph,
                                                                           ChiefSessionOptions options,
                                                                           std::vector<HookPtr> hooks = {});

}  // namespace weir
