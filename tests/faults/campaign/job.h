// The processes of one job, started one by one as Kubernetes does it, and what can be seen of them from
// outside: how they end, what they print and when, and how far they have come.
//
// Everything is in one folder: TASK.log with what all processes of the task have printed, TASK.pid and
// TASK.step that the trainers write, and model/ with the checkpoints.
//
// Thread safety: none. The processes are killed when the thread that started them ends, or with the job.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace weir {

struct Line {
  absl::Time time;  // when it was seen
  std::string text;
};

struct TaskProcess {
  std::string task;  // "worker:0", or "launcher"
  pid_t pid = -1;
  absl::Time started;
  std::optional<absl::Time> ended;
  int wait_status = 0;      // of waitpid, when ended
  bool was_killed = false;  // by Signal(SIGKILL)
  bool was_told_to_stop = false;
  std::vector<Line> lines;

  bool is_running() const { return !ended.has_value(); }
  // As a shell has it: 128 + the signal.
  int exit_code() const;
};

// A global step that a task has come to.
struct Progress {
  absl::Time time;
  std::string task;
  int step;
};

class Job {
 public:
  explicit Job(std::string directory);
  ~Job();

  // `environment` is added to this process's. The reference lasts as long as the job.
  TaskProcess& Start(const std::string& task, const std::vector<std::string>& command,
                     const std::vector<std::pair<std::string, std::string>>& environment);
  void Signal(TaskProcess& process, int signal);

  // Looks at everything again.
  void Poll();
  // Polls until it is so, for `timeout` at most. Says whether it is.
  bool Await(const std::function<bool()>& is_so, absl::Duration timeout);

  std::deque<TaskProcess>& processes() { return processes_; }
  // The newest of the task; null when there is none.
  TaskProcess* newest(const std::string& task);
  // What TASK.pid says; -1 when there is none.
  pid_t PidOf(const std::string& task) const;
  int StepOf(const std::string& task) const;
  // The greatest of all tasks.
  int LastStep() const;
  const std::vector<Progress>& progress() const { return progress_; }
  const std::string& directory() const { return directory_; }
  std::string checkpoint_dir() const { return directory_ + "/model"; }
  // The step of the newest checkpoint that the folder's file `checkpoint` names; -1 when there is none.
  int NewestCheckpoint() const;
  // When a process printed the text first, from `since` on. Lines of the tasks in `except` do not count.
  const Line* FirstLine(const std::string& text, absl::Time since, const std::string& except = "") const;

 private:
  struct Log {
    int fd = -1;
    std::string unfinished;
  };
  void ReadLog(TaskProcess& process);
  void ReadStep(const std::string& task);

  const std::string directory_;
  std::deque<TaskProcess> processes_;
  std::map<pid_t, Log> logs_;
  std::map<std::string, int> steps_;
  std::vector<Progress> progress_;
};

std::string ReadFile(const std::string& path);
bool IsRunning(pid_t pid);

}  // namespace weir
