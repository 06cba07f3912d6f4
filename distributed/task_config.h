// Which task of which cluster this process is: what Server::Start and ReplicaDeviceSetter are told.
//
// A value, only read after it is made. It comes, in this order, from the four flags of TensorFlow 1's
// examples, from TF_CONFIG, or from what started the process: torchrun, Horovod, Open MPI, MPICH or Slurm
// (environment/scheduler.h says when they count and what they need). When there is none of these the program
// runs alone (job "localhost", task 0, no cluster). $WEIR_ENVIRONMENT decides instead of this order, among
// "tf_config", the schedulers' names and "none".
//
// Format of TF_CONFIG: {"cluster": {job: addresses}, "task": {"type": job, "index": n}}; other keys are
// ignored. Every error is InvalidArgument and names the field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/cluster_spec.h"
#include "distributed/task_name.h"

namespace weir {

class TaskConfig {
 public:
  // Runs alone.
  TaskConfig() : task_{"localhost", 0} {}

  // InvalidArgument when the task is not in the cluster, or when the job that is to lead ("chief" or
  // TensorFlow's older "master") has more than one task or both exist. The "evaluator", of which there is one
  // at most, reads checkpoints and talks to nobody: it need not be in the cluster, and is left out of it.
  static absl::StatusOr<TaskConfig> Create(ClusterSpec cluster, TaskName task);

  static absl::StatusOr<TaskConfig> FromTfConfig(absl::string_view json);

  const ClusterSpec& cluster() const { return cluster_; }
  const TaskName& task() const { return task_; }
  const std::string& job() const { return task_.job; }
  int task_index() const { return task_.index; }

  // Also true of an evaluator without a cluster.
  bool runs_alone() const { return cluster_.is_empty(); }
  bool is_evaluator() const { return task_.job == "evaluator"; }

  // One task initialises variables and writes checkpoints and summaries: the chief (or master), or worker 0
  // where there is no such job, or the only process.
  bool is_chief() const;

  int num_ps() const { return cluster_.num_tasks("ps"); }
  // Tasks that train: workers and the chief; 1 when the program runs alone.
  int num_workers() const;
  std::vector<TaskName> worker_tasks() const;

  // The inverse of FromTfConfig.
  std::string ToTfConfig() const;

 private:
  ClusterSpec cluster_;
  TaskName task_;
};

// The task that leads: "chief", else "master", else worker 0, whether or not the cluster has it.
TaskName ChiefOf(const ClusterSpec& cluster);

// True for the jobs whose tasks run the training program: "worker", "chief", "master".
bool IsTrainingJob(absl::string_view job);

// From TF_CONFIG, else from a scheduler. TF_CONFIG that is empty or says "{}" is as good as none. `num_ps` is
// for schedulers, which do not know it; a TF_CONFIG with another number is an error.
absl::StatusOr<TaskConfig> TaskConfigFromEnvironment(std::optional<int> num_ps = std::nullopt);

// Reads --job_name, --task_index, --ps_hosts and --worker_hosts (as --flag=value or --flag value) and removes
// them from argv, so that the program's own flags are left. With none of them: TaskConfigFromEnvironment(),
// for which --num_ps is read and removed. InvalidArgument names the flag that is missing or does not parse.
absl::StatusOr<TaskConfig> TaskConfigFromCommandLine(int* argc, char** argv);

// These flags, a line for each, as a program's --help lists its own (command/flag_parser.h).
std::string TaskFlagsHelp();

}  // namespace weir
