#include "distributed/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "distributed/host_name.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/free_ports.h"
#include "distributed/launch/task_output.h"
#include "distributed/launch/task_placement.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

extern char** environ;

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
  std::string host;  // empty: this machine
  bool is_raw = false;
  int restarts_left = 0;
  std::optional<ChildProcess> process;
  FileDescriptor log;
  std::optional<TaskOutput> output;
  std::optional<TaskOutput> error;
  bool is_running = false;
  std::optional<absl::Time> restart_at;

  bool is_alive() const { return is_running || restart_at.has_value(); }
  bool is_remote() const { return !host.empty(); }
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

// One that a shell can export.
bool IsVariableName(absl::string_view name) {
  return !name.empty() && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// Where tasks on other hosts run.
std::string Directory(const LaunchOptions& options) {
  if (!options.directory.empty()) return options.directory;
  std::error_code error;
  return std::filesystem::current_path(error).string();
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
      : options_(options),
        terminal_(options.output_fd, options.error_fd),
        token_(RandomToken()),
        directory_(Directory(options)) {}

  absl::StatusOr<int> Run() {
    WEIR_RETURN_IF_ERROR(MakeTasks());
    if (options_.dry_run) return PrintCommands();
    for (Task& task : tasks_) WEIR_RETURN_IF_ERROR(StartTask(task));
    while (num_alive() > 0) {
      WaitForEvents();
      StartDueTasks();
      if (const int signal = signals_.NextStopSignal(); signal != 0) OnStopSignal(signal);
      CopyOutputs();
      ReapTasks();
      StopStubbornPs();
      StopStragglers();
    }
    return interrupted_by_ != 0 ? 128 + interrupted_by_ : exit_code_;
  }

 private:
  // The tasks and where they are, on this machine at ports that nobody uses.
  absl::StatusOr<std::vector<PlacedTask>> Place() const {
    if (!options_.hosts.empty()) {
      return PlaceTasks(options_.hosts, options_.num_ps, options_.num_workers, options_.port_base);
    }
    const int count = options_.num_ps + options_.num_workers;
    WEIR_ASSIGN_OR_RETURN(const std::vector<int> ports, FindFreePorts(count));
    WEIR_ASSIGN_OR_RETURN(std::vector<PlacedTask> placed,
                          PlaceTasks({{"127.0.0.1", count}}, options_.num_ps, options_.num_workers, 1));
    for (int i = 0; i < count; ++i) placed[i].port = ports[i];
    return placed;
  }

  absl::Status MakeTasks() {
    WEIR_ASSIGN_OR_RETURN(const std::vector<PlacedTask> placed, Place());
    if (!options_.log_dir.empty()) WEIR_RETURN_IF_ERROR(MakeDirectories(options_.log_dir));
    std::string chief_host;
    for (const PlacedTask& place : placed) {
      WEIR_RETURN_IF_ERROR(cluster_.AddTask(place.task, HostPort{place.host, place.port}.ToString()));
      if (place.task == kChief) chief_host = place.host;
      WEIR_RETURN_IF_ERROR(AddTask(place.task, place.host));
    }
    if (options_.evaluator) WEIR_RETURN_IF_ERROR(AddTask(kEvaluator, chief_host));
    for (Task& task : tasks_) ConnectOutputs(task);
    return absl::OkStatus();
  }

  absl::Status AddTask(const TaskName& name, const std::string& host) {
    Task task;
    task.name = name;
    if (!options_.hosts.empty()) task.host = host;
    task.restarts_left = options_.restarts;
    task.is_raw =
        task.name == kChief && !task.is_remote() && !options_.prefix_all && isatty(options_.output_fd);
    if (!options_.log_dir.empty() && !options_.dry_run) WEIR_RETURN_IF_ERROR(OpenLog(task));
    tasks_.push_back(std::move(task));
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

  using Variables = std::vector<std::pair<std::string, std::string>>;

  // What the task gets beside the environment that it has anyway: this process's, or its host's. Without the
  // token, which is no part of a command line.
  absl::StatusOr<Variables> VariablesOf(const Task& task) const {
    WEIR_ASSIGN_OR_RETURN(const TaskConfig config, TaskConfig::Create(cluster_, task.name));
    Variables variables = {{"TF_CONFIG", config.ToTfConfig()}};
    if (task.is_remote()) {
      const bool is_loopback = IsLoopbackHost(task.host);
      if (!is_loopback && std::getenv("WEIR_LISTEN") == nullptr)
        variables.push_back({"WEIR_LISTEN", "0.0.0.0"});
      for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::pair<std::string, std::string> variable = absl::StrSplit(*entry, absl::MaxSplits('=', 1));
        if (absl::StartsWith(variable.first, "WEIR_") && variable.first != "WEIR_JOB_TOKEN" &&
            IsVariableName(variable.first)) {
          variables.push_back(variable);
        }
      }
    }
    variables.insert(variables.end(), options_.environment.begin(), options_.environment.end());
    return variables;
  }

  absl::StatusOr<std::vector<std::string>> RemoteCommandOf(const Task& task) const {
    RemoteTask remote;
    remote.host = task.host;
    remote.directory = directory_;
    WEIR_ASSIGN_OR_RETURN(remote.environment, VariablesOf(task));
    remote.command = options_.command;
    remote.stop_grace = options_.stop_grace;
    return SshCommand(options_.ssh, remote);
  }

  absl::Status StartTask(Task& task) {
    ChildOptions child;
    if (task.is_remote()) {
      WEIR_ASSIGN_OR_RETURN(child.command, RemoteCommandOf(task));
      child.has_input = true;
    } else {
      WEIR_ASSIGN_OR_RETURN(child.environment, VariablesOf(task));
      child.environment.emplace_back("WEIR_JOB_TOKEN", token_);
      child.command = options_.command;
      child.on_terminal = task.is_raw;
    }
    WEIR_ASSIGN_OR_RETURN(task.process, ChildProcess::Start(child));
    task.is_running = true;
    task.process->Tell(token_ + "\n");
    return absl::OkStatus();
  }

  // As a shell would take them. A terminal in the place of the launcher keeps the tasks running.
  absl::StatusOr<int> PrintCommands() {
    for (const Task& task : tasks_) {
      std::string line = absl::StrCat("# ", task.name.ToString(), "\n");
      if (task.is_remote()) {
        WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> command, RemoteCommandOf(task));
        absl::StrAppend(&line, "{ echo \"$WEIR_JOB_TOKEN\"; cat; } | ", ShellCommand(command), "\n");
      } else {
        WEIR_ASSIGN_OR_RETURN(const Variables variables, VariablesOf(task));
        for (const auto& [name, value] : variables) absl::StrAppend(&line, name, "=", ShellQuote(value), " ");
        absl::StrAppend(&line, ShellCommand(options_.command), "\n");
      }
      WriteFully(options_.output_fd, line);
    }
    return 0;
  }

  void StartDueTasks() {
    for (Task& task : tasks_) {
      if (!task.restart_at || ProcessNow() < *task.restart_at) continue;
      task.restart_at.reset();
      if (absl::Status started = StartTask(task); !started.ok()) {
        Say(std::string(started.message()));
        if (exit_code_ == 0) exit_code_ = 127;
        Stop();
      }
    }
  }

  void WaitForEvents() {
    std::vector<pollfd> events = {{signals_.fd(), POLLIN, 0}};
    for (Task& task : tasks_) {
      if (!task.is_running) continue;
      for (const FileDescriptor* fd : {&task.process->output(), &task.process->error()}) {
        if (fd->is_open()) events.push_back({fd->get(), POLLIN, 0});
      }
    }
    absl::Time next = std::min(deadline_.value_or(absl::InfiniteFuture()),
                               second_stop_of_ps_.value_or(absl::InfiniteFuture()));
    for (const Task& task : tasks_) next = std::min(next, task.restart_at.value_or(absl::InfiniteFuture()));
    int timeout_ms = -1;
    if (next != absl::InfiniteFuture()) {
      const absl::Duration left = std::clamp(next - ProcessNow(), absl::ZeroDuration(), absl::Hours(1));
      timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
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
    if (is_stopping_) {  // we asked for it
      if (!task.is_ps() && num_live_workers() == 0) StopPs();
      return;
    }
    const int code = ExitCodeOf(wait_status);
    if (code == 0) return OnTaskDone(task);
    const std::string death =
        absl::StrCat(Describe(task), " died: ", DescribeExit(wait_status),
                     task.is_remote() && code == kSshFailed
                         ? " (ssh's own: the host cannot be reached, or the connection was lost)"
                         : "");
    if (code >= 128 && task.restarts_left > 0 && num_live_workers() + !task.is_ps() > 0) {
      return Restart(task, code, death);
    }
    if (exit_code_ == 0) exit_code_ = code;
    const bool ends_job = task.is_ps() || task.name == kChief;
    Say(absl::StrCat(death, ends_job && num_alive() > 0 ? "; stopping the others" : ""));
    if (ends_job) {
      Stop();
    } else {
      OnWorkerGone();
    }
  }

  void OnTaskDone(Task& task) {
    if (!task.is_ps()) OnWorkerGone();
  }

  void Restart(Task& task, int code, const std::string& death) {
    --task.restarts_left;
    // The host may not have noticed yet that the connection is gone.
    const absl::Duration pause = task.is_remote() && code == kSshFailed
                                     ? options_.stop_grace + absl::Seconds(1)
                                     : absl::ZeroDuration();
    task.restart_at = ProcessNow() + pause;
    Say(absl::StrCat(death, "; starting it again",
                     pause > absl::ZeroDuration() ? absl::StrCat(" in ", absl::FormatDuration(pause)) : "",
                     " (", task.restarts_left, " restarts left)"));
  }

  // From the last worker's end on the ps tasks have a while to leave.
  void OnWorkerGone() {
    if (num_live_workers() == 0 && !deadline_) deadline_ = ProcessNow() + options_.ps_grace;
    for (const Task& task : tasks_) {
      if (task.name != kEvaluator || !task.is_alive() || num_live_workers() > 1) continue;
      Say(absl::StrCat("all workers have ended; waiting for ", Describe(task)));
    }
  }

  void OnStopSignal(int signal) {
    if (interrupted_by_ != 0) return Kill();
    interrupted_by_ = signal;
    Say(absl::StrCat("stopping the job: ", strsignal(signal), " (once more to kill it)"));
    Stop();
  }

  void Stop() {
    is_stopping_ = true;
    deadline_ = ProcessNow() + options_.stop_grace;
    for (Task& task : tasks_) task.restart_at.reset();
    for (Task& task : tasks_) {
      if (!task.is_ps()) AskToStop(task);
    }
    if (num_live_workers() == 0) StopPs();
  }

  // What the chief saves when it is stopped is on the ps, so they come last. A ps still waits for a worker
  // that was killed (Server::Join): the second SIGTERM, which ends it, says that none is left.
  void StopPs() {
    for (Task& task : tasks_) {
      if (task.is_ps()) AskToStop(task);
    }
    second_stop_of_ps_ = ProcessNow() + kPsPatience;
  }

  void StopStubbornPs() {
    if (!second_stop_of_ps_ || ProcessNow() < *second_stop_of_ps_) return;
    StopPs();
    second_stop_of_ps_.reset();
  }

  static void AskToStop(Task& task) {
    if (!task.is_running) return;
    if (task.is_remote()) {
      task.process->Tell("TERM\n");
    } else {
      task.process->Signal(SIGTERM);
    }
  }

  // What runs on another host is killed there; its ssh has a moment to say so before it is killed, too.
  void Kill() {
    for (Task& task : tasks_) {
      if (!task.is_running) continue;
      if (task.is_remote() && !is_killing_) {
        task.process->Tell("KILL\n");
        deadline_ = ProcessNow() + kKillPatience;
      } else {
        task.process->Signal(SIGKILL);
      }
    }
    is_killing_ = true;
  }

  void StopStragglers() {
    if (!deadline_ || ProcessNow() < *deadline_) return;
    for (const Task& task : tasks_) {
      if (!task.is_running || is_killing_) continue;
      Say(absl::StrCat(
          Describe(task), " still runs ",
          is_stopping_
              ? absl::FormatDuration(options_.stop_grace) + " after it was told to stop: killing it"
              : absl::FormatDuration(options_.ps_grace) + " after the last worker was done: stopping it"));
    }
    if (is_stopping_) {
      deadline_.reset();
      Kill();
    } else {
      Stop();
    }
  }

  void Say(const std::string& text) { terminal_.WriteLine("[weir] ", text, /*is_error=*/true); }

  static std::string Describe(const Task& task) {
    if (task.is_remote()) return absl::StrCat(task.name.ToString(), " (on ", task.host, ")");
    return absl::StrCat(task.name.ToString(), " (pid ", task.process->pid(), ")");
  }

  int num_alive() const {
    int count = 0;
    for (const Task& task : tasks_) count += task.is_alive();
    return count;
  }

  // And the evaluator, which is waited for like one.
  int num_live_workers() const {
    int count = 0;
    for (const Task& task : tasks_) count += task.is_alive() && !task.is_ps();
    return count;
  }

  static constexpr absl::Duration kKillPatience = absl::Seconds(2);
  static constexpr absl::Duration kPsPatience = absl::Seconds(1);
  const TaskName kChief{"worker", 0};
  const TaskName kEvaluator{"evaluator", 0};

  const LaunchOptions& options_;
  SignalQueue signals_;
  Terminal terminal_;
  const std::string token_;
  const std::string directory_;
  ClusterSpec cluster_;
  std::vector<Task> tasks_;
  std::optional<absl::Time> deadline_;  // of what is being waited for: ps to leave, or everybody to stop
  std::optional<absl::Time> second_stop_of_ps_;
  bool is_stopping_ = false;
  bool is_killing_ = false;
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
  if (options_.restarts < 0) return absl::InvalidArgumentError("--restarts must not be negative");
  if (absl::StripAsciiWhitespace(options_.ssh).empty())
    return absl::InvalidArgumentError("--ssh names no program");
  for (const auto& [name, value] : options_.environment) {
    if (!IsVariableName(name)) {
      return absl::InvalidArgumentError(absl::StrCat("--env: '", name, "' is no name of a variable"));
    }
    if (name == "WEIR_JOB_TOKEN" || name == "TF_CONFIG") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--env: ", name, " is the launcher's to give; it is in the environment of every task"));
    }
  }
  return Job(options_).Run();
}

}  // namespace weir
