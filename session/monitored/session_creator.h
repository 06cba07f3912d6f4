// Makes the session that a MonitoredSession runs on, ready for training: every variable has a value.
//
// Two kinds, as in TensorFlow: the chief's initialises or restores the model, the workers' waits until the
// chief has. Borrows the target's workers. Thread safety: none; lives in one MonitoredSession.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "graph/graph_builder.h"
#include "session/monitored/scaffold.h"
#include "session/session.h"
#include "session/session_target.h"

namespace weir {

class SessionCreator {
 public:
  virtual ~SessionCreator() = default;

  // Adds to the graph what it needs; called once, after the hooks' Begin.
  virtual absl::Status Begin(GraphBuilder& graph) = 0;
  // One attempt, after Begin; called again when peers were lost.
  virtual absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph) = 0;
  // Why a step that a restore has refused (IsRefusedByRestore) has to wait, with who is waited for.
  virtual absl::Status AwaitRestore(const absl::Status& refused) const { return refused; }
  // How long attempts may go on that end with this error; zero: it is final. Of AwaitRestore's: attempts of
  // a step.
  virtual absl::Duration Patience(const absl::Status& error) const = 0;
  // Whether variables that are lost get a value again here, so that what they had may have to be saved.
  virtual bool RestoresVariables() const { return false; }
  // How often variables were set to other values than they had, by any Create: one that fails after that has
  // set them, too.
  virtual int num_restores() const { return 0; }
  virtual const Scaffold& scaffold() const = 0;
  // What its sessions run on.
  virtual const SessionTarget& target() const = 0;
  Environment& environment() const { return *target().environment; }
};

struct ChiefSessionOptions {
  SessionTarget target;
  SessionOptions session;
  std::shared_ptr<Scaffold> scaffold;  // null: the default one
  // The newest good checkpoint of this directory is restored, or
  std::string checkpoint_dir;
  // this checkpoint ("/models/mine/model.ckpt-100"). With neither, and when the directory has no file
  // `checkpoint`, the model is initialised.
  std::string checkpoint_path;
  // Whether the model may be initialised when the checkpoints that `checkpoint` names are gone.
  bool allow_missing_checkpoints = false;
  // Called with every new session, before anything is restored; its error is that of Create.
  std::function<absl::Status()> before_restore;
  // How long a lost peer is waited for.
  absl::Duration recovery_timeout = absl::Minutes(5);
};

// Errors of Begin: InvalidArgument for a checkpoint_dir and a checkpoint_path; the builder's. Of Create:
// NotFound, DataLoss or InvalidArgument of restoring; FailedPrecondition, naming the variables that init left
// without a value.
std::unique_ptr<SessionCreator> ChiefSessionCreator(ChiefSessionOptions options);

struct WorkerSessionOptions {
  SessionTarget target;
  SessionOptions session;
  std::shared_ptr<Scaffold> scaffold;  // null: the default one
  // Asked while variables have no value: why nobody will give them one, though no chief says that it is done
  // (ended_job.h); empty: somebody may. Null: somebody may.
  std::function<std::string()> why_over;
  // How long the chief may take to give the variables a value.
  absl::Duration max_wait = absl::Minutes(30);
  // How much of that may pass while no chief is there (SessionTarget::met_chief).
  absl::Duration max_wait_for_absent_chief = absl::InfiniteDuration();
  // How long a lost peer is waited for.
  absl::Duration recovery_timeout = absl::Minutes(5);
};

// Errors of Create: Unavailable, naming the variables that have no value yet, and whether the chief is there;
// TrainingIsOverError
// (exit_code.h), naming them, when the chief is done, or why_over says so: they never get one.
std::unique_ptr<SessionCreator> WorkerSessionCreator(WorkerSessionOptions options);

}  // namespace weir
