// A training job that can be checked: every step counts itself in a counter of its worker on a ps, and in the
// global step; each trainer knows how many of its steps were acknowledged.
//
// One ps or several, a chief and workers, as a user would write them: Server::Start,
// MonitoredTrainingSession, a loop, Close, Shutdown. A counter is a vector {n, s}; a step that has read n
// adds {1, n} to it. What it adds is computed by the trainer, as a gradient is, so a step needs a read, a
// push and an update; and as only one trainer counts there, s is n (n - 1) / 2 however often all was
// restored, unless a step was applied to another value than it has read.
//
// The chief saves checkpoints, to a disk that may be full, fail, or lose its power (simulated_disk.h).
//
// Violations says what must not be, once all has ended:
//
// * A step was applied twice: a counter is above the steps of its worker that were acknowledged, failed, or
//   ran when their life was killed; likewise the global step.
// * A step was applied to values that it has not read: those from before a restore, or of another life.
// * A step was lost: a counter is below the acknowledged ones, though nothing was restored.
// * A save that was acknowledged was gone later: the chief went on from an earlier step.
// * A chief wrote a checkpoint, or a part of one that readers may find, after its successor had begun.
// * Two ps were the authority at a time, or one in an office that is not greater than those before; or a ps
//   has a view of an office, and does not know that there is that office.
// * The authority saw more lives of a task than there were, or lost one again and again that was there.
// * The chief has ended well, but the newest checkpoint is not that of the last step.
// * Synchronous replicas that wait for lost ones have other weights in the end than without faults.
// * A step took longer than three leases after the network was whole again, or a program did not end.
// * A ps that ends by itself did so before the chief, or while a worker trained that nothing was wrong with;
//   or did not when all had ended.
// * Plans or steps are left on a ps when all trainers have ended, or only their sessions a while ago.
// * A trainer has failed for good, unless it was superseded by a later life of its task. One that says that
//   starting again may help, because a ps had to be started anew, is started again, as a launcher does it;
//   so is one that could not write to its disk.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "graph/graph_builder.h"
#include "ops/training/sync_replicas.h"
#include "session/monitored/monitored_session.h"
#include "tests/simulation/simulated_disk.h"
#include "tests/simulation/simulated_store.h"
#include "tests/simulation/world.h"

namespace weir {

struct CountingJobOptions {
  int num_ps = 1;
  int num_workers = 1;  // besides the chief
  // Workers with the indices after those, which the cluster spec does not name: they join when they are
  // started.
  // Each of their lives is somewhere else.
  int num_guests = 0;
  // How many may train at a time; 0: all.
  int num_places = 0;
  int64_t last_step = 40;
  // What a trainer does between two steps.
  absl::Duration pause = absl::Milliseconds(50);
  int64_t save_steps = 10;
  absl::Duration lease = absl::Seconds(10);
  // How much longer than three leases a step may take (negative: shorter): messages that take seconds are
  // many.
  absl::Duration patience = absl::ZeroDuration();
  // How long a trainer stays when its session has ended, before it says that it is done. When all have,
  // nothing of them may be left on a ps, though none of them is done.
  absl::Duration stay = absl::ZeroDuration();
  // How long a piece of a step of a trainer may have to wait for its processor.
  absl::Duration longest_delay_of_work = absl::ZeroDuration();
  std::string checkpoint_dir;  // of the test; empty: none
  // How long its disk takes for a file.
  absl::Duration sync_time = absl::ZeroDuration();
  // After each step a trainer reads so many tables of the ps, of 720 KB each: with peer_limits "inbound=1" a
  // ps has done its part of that, and said so, when the third waits for room on its way.
  int num_tables = 0;
  // Of every task (ServerOptions::peer_limits).
  std::string peer_limits;
  // A store says which ps is the authority (distributed/election).
  bool elects = false;
  // Each ps ends when it finds that the job is over, as a user's does. Otherwise they stay, to be looked at.
  bool ps_end = false;
  // Synchronous replicas of a SyncModel train instead, and nobody counts.
  std::optional<OnLoss> sync_replicas;
  // What they have in the end (SavedWeights), where nothing that befalls them may change it; empty: anything.
  std::string expected_weights;
};

class CountingJob {
 public:
  // `network`: what the store is like, where one is used.
  CountingJob(World& world, CountingJobOptions options, const NetworkOptions& network = {});
  // Ends the world: the programs are this job's.
  ~CountingJob() { world_.End(); }

  // Starts every task of the cluster spec once.
  void StartAll();
  // Starts a task, also again when its last life was killed or is thought dead.
  World::Life& Start(const TaskName& task);
  // The same after a while, unless it was started again meanwhile, or `last` has ended in good order. Until
  // then the job is not over.
  void StartLater(const TaskName& task, const World::Life& last, absl::Duration pause);
  // Its newest life stops after the step that it is in, and says that it leaves.
  void TellToLeave(const TaskName& task);
  // Its newest life. Precondition: it was started.
  World::Life& life(const TaskName& task) { return *lives_.at(task).back(); }
  const std::vector<TaskName>& tasks() const { return tasks_; }
  // Of what the first task's newest life sends to the second's.
  void Cut(const TaskName& from, const TaskName& to);
  void Flap(const TaskName& from, const TaskName& to);
  void Heal(const TaskName& from, const TaskName& to);

  SimulatedDisk& disk() { return disk_; }
  SimulatedStore& store() { return store_; }

  // From now on nothing is wrong any more; steps have three leases.
  void NoteHealed() { healed_ = world_.time(); }
  // When that will be.
  void NoteHealedAt(absl::Duration time) { heals_ = time; }

  bool HaveTrainersEnded() const;
  // Until all trainers have ended, or the limit, and the ps has had the time to notice.
  void RunToTheEnd(absl::Duration limit);
  std::vector<std::string> Violations() const;
  // How many elections somebody has won.
  int num_offices() const { return num_offices_; }
  // Of all trainers; of one task's lives.
  int64_t num_acknowledged() const;
  // Of synchronous replicas: what the newest checkpoint has.
  std::string SavedWeights() const;
  int64_t num_acknowledged(const TaskName& task) const;

 private:
  // What one life of a trainer has noted.
  struct Trainer {
    TaskName task;
    const World::Life* life = nullptr;
    int number = 0;  // of the task's lives
    int64_t num_acknowledged = 0;
    int64_t num_failed = 0;
    bool is_told_to_leave = false;
    bool is_in_step = false;
    absl::Duration began;
    absl::Duration trained;  // when it began to say that it is done
    absl::Duration step_began;
    absl::Duration longest_step;  // as far as it is to be blamed
    struct Save {
      absl::Duration at;
      int64_t step = 0;
    };
    std::vector<Save> saves;
    absl::Duration last_rename;  // of a file that all lives of the chief write
    absl::Status outcome = absl::UnknownError("still running");
  };
  class SaveListener;
  class NotedDisk;

  // `number`: of the task's lives.
  TaskConfig ConfigOf(const TaskName& task, int number = 0) const;
  void ServePs(const TaskName& ps, World::Life& life);
  // Whether it found the end of the job, and not the end of the world.
  bool AwaitEndOfJob(World::Life& life, Server& server);
  void NoteEndOfPs(const TaskName& ps, const World::Life& life, Server& server);
  void Train(Trainer& trainer, World::Life& life);
  using StepOfSession = std::function<absl::Status(MonitoredSession& session)>;
  absl::StatusOr<StepOfSession> BuildCounters(GraphBuilder& g, const TaskName& self);
  // Also reads the tables, and looks whether they are whole.
  StepOfSession WithTables(GraphBuilder& g, StepOfSession step) const;
  absl::StatusOr<StepOfSession> BuildModel(GraphBuilder& g, const TaskConfig& task);
  absl::Status TrainOn(Trainer& trainer, World::Life& life, const TaskConfig& task, Server& server);
  absl::Status Step(Trainer& trainer, absl::FunctionRef<absl::Status()> step);
  // Of one life of a trainer, or of all that were this task.
  struct Steps {
    int64_t num_acknowledged = 0;
    int64_t num_maybe = 0;  // may have been applied as well
  };
  Steps StepsOf(const TaskName& task) const;
  bool MayBeRestored() const;
  // Whether any ps was started again.
  bool WasPsRestarted() const;
  // Whether nothing can be asked of it any more: its ps ended while it was lost, or before it began.
  bool IsOrphan(const Trainer& trainer) const;
  // A variable's value on the ps that has it, or had it in the end; an invalid tensor when none has.
  Tensor ValueOf(const std::string& variable) const;
  void CheckCounter(const TaskName& task, std::vector<std::string>* violations) const;
  void CheckWeights(std::vector<std::string>* violations) const;
  void CheckGlobalStep(std::vector<std::string>* violations) const;
  static void CheckCount(absl::string_view what, int64_t count, const Steps& steps, bool may_be_restored,
                         std::vector<std::string>* violations);
  void CheckCheckpoints(std::vector<std::string>* violations) const;
  // Of it, what everything was well in.
  absl::Duration TimeSince(absl::Duration begin) const;
  // When all sessions have ended: what is left of them.
  void CheckIdlePs();
  // What a launcher does with a task that has ended.
  void RestartIfItHelps(const Trainer& trainer, const World::Life& life);
  // Superseded, as it should be, or started again after a ps was.
  bool IsRightEnd(const Trainer& trainer) const;
  const Trainer* DoneChief() const;
  void CheckSaved(std::vector<std::string>* violations) const;
  void CheckDurable(std::vector<std::string>* violations) const;
  void CheckProgress(std::vector<std::string>* violations) const;
  void CheckLives(std::vector<std::string>* violations) const;
  // Now and then: whether two are in office, and whether each knows the office of its view.
  void CheckOffices();
  void CheckPs(const TaskName& ps, std::vector<std::string>* violations) const;

  World& world_;
  const CountingJobOptions options_;
  SimulatedDisk disk_;
  SimulatedStore store_;
  ClusterSpec cluster_;
  std::vector<TaskName> tasks_;
  std::map<TaskName, std::vector<World::Life*>> lives_;
  std::list<Trainer> trainers_;                          // in the order in which they were started
  std::map<const World::Life*, Server*> ps_servers_;     // as long as they live
  std::map<TaskName, std::map<Incarnation, int>> lost_;  // how often the newest authority has lost each life
  absl::Duration healed_ = absl::InfiniteDuration();
  absl::Duration heals_;
  int num_coming_ = 0;      // tasks that are about to be started again
  int num_restarts_ = 0;    // of trainers that asked for it
  Incarnation office_ = 0;  // the latest that somebody was in
  const Server* in_office_ = nullptr;
  int num_offices_ = 0;
  std::vector<std::string> wrong_offices_;
  std::vector<std::string> left_behind_;  // by sessions
  std::map<const World::Life*, absl::Duration> ended_ps_;
  std::map<std::string, Tensor> last_values_;  // of the variables of those
  std::vector<std::string> wrong_ends_;
};

}  // namespace weir
