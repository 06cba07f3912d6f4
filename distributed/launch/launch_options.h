// What `weir launch` is asked to run.
//
// A plain struct; launcher.h says what the launcher does with it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/environment/host_list.h"
#include "distributed/environment/scheduler.h"
#include "distributed/launch/remote_command.h"
#include "distributed/launch/worker_pool.h"

namespace weir {

struct LaunchOptions {
  int num_ps = 0;
  int num_workers = 1;
  // Also start an evaluator, which is no part of the cluster. With `hosts` it runs where the chief does,
  // without a slot of its own.
  bool evaluator = false;
  std::vector<std::string> command;
  std::vector<HostSlots> hosts;  // none: this machine, without ssh
  int port_base = kDefaultPortBase;
  std::string ssh = kDefaultSsh;
  std::string directory;                                         // on the hosts; empty: this process's
  std::vector<std::pair<std::string, std::string>> environment;  // for the tasks, beside WEIR_*
  bool dry_run = false;                                          // print the commands, run nothing
  // A file per task, "worker-0.log", is written here; made when missing. Empty: none.
  std::string log_dir;
  // On a terminal the chief (worker:0) writes to it directly unless this is set; elsewhere every line is
  // prefixed.
  bool prefix_all = false;
  // How often one task is started again after it was killed by a signal or exited with a code >= 128 ("worth
  // trying again", session/monitored/exit_code.h; ssh's 255 is one). It keeps its address and gets a new
  // incarnation. Where the connection to its host was lost, or its ssh was killed, it is started when what it
  // left behind is gone if the host has noticed at once: after the grace time. A host may notice as late as
  // its sshd looks (ClientAliveInterval) or TCP's keepalive does, after hours; what fails there soon, because
  // the port is still taken, is tried again whatever its code is.
  int restarts = 0;
  absl::Duration stop_grace =
      absl::Seconds(30);  // more than a ps may take (ServerOptions::termination_grace)
  absl::Duration ps_grace = absl::Seconds(10);
  // How long a job that is over waits for a reader that takes nothing of what its tasks have printed.
  absl::Duration output_patience = absl::Minutes(5);
  bool is_elastic = false;
  WorkerPoolOptions pool;  // hosts_may_change: where there is a script
  std::string
      host_discovery_script;  // empty: none. With `hosts`, those run the ps, and what it names the workers
  int output_fd = 1;
  int error_fd = 2;
};

// InvalidArgument names the option with which this is no job.
absl::Status CheckLaunchOptions(const LaunchOptions& options);

// One that a shell can export.
bool IsVariableName(absl::string_view name);

}  // namespace weir
