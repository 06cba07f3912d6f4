// A training cluster of real processes of one plan, and its supervisor: starts each task, and again when it
// ends in a way that asks for it.
//
// Thread safety: none.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "distributed/launch/free_ports.h"
#include "tests/faults/campaign/fault_run.h"
#include "tests/faults/campaign/job.h"
#include "tests/faults/campaign/machines.h"
#include "tests/faults/campaign/network.h"
#include "tests/faults/campaign/plan.h"

namespace weir {

class Cluster {
 public:
  // `with_links`: each task talks to each other through a link of its own; otherwise only the victim is
  // behind one, and only when the plan starts it elsewhere.
  Cluster(const Plan& plan, Surroundings& surroundings, std::string directory);

  absl::Status StartAll();
  TaskProcess& StartTask(const std::string& task);
  // The same under another port, which its link points to.
  TaskProcess& StartElsewhere(const std::string& task);
  void StartLauncher();

  // Starts again who ended with a code that says that it helps. Not those in `left_alone`, and nobody when
  // the chief is done, for then the job is: a ps, or a process that was replaced, that does not notice is
  // told.
  void Supervise();
  void NoteVictimIsAwake() { victim_is_awake_ = true; }
  bool ChiefIsDone();
  // Polls, and supervises, until it is so.
  bool Await(const std::function<bool()>& is_so, absl::Time deadline);
  bool AllHaveEnded();
  // All but the victim.
  bool OthersHaveEnded();

  Job& job() { return job_; }
  Network* network() { return network_.get(); }
  // Of Family::kMachine; the tasks' machines are numbered as they are, and one is spare.
  Machines* machines() { return machines_.get(); }
  int machine_of(const std::string& task) const { return machine_of_.at(task); }
  // The task's next process runs on the spare machine, which has its name from now on.
  void MoveToSpareMachine(const std::string& task);
  static std::string HostOf(const std::string& task);
  const std::vector<std::string>& tasks() const { return tasks_; }
  // The links between the task and the others: those to it, and those from it.
  std::vector<int> LinksTo(const std::string& task) const;
  std::vector<int> LinksFrom(const std::string& task) const;
  std::set<std::string>& left_alone() { return left_alone_; }
  // Of processes that were started by Supervise.
  int num_restarts() const { return num_restarts_; }

 private:
  void TellStragglers();
  std::string AddressOf(const std::string& task, const std::string& seen_from) const;
  std::string TfConfig(const std::string& task) const;
  std::vector<std::string> TrainerCommand() const;
  std::vector<std::pair<std::string, std::string>> Environment(const std::string& task) const;
  bool UsesLinks() const;

  const Plan plan_;
  Surroundings& surroundings_;
  Job job_;
  std::vector<std::string> tasks_;  // the evaluator is the last
  ReservedPorts ports_;             // of tasks_, then one more for a task that is started elsewhere
  std::map<std::string, int> listens_at_;
  std::map<std::pair<std::string, std::string>, int> links_;  // from, to
  std::unique_ptr<Network> network_;
  std::unique_ptr<Machines> machines_;
  std::map<std::string, int> machine_of_;
  std::set<std::string> left_alone_;
  int num_restarts_ = 0;
  bool victim_is_awake_ = false;
};

}  // namespace weir
