#include "distributed/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/job_hosts.h"
#include "distributed/launch/launched_task.h"
#include "distributed/launch/remote_command.h"
#include "distributed/launch/signal_queue.h"
#include "distributed/launch/task_output.h"
#include "distributed/launch/task_placement.h"
#include "distributed/launch/task_starter.h"
#include "distributed/launch/worker_pool.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"

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

}  // namespace

class Launcher::Job {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options),
        terminal_(options.output_fd, options.error_fd),
        starter_(options),
        hosts_(options) {}

  absl::StatusOr<int> Run() {
    const absl::StatusOr<int> code = RunTasks();
    if (!code.ok()) tasks_.clear();  // ends those that run
    AwaitReaders();
    if (code.ok() && interrupted_by_ != 0) return 128 + interrupted_by_;
    return code;
  }

 private:
  absl::StatusOr<int> RunTasks() {
    WEIR_RETURN_IF_ERROR(AwaitHosts());
    if (interrupted_by_ != 0) return 0;
    WEIR_RETURN_IF_ERROR(MakeTasks());
    if (options_.dry_run) {
      WEIR_ASSIGN_OR_RETURN(const std::string commands, starter_.Commands(cluster_, tasks_));
      signals_.reset();  // a signal ends the wait for a reader
      const absl::Status written = WriteFully(options_.output_fd, commands, "the commands");
      signals_.emplace();
      WEIR_RETURN_IF_ERROR(written);
      return 0;
    }
    for (LaunchedTask& task : tasks_) WEIR_RETURN_IF_ERROR(StartTask(task));
    while (num_alive() > 0) {
      WaitForEvents();
      StartDueTasks();
      if (const int signal = signals_->NextStopSignal(); signal != 0) OnStopSignal(signal);
      CopyOutputs();
      ReapTasks();
      ScaleWorkers();
      KillSlowTasks();
      StopStubbornPs();
      StopStragglers();
    }
    return exit_code_;
  }

  // What is printed is written before the job's exit code is told, unless nobody takes it.
  void AwaitReaders() {
    absl::Time begin = ProcessNow();
    uint64_t num_taken = terminal_.num_taken();
    const auto patience = [this] {
      return interrupted_by_ == 0 ? options_.output_patience
                                  : std::min(options_.output_patience, kPatienceWhenStopped);
    };
    bool is_given_up = false;
    while (terminal_.has_backlog() && !is_given_up && ProcessNow() < begin + patience()) {
      std::vector<pollfd> events = {{signals_->fd(), POLLIN, 0}};
      terminal_.AddPollFds(&events);
      PollUntil(begin + patience(), events);
      if (const int signal = signals_->NextStopSignal(); signal != 0) {
        is_given_up = interrupted_by_ != 0;
        interrupted_by_ = signal;
        begin = ProcessNow();
      }
      terminal_.Flush();
      if (interrupted_by_ != 0 || terminal_.num_taken() == num_taken) continue;
      num_taken = terminal_.num_taken();
      begin = ProcessNow();
    }
    terminal_.Finish(patience());
  }

  // Until the script has found enough of them to begin, or a signal stops the job.
  absl::Status AwaitHosts() {
    const HostDiscovery& script = hosts_.discovery();
    const absl::Time begin = ProcessNow();
    absl::Time next_notice = begin + kNoticeInterval;
    while (script.is_on() && interrupted_by_ == 0) {
      const int before = hosts_.num_found();
      Say(hosts_.Ask(ProcessNow()));
      const int num_found = hosts_.num_found();
      if (num_found >= options_.pool.min_workers) return absl::OkStatus();
      if (num_found != before) next_notice = ProcessNow();
      const std::string too_few =
          absl::StrCat("--host_discovery_script has found ", num_found,
                       " slots, and --min_workers=", options_.pool.min_workers, " are needed");
      const absl::Duration left = begin + options_.pool.patience - ProcessNow();
      if (left <= absl::ZeroDuration() && script.has_answered()) return absl::DeadlineExceededError(too_few);
      if (ProcessNow() >= next_notice) {
        Say(absl::StrCat(too_few, " (", absl::FormatDuration(absl::Trunc(left, absl::Seconds(1))), " left)"));
        next_notice = ProcessNow() + kNoticeInterval;
      }
      WaitForEvents();
      interrupted_by_ = signals_->NextStopSignal();
    }
    return absl::OkStatus();
  }

  absl::Status MakeTasks() {
    WEIR_ASSIGN_OR_RETURN(const std::vector<PlacedTask> placed, hosts_.Place(ProcessNow()));
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

  absl::Status StartTask(LaunchedTask& task) {
    task.started = ProcessNow();
    return starter_.Start(cluster_, task);
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
    std::vector<pollfd> events = {{signals_->fd(), POLLIN, 0}};
    terminal_.AddPollFds(&events);
    for (LaunchedTask& task : tasks_) {
      if (task.is_running) task.AddPollFds(IsReadAnyway(task), &events);
    }
    for (const int fd : hosts_.discovery().fds()) events.push_back({fd, POLLIN, 0});
    absl::Time next = std::min(deadline_.value_or(absl::InfiniteFuture()),
                               second_stop_of_ps_.value_or(absl::InfiniteFuture()));
    if (options_.is_elastic && !is_stopping_) {
      next = std::min({next, hosts_.discovery().next_time(), pool().next_time()});
    }
    for (const LaunchedTask& task : tasks_) next = std::min(next, task.next_time());
    PollUntil(next, events);
    terminal_.Flush();
  }

  static void PollUntil(absl::Time next, std::vector<pollfd>& events) {
    int timeout_ms = -1;
    if (next != absl::InfiniteFuture()) {
      const absl::Duration left = std::clamp(next - ProcessNow(), absl::ZeroDuration(), absl::Hours(1));
      timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
    }
    poll(events.data(), events.size(), timeout_ms);
  }

  void CopyOutputs() {
    for (LaunchedTask& task : tasks_) {
      if (task.is_running) task.CopyOutputs(IsReadAnyway(task));
    }
  }

  // A task that nobody reads waits, as it would at a terminal. One that is told to end must not: it could not
  // save before it is killed.
  bool IsReadAnyway(const LaunchedTask& task) const { return is_stopping_ || task.kill_at.has_value(); }

  void ReapTasks() {
    for (LaunchedTask& task : tasks_) {
      int wait_status = 0;
      if (!task.is_running || !task.process->HasEnded(&wait_status)) continue;
      task.CopyLastOutputs();
      task.is_running = false;
      task.force_at.reset();
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
    const std::string death = DescribeDeath(task, code, wait_status);
    NoteCutOff(task, wait_status);
    const bool may_help = code >= 128 || task.was_cut_off;
    if (may_help && task.restarts_left > 0 && num_live_workers() + !task.is_ps() > 0) {
      return Restart(task, wait_status, death);
    }
    if (exit_code_ == 0) exit_code_ = code;
    const bool ends_job = task.is_ps() || task.name == kChief;
    Say(absl::StrCat(death, ends_job && num_alive() > 0 ? "; stopping the others"
                            : may_help                  ? "; it is not started again (--restarts)"
                                                        : ""));
    if (ends_job) {
      Stop();
    } else {
      OnWorkerGone();
    }
  }

  void OnTaskDone(LaunchedTask& task) {
    if (!task.is_ps() && task.name != kEvaluator) pool().Close();
    if (!task.is_ps()) OnWorkerGone();
  }

  // What runs on the host may not have noticed: ssh says that it has lost it, or was killed, here, because it
  // hung.
  static bool IsCutOff(const LaunchedTask& task, int wait_status) {
    return task.is_remote() && (WIFSIGNALED(wait_status) || ExitCodeOf(wait_status) == kSshFailed);
  }

  // Of a task that has its address for good. One that worked for long had its port.
  void NoteCutOff(LaunchedTask& task, int wait_status) const {
    const absl::Duration long_enough = options_.pool.cooldown * WorkerPoolOptions::kLongestCooldown;
    if (ProcessNow() - task.started > long_enough) task.was_cut_off = false;
    if (IsCutOff(task, wait_status)) task.was_cut_off = true;
  }

  bool IsPooled(const LaunchedTask& task) const {
    return options_.is_elastic && task.name.job == kChief.job && task.name != kChief;
  }

  void OnWorkerLost(LaunchedTask& task, int code, int wait_status) {
    const bool was_told = std::exchange(task.kill_at, std::nullopt).has_value();
    const bool is_cut_off = IsCutOff(task, wait_status);
    if (is_cut_off) hosts_.NoteLeftBehind(task.address);
    const WorkerPool::End end = pool().OnEnded(task.name.index,
                                               was_told && is_cut_off ? WorkerPool::End::kToldInVain
                                               : was_told             ? WorkerPool::End::kTold
                                               : is_cut_off           ? WorkerPool::End::kCutOff
                                               : code >= 128          ? WorkerPool::End::kAgain
                                                                      : WorkerPool::End::kBroken,
                                               ProcessNow());
    const std::string death = DescribeDeath(task, code, wait_status);
    if (was_told) {
      Say(absl::StrCat(Describe(task), " has left"));
    } else if (end == WorkerPool::End::kBroken) {
      if (exit_code_ == 0) exit_code_ = code;
      Say(death);
    } else {
      last_failure_ = code;
      Say(absl::StrCat(death, " (", pool().num_resets(), " of ", options_.pool.reset_limit, " resets)"));
    }
    OnWorkerGone();
  }

  // Of an elastic job: starts and stops workers as hosts come and go.
  void ScaleWorkers() {
    if (!options_.is_elastic || is_stopping_) return;
    const absl::Time now = ProcessNow();
    Say(hosts_.Ask(now));
    const WorkerPool::Plan plan = pool().Next(now);
    for (const int index : plan.stops) TellToLeave({"worker", index});
    for (const WorkerPool::Start& start : plan.starts) {
      if (absl::Status started = StartWorker(start); !started.ok()) {
        Say(std::string(started.message()));
        pool().OnEnded(start.index, WorkerPool::End::kAgain, now);
      }
    }
    const std::string why = pool().WhyGivenUp(now);
    if (why.empty()) return;
    Say(absl::StrCat(why, num_alive() > 0 ? "; stopping the job" : ""));
    if (exit_code_ == 0) exit_code_ = last_failure_ != 0 ? last_failure_ : 1;
    Stop();
  }

  void KillSlowTasks() {
    const absl::Time now = ProcessNow();
    for (LaunchedTask& task : tasks_) {
      if (!task.is_running) continue;
      task.KillSlow(now);
      if (!task.kill_at || now < *task.kill_at) continue;
      Say(absl::StrCat(Describe(task), " still runs ", absl::FormatDuration(options_.stop_grace),
                       " after it was told to leave: killing it"));
      task.kill_at = absl::InfiniteFuture();
      task.Kill(now);
    }
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
    std::set<std::string> used;
    for (const LaunchedTask& task : tasks_) {
      if (task.is_alive()) used.insert(task.address);
    }
    WEIR_ASSIGN_OR_RETURN(const std::string address, hosts_.AddressOf(start, cluster_, std::move(used)));
    if (FindTask(name) == nullptr) WEIR_RETURN_IF_ERROR(AddTask(name, start.host, address));
    LaunchedTask& task = *FindTask(name);
    task.address = address;
    if (!options_.hosts.empty()) task.host = start.host;
    WEIR_RETURN_IF_ERROR(StartTask(task));
    Say(absl::StrCat(Describe(task), " is started, to join the job"));
    return absl::OkStatus();
  }

  void Restart(LaunchedTask& task, int wait_status, const std::string& death) {
    --task.restarts_left;
    const absl::Duration pause =
        IsCutOff(task, wait_status) ? options_.pool.cut_off_pause : absl::ZeroDuration();
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
    hosts_.discovery().Stop();
    for (LaunchedTask& task : tasks_) task.restart_at.reset();
    for (LaunchedTask& task : tasks_) {
      if (!task.is_ps()) task.AskToStop();
    }
    if (num_live_workers() == 0) StopPs();
  }

  void TellPs() {
    for (LaunchedTask& task : tasks_) {
      if (task.is_ps()) task.AskToStop();
    }
  }

  // What the chief saves when it is stopped is on the ps, so they come last. A ps still waits for a worker
  // that was killed (Server::Join): the second SIGTERM, which ends it, says that none is left.
  void StopPs() {
    TellPs();
    second_stop_of_ps_ = ProcessNow() + kPsPatience;
    deadline_ = ProcessNow() + options_.stop_grace;
  }

  void StopStubbornPs() {
    if (!second_stop_of_ps_ || ProcessNow() < *second_stop_of_ps_) return;
    TellPs();
    second_stop_of_ps_.reset();
  }

  void Kill() {
    for (LaunchedTask& task : tasks_) task.Kill(ProcessNow());
  }

  void StopStragglers() {
    const absl::Time now = ProcessNow();
    if (!deadline_ || now < *deadline_) return;
    deadline_.reset();
    const bool ps_are_told = num_live_workers() == 0;
    for (LaunchedTask& task : tasks_) {
      if (!task.is_running) continue;
      if (!is_stopping_) {
        Say(absl::StrCat(Describe(task), " still runs ", absl::FormatDuration(options_.ps_grace),
                         " after the last worker was done: stopping it"));
      } else if (!task.is_ps() || ps_are_told) {
        Say(absl::StrCat(Describe(task), " still runs ", absl::FormatDuration(options_.stop_grace),
                         " after it was told to stop: killing it"));
        task.Kill(now);
      }
    }
    if (!is_stopping_) Stop();
  }

  // Nothing when it is empty. What a script, a host file or an error says may hold anything.
  void Say(const std::string& text) {
    if (!text.empty()) terminal_.WriteLine("[weir] ", PrintableText(text), /*is_error=*/true);
  }

  static std::string DescribeDeath(const LaunchedTask& task, int code, int wait_status) {
    return absl::StrCat(Describe(task), " died: ", DescribeExit(wait_status),
                        task.is_remote() && code == kSshFailed
                            ? " (ssh's own: the host cannot be reached, or the connection was lost)"
                            : "");
  }

  static std::string Describe(const LaunchedTask& task) {
    if (task.is_remote()) return absl::StrCat(task.name.ToString(), " (on ", task.host, ")");
    return absl::StrCat(task.name.ToString(), " (pid ", task.process->pid(), ")");
  }

  WorkerPool& pool() { return hosts_.pool(); }

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

  static constexpr absl::Duration kPsPatience = absl::Seconds(1);
  static constexpr absl::Duration kPatienceWhenStopped = absl::Seconds(2);
  static constexpr absl::Duration kNoticeInterval = absl::Seconds(10);
  const TaskName kChief{"worker", 0};
  const TaskName kEvaluator{"evaluator", 0};

  const LaunchOptions& options_;
  std::optional<SignalQueue> signals_{std::in_place};
  Terminal terminal_;
  const TaskStarter starter_;
  ClusterSpec cluster_;
  std::list<LaunchedTask> tasks_;
  JobHosts hosts_;
  int last_failure_ = 0;
  std::optional<absl::Time> deadline_;  // of what is being waited for: ps to leave, or everybody to stop
  std::optional<absl::Time> second_stop_of_ps_;
  bool is_stopping_ = false;
  int interrupted_by_ = 0;
  int exit_code_ = 0;
};

Launcher::Launcher(LaunchOptions options) : options_(std::move(options)) {
  options_.pool.hosts_may_change = !options_.host_discovery_script.empty();
  // What runs on a host ends within the grace time after that has noticed that the connection is gone.
  options_.pool.cut_off_pause = options_.stop_grace + absl::Seconds(1);
}
Launcher::~Launcher() = default;

absl::StatusOr<int> Launcher::Run() {
  WEIR_RETURN_IF_ERROR(CheckLaunchOptions(options_));
  return Job(options_).Run();
}

}  // namespace weir
