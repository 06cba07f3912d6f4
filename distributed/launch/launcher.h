// Runs one program as every task of a cluster, on this machine or on others, and sees the job through to its
// end.
//
// Each process gets TF_CONFIG (its place in the cluster) and WEIR_JOB_TOKEN (a fresh secret without which no
// server of this job answers). What they print appears line by line with the task's name.
//
// On this machine the tasks get free loopback ports. With `hosts` they are started through ssh on the slots
// of those (task_placement.h), in the same directory, with ports from `port_base` on, and with the launcher's
// WEIR_* variables and those named in `environment`; they listen on all interfaces unless WEIR_LISTEN says
// otherwise. They end when the launcher ends, however it ends (remote_command.h).
//
// When the job is over:
//  * All workers, and the evaluator, exited with 0: the ps tasks have `ps_grace` to leave by themselves, then
//    they are stopped.
//  * A worker other than the chief, or the evaluator, died: the others go on, and its exit code becomes the
//    job's.
//  * The chief or a ps died (and has no restart left): nobody can go on, the others are stopped.
//  * SIGINT, SIGTERM or SIGHUP arrived: the tasks are stopped. The exit code is 128 + the signal.
// Tasks are stopped with SIGTERM, at which a training program saves (session/monitored/termination.h):
// workers and the evaluator at once, the ps, which hold what is saved, when those have ended (and once more a
// second later, which ends one that still waits for a worker that was killed). A task that
// still runs `stop_grace` after it was told, or at a second signal, is killed. The first failure is named on
// standard error: "worker:1 (pid 123) died: killed by signal 9 (Killed)".
//
// Nothing waits for whoever reads the launcher's output. What is not taken is kept, up to a bound; then the
// tasks are not read, and wait when they print, as they would at a terminal. Tasks that are told to stop are
// read all the same. When the job is over, what is kept waits for its reader for `output_patience` without
// progress, and for 2 s in all when the job was stopped by a signal; what is lost then is said.
//
// An elastic job has between pool.min_workers and pool.max_workers workers. It begins with as many as a
// script finds slots for (host_discovery.h), or with num_workers; worker_pool.h says when which are started
// and told to stop later. The tasks that it begins with are the cluster spec of all (guests.h has the
// others). A worker that was killed or exits with 128 or more is followed by another one, and is no failure
// of the job; neither is one that was told to leave. When fewer than pool.min_workers are left for too long,
// or too many have failed, the job is stopped. The chief and the ps have `restarts`, as in other jobs.
//
// Not thread-safe; run it on a process's only thread (it forks, and takes over signals while Run lasts).
#pragma once

#include "absl/status/statusor.h"
#include "distributed/launch/launch_options.h"

namespace weir {

class Launcher {
 public:
  explicit Launcher(LaunchOptions options);
  ~Launcher();

  // The job's exit code: 0, that of the first failure (128 + signal for a killed task), or 128 + signal when
  // interrupted. InvalidArgument for options that make no job; NotFound when the program cannot be run.
  absl::StatusOr<int> Run();

 private:
  class Job;
  LaunchOptions options_;
};

}  // namespace weir
