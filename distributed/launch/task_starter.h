// Starts the tasks of a job: on this machine as child processes, on others through ssh (remote_command.h).
//
// Borrows the options. Not thread-safe.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distributed/cluster_spec.h"
#include "distributed/launch/launch_options.h"
#include "distributed/launch/launched_task.h"

namespace weir {

class TaskStarter {
 public:
  // Draws the job's token.
  explicit TaskStarter(const LaunchOptions& options);

  // The task's process. A task that the cluster does not have knows of itself beside those that it has.
  // NotFound or PermissionDenied when the program cannot be run.
  absl::Status Start(const ClusterSpec& cluster, LaunchedTask& task) const;

  // What would be started, as a shell would take it. A terminal in the place of the launcher keeps the tasks
  // running.
  absl::StatusOr<std::string> Commands(const ClusterSpec& cluster,
                                       const std::list<LaunchedTask>& tasks) const;

 private:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // What the task gets beside the environment that it has anyway: this process's, or its host's. Without the
  // token, which is no part of a command line.
  absl::StatusOr<Variables> VariablesOf(const ClusterSpec& cluster, const LaunchedTask& task) const;
  absl::StatusOr<std::vector<std::string>> RemoteCommandOf(const ClusterSpec& cluster,
                                                           const LaunchedTask& task) const;

  const LaunchOptions& options_;
  const std::string token_;
  const std::string directory_;
};

}  // namespace weir
