#include "distributed/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/free_ports.h"
#include "distributed/launch/task_output.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Takes signals as readable events while it lives.
class SignalQueue {
 public:
  SignalQueue() {
    sigemptyset(&taken_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&taken_, signal);
    sigprocmask(SIG_BLOCK, &taken_, &before_);
    queue_ = FileDescriptor(signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SignalQueue() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  int fd() const { return queue_.get(); }
  // The next signal that asks the job to stop; 0 when there is none left.
  int NextStopSignal() {
    signalfd_siginfo event;
    while (read(queue_.get(), &event, sizeof(event)) == sizeof(event)) {
      if (event.ssi_signo != SIGCHLD) return static_cast<int>(event.ssi_signo);
    }
    return 0;
  }

 private:
  sigset_t taken_;
  sigset_t before_;
  FileDescriptor queue_;
};

struct Task {
  TaskName name;
  bool is_raw = false;
  int restarts_left = 0;
  std::optional<ChildProcess> process;
  FileDescriptor log;
  std::optional<TaskOutput> output;
  std::optional<TaskOutput> error;
  bool is_running = false;

  bool is_ps() const { return name.job == "ps"; }
};

absl::Status MakeDirectories(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string prefix = path.substr(0, slash);
    if (mkdir(prefix.c_str(), 0777) != 0 && errno != EEXIST) {
      return absl::InvalidArgumentError(
          absl::StrCat("--log_dir: cannot make '", prefix, "': ", strerror(errno)));
    }
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

std::string RandomToken() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

// Copies what is there to read; false when the other side has closed.
bool CopyAvailable(const FileDescriptor& from, TaskOutput* to) {
  char buffer[16 << 10];
  while (true) {
    const ssize_t num_read = read(from.get(), buffer, sizeof(buffer));
    if (num_read > 0) {
      to->Append(absl::string_view(buffer, num_read));
    } else if (num_read == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;  // a pseudo-terminal says EIO
    } else if (errno == EAGAIN) {
      return true;
    }
  }
}

}  // namespace

class Launcher::Job {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options), terminal_(options.output_fd, options.error_fd), token_(RandomToken()) {}

  absl::StatusOr<int> Run() {
    WEIR_RETURN_IF_ERROR(MakeTasks());
    for (Task& task : tasks_) WEIR_RETURN_IF_ERROR(StartTask(task));
    while (num_running() > 0) {
      WaitForEvents();
      if (const int signal = signals_.NextStopSignal(); signal != 0) OnStopSignal(signal);
      CopyOutputs();
      ReapTasks();
      StopStragglers();
    }
    return interrupted_by_ != 0 ? 128 + interrupted_by_ : exit_code_;
  }

 private:
  absl::Status MakeTasks() {
    WEIR_ASSIGN_OR_RETURN(const std::vector<int> ports,
                          FindFreePorts(options_.num_ps + options_.num_workers));
    if (!options_.log_dir.empty()) WEIR_RETURN_IF_ERROR(MakeDirectories(options_.log_dir));
    for (int i = 0; i < static_cast<int>(ports.size()); ++i) {
      Task task;
      task.name = i < options_.num_ps ? TaskName{"ps", i} : TaskName{"worker", i - options_.num_ps};
      task.restarts_left = options_.restarts;
      task.is_raw = task.name == kChief && !options_.prefix_all && isatty(options_.output_fd);
      WEIR_RETURN_IF_ERROR(cluster_.AddTask(task.name, absl::StrCat("127.0.0.1:", ports[i])));
      if (!options_.log_dir.empty()) WEIR_RETURN_IF_ERROR(OpenLog(task));
      tasks_.push_back(std::move(task));
    }
    for (Task& task : tasks_) ConnectOutputs(task);
    return absl::OkStatus();
  }

  absl::Status OpenLog(Task& task) {
    const std::string path = absl::StrCat(options_.log_dir, "/", task.name.job, "-", task.name.index, ".log");
    task.log = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (task.log.is_open()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--log_dir: cannot write '", path, "': ", strerror(errno)));
  }

  void ConnectOutputs(Task& task) {
    TaskOutput::Options options;
    options.prefix = absl::StrCat("[", task.name.ToString(), "] ");
    options.is_raw = task.is_raw;
    options.log_fd = task.log.get();
    task.output.emplace(options, &terminal_);
    options.is_error = true;
    task.error.emplace(options, &terminal_);
  }

  absl::Status StartTask(Task& task) {
    WEIR_ASSIGN_OR_RETURN(const TaskConfig config, TaskConfig::Create(cluster_, task.name));
    ChildOptions child;
    child.command = options_.command;
    child.environment = {{"TF_CONFIG", config.ToTfConfig()}, {"WEIR_JOB_TOKEN", token_}};
    child.on_terminal = task.is_raw;
    WEIR_ASSIGN_OR_RETURN(task.process, ChildProcess::Start(child));
    task.is_running = true;
    return absl::OkStatus();
  }

  void WaitForEvents() {
    std::vector<pollfd> events = {{signals_.fd(), POLLIN, 0}};
    for (Task& task : tasks_) {
      if (!task.is_running) continue;
      for (const FileDescriptor* fd : {&task.process->output(), &task.process->error()}) {
        if (fd->is_open()) events.push_back({fd->get(), POLLIN, 0});
      }
    }
    int timeout_ms = -1;
    if (deadline_) {
      timeout_ms = static_cast<int>(
                       absl::ToInt64Milliseconds(std::max(*deadline_ - absl::Now(), absl::ZeroDuration()))) +
                   1;
    }
    poll(events.data(), events.size(), timeout_ms);
  }

  void CopyOutputs() {
    for (Task& task : tasks_) {
      if (task.is_running) CopyOutputs(task);
    }
  }

  static void CopyOutputs(Task& task) {
    FileDescriptor& out = task.process->output();
    FileDescriptor& err = task.process->error();
    if (out.is_open() && !CopyAvailable(out, &*task.output)) out = FileDescriptor();
    if (err.is_open() && !CopyAvailable(err, &*task.error)) err = FileDescriptor();
  }

  void ReapTasks() {
    for (Task& task : tasks_) {
      int wait_status = 0;
      if (!task.is_running || !task.process->HasEnded(&wait_status)) continue;
      CopyOutputs(task);
      task.output->Finish();
      task.error->Finish();
      task.is_running = false;
      OnTaskEnd(task, wait_status);
    }
  }

  void OnTaskEnd(Task& task, int wait_status) {
    const int code = ExitCodeOf(wait_status);
    if (code == 0) return OnTaskDone(task);
    if (is_stopping_) return;  // we asked for it
    const std::string death = absl::StrCat(task.name.ToString(), " (pid ", task.process->pid(),
                                           ") died: ", DescribeExit(wait_status));
    if (code >= 128 && task.restarts_left > 0 && num_running_workers() + !task.is_ps() > 0) {
      return Restart(task, death);
    }
    if (exit_code_ == 0) exit_code_ = code;
    const bool ends_job = task.is_ps() || task.name == kChief;
    Say(absl::StrCat(death, ends_job && num_running() > 0 ? "; stopping the others" : ""));
    if (ends_job) {
      Stop(SIGTERM);
    } else {
      OnWorkerGone();
    }
  }

  void OnTaskDone(Task& task) {
    if (!task.is_ps()) OnWorkerGone();
  }

  void Restart(Task& task, const std::string& death) {
    --task.restarts_left;
    Say(absl::StrCat(death, "; starting it again (", task.restarts_left, " restarts left)"));
    if (absl::Status started = StartTask(task); !started.ok()) {
      Say(std::string(started.message()));
      if (exit_code_ == 0) exit_code_ = 127;
      Stop(SIGTERM);
    }
  }

  // From the last worker's end on the ps tasks have a while to leave.
  void OnWorkerGone() {
    if (num_running_workers() == 0 && !deadline_) deadline_ = absl::Now() + options_.ps_grace;
  }

  void OnStopSignal(int signal) {
    if (interrupted_by_ != 0) return Kill();
    interrupted_by_ = signal;
    Say(absl::StrCat("stopping the job: ", strsignal(signal)));
    Stop(signal);
  }

  void Stop(int signal) {
    is_stopping_ = true;
    deadline_ = absl::Now() + options_.stop_grace;
    for (Task& task : tasks_) {
      if (task.is_running) task.process->Signal(signal);
    }
  }

  void Kill() {
    for (Task& task : tasks_) {
      if (task.is_running) task.process->Signal(SIGKILL);
    }
  }

  void StopStragglers() {
    if (!deadline_ || absl::Now() < *deadline_) return;
    for (const Task& task : tasks_) {
      if (!task.is_running) continue;
      Say(absl::StrCat(
          task.name.ToString(), " (pid ", task.process->pid(), ") still runs ",
          is_stopping_
              ? absl::FormatDuration(options_.stop_grace) + " after it was told to stop: killing it"
              : absl::FormatDuration(options_.ps_grace) + " after the last worker was done: stopping it"));
    }
    if (is_stopping_) {
      deadline_.reset();
      Kill();
    } else {
      Stop(SIGTERM);
    }
  }

  void Say(const std::string& text) { terminal_.WriteLine("[weir] ", text, /*is_error=*/true); }

  int num_running() const {
    int count = 0;
    for (const Task& task : tasks_) count += task.is_running;
    return count;
  }

  int num_running_workers() const {
    int count = 0;
    for (const Task& task : tasks_) count += task.is_running && !task.is_ps();
    return count;
  }

  const TaskName kChief{"worker", 0};

  const LaunchOptions& options_;
  SignalQueue signals_;
  Terminal terminal_;
  const std::string token_;
  ClusterSpec cluster_;
  std::vector<Task> tasks_;
  std::optional<absl::Time> deadline_;  // of what is being waited for: ps to leave, or everybody to stop
  bool is_stopping_ = false;
  int interrupted_by_ = 0;
  int exit_code_ = 0;
};

Launcher::Launcher(LaunchOptions options) : options_(std::move(options)) {}
Launcher::~Launcher() = default;

absl::StatusOr<int> Launcher::Run() {
  if (options_.command.empty()) return absl::InvalidArgumentError("no program to launch: put it after '--'");
  if (options_.num_workers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers=", options_.num_workers, ": a job needs at least one"));
  }
  if (options_.num_ps < 0 || options_.num_ps + options_.num_workers > 1000) {
    return absl::InvalidArgumentError(absl::StrCat("--ps=", options_.num_ps,
                                                   " --workers=", options_.num_workers,
                                                   ": between 1 and 1000 processes on one machine"));
  }
  if (options_.restarts < 0) return absl::InvalidArgumentError("--restart must not be negative");
  return Job(options_).Run();
}

}  // namespace weir
