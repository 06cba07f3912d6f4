#include "distributed/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <optional>
#include <random>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "distributed/host_name.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/found_hosts.h"
#include "distributed/launch/host_discovery.h"
#include "distributed/launch/launched_task.h"
#include "distributed/launch/signal_queue.h"
#include "distributed/launch/task_output.h"
#include "distributed/launch/task_placement.h"
#include "distributed/launch/worker_pool.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

extern char** environ;

namespace weir {
namespace {

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

}  // namespace

class Launcher::Job {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options),
        terminal_(options.output_fd, options.error_fd),
        token_(RandomToken()),
        directory_(Directory(options)),
        pool_(options.pool),
        discovery_(options.host_discovery_script) {}

  absl::StatusOr<int> Run() {
    WEIR_RETURN_IF_ERROR(AwaitHosts());
    if (interrupted_by_ != 0) return 128 + interrupted_by_;
    WEIR_RETURN_IF_ERROR(MakeTasks());
    if (options_.dry_run) return PrintCommands();
    for (LaunchedTask& task : tasks_) WEIR_RETURN_IF_ERROR(StartTask(task));
    while (num_alive() > 0) {
      WaitForEvents();
      StartDueTasks();
      if (const int signal = signals_.NextStopSignal(); signal != 0) OnStopSignal(signal);
      CopyOutputs();
      ReapTasks();
      ScaleWorkers();
      StopStubbornPs();
      StopStragglers();
    }
    return interrupted_by_ != 0 ? 128 + interrupted_by_ : exit_code_;
  }

 private:
  // Until the script has found enough of them to begin, or a signal stops the job.
  absl::Status AwaitHosts() {
    const absl::Time begin = ProcessNow();
    absl::Time next_notice = begin + kNoticeInterval;
    while (discovery_.is_on() && interrupted_by_ == 0) {
      if (auto found = discovery_.Poll(ProcessNow())) {
        NoteHosts(*found);
        next_notice = ProcessNow();
      }
      int num_slots = 0;
      for (const HostSlots& host : hosts_) num_slots += host.num_slots;
      if (num_slots >= options_.pool.min_workers) return absl::OkStatus();
      const std::string too_few =
          absl::StrCat("--host_discovery_script has found ", num_slots,
                       " slots, and --min_workers=", options_.pool.min_workers, " are needed");
      const absl::Duration left = begin + options_.pool.patience - ProcessNow();
      if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError(too_few);
      if (ProcessNow() >= next_notice) {
        Say(absl::StrCat(too_few, " (", absl::FormatDuration(absl::Trunc(left, absl::Seconds(1))), " left)"));
        next_notice = ProcessNow() + kNoticeInterval;
      }
      WaitForEvents();
      interrupted_by_ = signals_.NextStopSignal();
    }
    return absl::OkStatus();
  }

  // A list that cannot be used changes nothing.
  void NoteHosts(const absl::StatusOr<std::vector<HostSlots>>& found) {
    const absl::Status usable = found.ok() ? CheckReachable(*found, options_.hosts) : found.status();
    if (!usable.ok()) return Say(std::string(usable.message()));
    hosts_ = *found;
    pool_.SetHosts(hosts_);
  }

  // The tasks and where they are, on this machine at ports that nobody uses.
  absl::StatusOr<std::vector<PlacedTask>> Place() {
    const bool is_found = discovery_.is_on();
    const int num_workers = is_found ? 0 : options_.num_workers;
    std::vector<PlacedTask> placed;
    if (!options_.hosts.empty()) {
      WEIR_ASSIGN_OR_RETURN(placed,
                            PlaceTasks(options_.hosts, options_.num_ps, num_workers, options_.port_base));
    } else {
      WEIR_ASSIGN_OR_RETURN(placed, PlaceHere(options_.num_ps, num_workers));
    }
    std::vector<std::string> hosts_of_workers;
    if (is_found) {
      WEIR_ASSIGN_OR_RETURN(hosts_of_workers,
                            PlaceOnFoundHosts(hosts_, options_.pool.max_workers, port_base(), &placed));
    } else {
      // As many workers as a host has now are its slots.
      for (const PlacedTask& task : placed) {
        if (task.task.job == "ps") continue;
        hosts_of_workers.push_back(task.host);
        if (hosts_.empty() || hosts_.back().host != task.host) hosts_.push_back({task.host, 0});
        ++hosts_.back().num_slots;
      }
    }
    pool_.SetHosts(hosts_);
    pool_.Begin(hosts_of_workers, ProcessNow());
    return placed;
  }

  // 0: of this machine any ports that nobody uses.
  int port_base() const { return options_.hosts.empty() ? 0 : options_.port_base; }

  absl::Status MakeTasks() {
    WEIR_ASSIGN_OR_RETURN(const std::vector<PlacedTask> placed, Place());
    if (!options_.log_dir.empty()) WEIR_RETURN_IF_ERROR(MakeDirectories(options_.log_dir));
    std::string chief_host;
    for (const PlacedTask& place : placed) {
      const std::string address = HostPort{place.host, place.port}.ToString();
      WEIR_RETURN_IF_ERROR(cluster_.AddTask(place.task, address));
      if (place.task == kChief) chief_host = place.host;
      WEIR_RETURN_IF_ERROR(AddTask(place.task, place.host, address));
    }
    if (options_.evaluator) WEIR_RETURN_IF_ERROR(AddTask(kEvaluator, chief_host, ""));
    return absl::OkStatus();
  }

  absl::Status AddTask(const TaskName& name, const std::string& host, const std::string& address) {
    LaunchedTask task;
    task.name = name;
    task.address = address;
    if (!options_.hosts.empty()) task.host = host;
    task.restarts_left = options_.restarts;
    task.is_raw =
        task.name == kChief && !task.is_remote() && !options_.prefix_all && isatty(options_.output_fd);
    if (!options_.log_dir.empty() && !options_.dry_run) WEIR_RETURN_IF_ERROR(task.OpenLog(options_.log_dir));
    tasks_.push_back(std::move(task));
    tasks_.back().ConnectOutputs(&terminal_);
    return absl::OkStatus();
  }

  using Variables = std::vector<std::pair<std::string, std::string>>;

  // What the task gets beside the environment that it has anyway: this process's, or its host's. Without the
  // token, which is no part of a command line.
  absl::StatusOr<Variables> VariablesOf(const LaunchedTask& task) const {
    ClusterSpec cluster = cluster_;
    // One that joins later knows of itself beside those that the job began with.
    if (!task.address.empty() && !cluster.address(task.name).ok()) {
      WEIR_RETURN_IF_ERROR(cluster.AddTask(task.name, task.address));
    }
    WEIR_ASSIGN_OR_RETURN(const TaskConfig config, TaskConfig::Create(std::move(cluster), task.name));
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
    if (options_.is_elastic) {
      variables.push_back({"WEIR_MAX_WORKERS", absl::StrCat(options_.pool.max_workers)});
    }
    variables.insert(variables.end(), options_.environment.begin(), options_.environment.end());
    return variables;
  }

  absl::StatusOr<std::vector<std::string>> RemoteCommandOf(const LaunchedTask& task) const {
    RemoteTask remote;
    remote.host = task.host;
    remote.directory = directory_;
    WEIR_ASSIGN_OR_RETURN(remote.environment, VariablesOf(task));
    remote.command = options_.command;
    remote.stop_grace = options_.stop_grace;
    return SshCommand(options_.ssh, remote);
  }

  absl::Status StartTask(LaunchedTask& task) {
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
    for (const LaunchedTask& task : tasks_) {
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
    for (LaunchedTask& task : tasks_) {
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
    for (LaunchedTask& task : tasks_) {
      if (!task.is_running) continue;
      for (const FileDescriptor* fd : {&task.process->output(), &task.process->error()}) {
        if (fd->is_open()) events.push_back({fd->get(), POLLIN, 0});
      }
    }
    if (discovery_.output_fd() >= 0) events.push_back({discovery_.output_fd(), POLLIN, 0});
    absl::Time next = std::min(deadline_.value_or(absl::InfiniteFuture()),
                               second_stop_of_ps_.value_or(absl::InfiniteFuture()));
    if (options_.is_elastic && !is_stopping_) {
      next = std::min({next, discovery_.next_time(), pool_.next_time()});
    }
    for (const LaunchedTask& task : tasks_) {
      next = std::min(
          {next, task.restart_at.value_or(absl::InfiniteFuture()),
           task.is_running ? task.kill_at.value_or(absl::InfiniteFuture()) : absl::InfiniteFuture()});
    }
    int timeout_ms = -1;
    if (next != absl::InfiniteFuture()) {
      const absl::Duration left = std::clamp(next - ProcessNow(), absl::ZeroDuration(), absl::Hours(1));
      timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
    }
    poll(events.data(), events.size(), timeout_ms);
  }

  void CopyOutputs() {
    for (LaunchedTask& task : tasks_) {
      if (task.is_running) task.CopyOutputs();
    }
  }

  void ReapTasks() {
    for (LaunchedTask& task : tasks_) {
      int wait_status = 0;
      if (!task.is_running || !task.process->HasEnded(&wait_status)) continue;
      task.CopyOutputs();
      task.output->Finish();
      task.error->Finish();
      task.is_running = false;
      OnTaskEnd(task, wait_status);
    }
  }

  void OnTaskEnd(LaunchedTask& task, int wait_status) {
    if (is_stopping_) {  // we asked for it
      if (!task.is_ps() && num_live_workers() == 0) StopPs();
      return;
    }
    const int code = ExitCodeOf(wait_status);
    if (IsPooled(task) && (code != 0 || task.kill_at)) return OnWorkerLost(task, code, wait_status);
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

  void OnTaskDone(LaunchedTask& task) {
    if (!task.is_ps() && task.name != kEvaluator) pool_.Close();
    if (!task.is_ps()) OnWorkerGone();
  }

  bool IsPooled(const LaunchedTask& task) const {
    return options_.is_elastic && task.name.job == kChief.job && task.name != kChief;
  }

  void OnWorkerLost(LaunchedTask& task, int code, int wait_status) {
    const bool was_told = task.kill_at.has_value();
    task.kill_at.reset();
    if (was_told) {
      pool_.OnEnded(task.name.index, WorkerPool::End::kTold, ProcessNow());
      Say(absl::StrCat(Describe(task), " has left"));
    } else if (code >= 128) {
      pool_.OnEnded(task.name.index, WorkerPool::End::kAgain, ProcessNow());
      last_failure_ = code;
      Say(absl::StrCat(Describe(task), " died: ", DescribeExit(wait_status), " (", pool_.num_resets(), " of ",
                       options_.pool.reset_limit, " resets)"));
    } else {
      pool_.OnEnded(task.name.index, WorkerPool::End::kBroken, ProcessNow());
      if (exit_code_ == 0) exit_code_ = code;
      Say(absl::StrCat(Describe(task), " died: ", DescribeExit(wait_status)));
    }
    OnWorkerGone();
  }

  // Of an elastic job: starts and stops workers as hosts come and go.
  void ScaleWorkers() {
    if (!options_.is_elastic || is_stopping_) return;
    const absl::Time now = ProcessNow();
    if (auto found = discovery_.Poll(now)) NoteHosts(*found);
    const WorkerPool::Plan plan = pool_.Next(now);
    for (const int index : plan.stops) TellToLeave({"worker", index});
    for (const WorkerPool::Start& start : plan.starts) {
      if (absl::Status started = StartWorker(start); !started.ok()) {
        Say(std::string(started.message()));
        pool_.OnEnded(start.index, WorkerPool::End::kAgain, now);
      }
    }
    for (LaunchedTask& task : tasks_) {
      if (!task.is_running || !task.kill_at || now < *task.kill_at) continue;
      Say(absl::StrCat(Describe(task), " still runs ", absl::FormatDuration(options_.stop_grace),
                       " after it was told to leave: killing it"));
      task.kill_at = absl::InfiniteFuture();
      task.Kill();
    }
    const std::string why = pool_.WhyGivenUp(now);
    if (why.empty()) return;
    Say(absl::StrCat(why, num_alive() > 0 ? "; stopping the job" : ""));
    if (exit_code_ == 0) exit_code_ = last_failure_ != 0 ? last_failure_ : 1;
    Stop();
  }

  LaunchedTask* FindTask(const TaskName& name) {
    const auto found =
        std::find_if(tasks_.begin(), tasks_.end(), [&](const LaunchedTask& t) { return t.name == name; });
    return found == tasks_.end() ? nullptr : &*found;
  }

  void TellToLeave(const TaskName& name) {
    LaunchedTask* const task = FindTask(name);
    if (task == nullptr || !task->is_running) return;
    task->kill_at = ProcessNow() + options_.stop_grace;
    Say(absl::StrCat(Describe(*task), " is told to leave: there is no slot for it any more"));
    task->AskToStop();
  }

  absl::Status StartWorker(const WorkerPool::Start& start) {
    const TaskName name{"worker", start.index};
    std::string address = cluster_.address(name).value_or("");
    if (address.empty()) {
      std::set<std::string> used;
      for (const TaskName& seed : cluster_.tasks()) used.insert(cluster_.address(seed).value());
      for (const LaunchedTask& task : tasks_) {
        if (task.is_alive()) used.insert(task.address);
      }
      WEIR_ASSIGN_OR_RETURN(const HostPort found, NewAddress(start.host, port_base(), used));
      address = found.ToString();
    }
    if (FindTask(name) == nullptr) WEIR_RETURN_IF_ERROR(AddTask(name, start.host, address));
    LaunchedTask& task = *FindTask(name);
    task.address = address;
    if (!options_.hosts.empty()) task.host = start.host;
    WEIR_RETURN_IF_ERROR(StartTask(task));
    Say(absl::StrCat(Describe(task), " is started, to join the job"));
    return absl::OkStatus();
  }

  void Restart(LaunchedTask& task, int code, const std::string& death) {
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
    for (const LaunchedTask& task : tasks_) {
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
    for (LaunchedTask& task : tasks_) task.restart_at.reset();
    for (LaunchedTask& task : tasks_) {
      if (!task.is_ps()) task.AskToStop();
    }
    if (num_live_workers() == 0) StopPs();
  }

  // What the chief saves when it is stopped is on the ps, so they come last. A ps still waits for a worker
  // that was killed (Server::Join): the second SIGTERM, which ends it, says that none is left.
  void StopPs() {
    for (LaunchedTask& task : tasks_) {
      if (task.is_ps()) task.AskToStop();
    }
    second_stop_of_ps_ = ProcessNow() + kPsPatience;
  }

  void StopStubbornPs() {
    if (!second_stop_of_ps_ || ProcessNow() < *second_stop_of_ps_) return;
    StopPs();
    second_stop_of_ps_.reset();
  }

  // What runs on another host is killed there; its ssh has a moment to say so before it is killed, too.
  void Kill() {
    for (LaunchedTask& task : tasks_) {
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
    for (const LaunchedTask& task : tasks_) {
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

  static std::string Describe(const LaunchedTask& task) {
    if (task.is_remote()) return absl::StrCat(task.name.ToString(), " (on ", task.host, ")");
    return absl::StrCat(task.name.ToString(), " (pid ", task.process->pid(), ")");
  }

  int num_alive() const {
    int count = 0;
    for (const LaunchedTask& task : tasks_) count += task.is_alive();
    return count;
  }

  // And the evaluator, which is waited for like one.
  int num_live_workers() const {
    int count = 0;
    for (const LaunchedTask& task : tasks_) count += task.is_alive() && !task.is_ps();
    return count;
  }

  static constexpr absl::Duration kKillPatience = absl::Seconds(2);
  static constexpr absl::Duration kPsPatience = absl::Seconds(1);
  static constexpr absl::Duration kNoticeInterval = absl::Seconds(10);
  const TaskName kChief{"worker", 0};
  const TaskName kEvaluator{"evaluator", 0};

  const LaunchOptions& options_;
  SignalQueue signals_;
  Terminal terminal_;
  const std::string token_;
  const std::string directory_;
  ClusterSpec cluster_;
  std::list<LaunchedTask> tasks_;
  // Of an elastic job.
  std::vector<HostSlots> hosts_;
  WorkerPool pool_;
  HostDiscovery discovery_;
  int last_failure_ = 0;
  std::optional<absl::Time> deadline_;  // of what is being waited for: ps to leave, or everybody to stop
  std::optional<absl::Time> second_stop_of_ps_;
  bool is_stopping_ = false;
  bool is_killing_ = false;
  int interrupted_by_ = 0;
  int exit_code_ = 0;
};

static absl::Status CheckElastic(const LaunchOptions& options) {
  const WorkerPoolOptions& pool = options.pool;
  if (pool.min_workers < 1 || pool.max_workers < pool.min_workers || pool.max_workers > 1000) {
    return absl::InvalidArgumentError(
        absl::StrCat("--min_workers=", pool.min_workers, " --max_workers=", pool.max_workers,
                     ": the first must be at least 1, and the second between it and 1000"));
  }
  if (options.num_ps < 1) {
    return absl::InvalidArgumentError(
        "workers can only come and go where parameter servers hold the variables: --ps must be at least 1");
  }
  if (!options.host_discovery_script.empty()) return absl::OkStatus();
  if (options.num_workers >= pool.min_workers && options.num_workers <= pool.max_workers)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--workers=", options.num_workers,
                                                 " is not between --min_workers=", pool.min_workers,
                                                 " and --max_workers=", pool.max_workers));
}

Launcher::Launcher(LaunchOptions options) : options_(std::move(options)) {
  options_.pool.hosts_may_change = !options_.host_discovery_script.empty();
}
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
  if (options_.is_elastic) WEIR_RETURN_IF_ERROR(CheckElastic(options_));
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
