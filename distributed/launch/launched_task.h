// A task of a job as its launcher sees it: its process, and where what it prints goes.
//
// A plain struct that the launcher reads and changes; not thread-safe. The task's process ends with it.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/task_output.h"
#include "distributed/task_name.h"

namespace weir {

struct LaunchedTask {
  TaskName name;
  std::string host;     // empty: this machine
  std::string address;  // where others find it; empty of an evaluator
  bool is_raw = false;
  int restarts_left = 0;
  std::optional<ChildProcess> process;
  TaskLog log;
  std::optional<TaskOutput> output;
  std::optional<TaskOutput> error;
  bool is_running = false;
  absl::Time started;  // last; set by the launcher
  // The connection to its host was lost, and nobody has run there for long since: what it left behind may
  // still have its port.
  bool was_cut_off = false;
  std::optional<absl::Time> restart_at;
  // Of a worker of an elastic job that was told to leave; in the infinite future when it was killed for it.
  std::optional<absl::Time> kill_at;
  // Of one on another host that was killed there: its ssh has a moment to say so.
  std::optional<absl::Time> force_at;

  bool is_alive() const { return is_running || restart_at.has_value(); }
  bool is_remote() const { return !host.empty(); }
  bool is_ps() const { return name.job == "ps"; }

  // "DIR/worker-0.log". InvalidArgument when it cannot be written.
  absl::Status OpenLog(const std::string& dir);
  // After OpenLog, of a task that stays where it is. Borrows the terminal.
  void ConnectOutputs(Terminal* terminal);
  // Copies some of what is there to read; not what its destination has no room for, unless `anyway`. The
  // task runs.
  void CopyOutputs(bool anyway);
  // What to wait for before the next CopyOutputs.
  void AddPollFds(bool anyway, std::vector<pollfd>* fds);
  // What a task that has ended has left to read.
  void CopyLastOutputs();
  // Of a task that runs; nothing of another one.
  void AskToStop();
  // What runs on another host is killed there. Its ssh is killed when it does not end within kKillPatience,
  // or at the next call. KillSlow does that; it is to be called when next_time() has come.
  void Kill(absl::Time now);
  void KillSlow(absl::Time now);
  // Of its restart or its end; infinite when there is nothing to do.
  absl::Time next_time() const;

  static constexpr absl::Duration kKillPatience = absl::Seconds(2);
};

}  // namespace weir
