#include "tests/faults/campaign/fault_run.h"

#include <dirent.h>
#include <signal.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "tests/faults/campaign/cluster.h"
#include "tests/faults/campaign/verdict.h"

namespace weir {

std::string Surroundings::ExpectedFinish(int num_workers, int last_step) {
  absl::MutexLock lock(&expected_mutex_);
  std::string& expected = expected_[num_workers];
  if (!expected.empty()) return expected;
  Plan plan;
  plan.mode = Mode::kSync;
  plan.num_workers = num_workers;
  plan.last_step = last_step;
  plan.step_ms = 1;
  plan.lease = absl::Seconds(10);
  const std::string directory = absl::StrCat(scratch_, "/expected_", num_workers);
  Cluster cluster(plan, *this, directory);
  if (!cluster.StartAll().ok()) return "cannot run without faults";
  cluster.Await([&] { return cluster.AllHaveEnded(); }, absl::Now() + Bound(plan));
  const Line* line = cluster.job().FirstLine("finished at step ", absl::InfinitePast());
  if (line == nullptr) return "does not finish without faults";
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return expected = line->text;
}

absl::Duration Bound(const Plan& plan) {
  absl::Duration bound = 5 * absl::Seconds(3) + absl::Seconds(15) + 3 * plan.lease + plan.pause;
  // The chief waits so long for the lock of its folder, a session so long for a lost peer (Cluster's flags),
  // and a ps so long for the chief.
  bound += absl::Seconds(10) + absl::Seconds(10) + absl::Seconds(6);
  if (plan.family == Family::kNetwork || plan.family == Family::kMachine)
    bound += plan.outage + absl::Seconds(5);
  return plan.slowness * bound;
}

namespace {

// Waits for the next file that becomes visible in a folder, or is made there.
class FolderWatch {
 public:
  explicit FolderWatch(const std::string& folder) : fd_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    inotify_add_watch(fd_, folder.c_str(), IN_CREATE | IN_MOVED_TO);
  }
  ~FolderWatch() { close(fd_); }
  // Whether there was one whose name begins so since the last call.
  bool Sees(const std::string& beginning) {
    alignas(inotify_event) char bytes[8192];
    bool sees = false;
    for (ssize_t count; (count = read(fd_, bytes, sizeof(bytes))) > 0;) {
      for (char* at = bytes; at < bytes + count;) {
        const auto* event = reinterpret_cast<const inotify_event*>(at);
        sees = sees || (event->len > 0 && absl::StartsWith(event->name, beginning));
        at += sizeof(inotify_event) + event->len;
      }
    }
    return sees;
  }

 private:
  const int fd_;
};

// How many times as long as it works a thread takes now.
double Slowness() {
  constexpr absl::Duration kWork = absl::Milliseconds(50);
  const auto work = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return absl::DurationFromTimespec(time);
  };
  const absl::Time start = absl::Now();
  for (const absl::Duration end = work() + kWork; work() < end;) {
  }
  return absl::FDivDuration(absl::Now() - start, kWork);
}

// Sleeps as long as it lives, and notes when it was not woken in time.
class LightSleeper {
 public:
  ~LightSleeper() {
    {
      absl::MutexLock lock(&mutex_);
      is_over_ = true;
    }
    thread_.join();
  }
  std::vector<Standstill> standstills() {
    absl::MutexLock lock(&mutex_);
    return standstills_;
  }

 private:
  static constexpr absl::Duration kSleep = absl::Milliseconds(50);
  static constexpr absl::Duration kLate = absl::Milliseconds(100);

  void Sleep() {
    for (absl::Time begin = absl::Now();;) {
      absl::SleepFor(kSleep);
      const absl::Time due = std::exchange(begin, absl::Now()) + kSleep;
      absl::MutexLock lock(&mutex_);
      if (begin - due > kLate) standstills_.push_back({due, begin});
      if (is_over_) return;
    }
  }

  absl::Mutex mutex_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Standstill> standstills_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_{[this] { Sleep(); }};
};

// The same at the pace of this machine: leases do not end because processes wait for a processor, and outages
// that are longer than a lease stay so.
Plan AtThePaceOfNow(Plan plan) {
  constexpr double kMostSlowness = 4;
  plan.slowness = std::clamp(Slowness(), 1.0, kMostSlowness);
  plan.lease *= plan.slowness;
  plan.outage *= plan.slowness;
  return plan;
}

class FaultRun {
 public:
  FaultRun(const Plan& plan, Surroundings& surroundings, const std::string& directory)
      : plan_(plan),
        surroundings_(surroundings),
        cluster_(plan, surroundings, directory),
        job_(cluster_.job()),
        begin_(absl::Now()),
        deadline_(begin_ + Bound(plan)) {}

  Outcome Run() {
    history_.fault = absl::InfiniteFuture();
    if (IsLaunched()) {
      cluster_.StartLauncher();
    } else if (const absl::Status started = cluster_.StartAll(); !started.ok()) {
      return {.violations = {absl::StrCat("harness: ", started.message())}};
    }
    if (plan_.family == Family::kKill) Kill();
    if (plan_.family == Family::kStop) StopAndContinue();
    if (plan_.family == Family::kNetwork) TroubleLinks();
    if (plan_.family == Family::kMachine) TroubleMachine();
    history_.ended_in_time = Await([&] { return cluster_.AllHaveEnded(); });
    history_.standstills = sleeper_.standstills();
    Outcome outcome;
    outcome.time = absl::Now() - begin_;
    const bool has_bits = plan_.mode == Mode::kSync || plan_.mode == Mode::kReplicas;
    outcome.violations =
        Judge(plan_, history_, cluster_,
              has_bits ? surroundings_.ExpectedFinish(plan_.num_workers, plan_.last_step) : std::string());
    if (!setup_error_.empty()) outcome.violations.push_back(absl::StrCat("harness: ", setup_error_));
    outcome.was_hit = history_.was_hit;
    Measure(outcome);
    return outcome;
  }

 private:
  bool IsLaunched() const { return plan_.role == Role::kLauncher; }
  bool Await(const std::function<bool()>& is_so) { return cluster_.Await(is_so, deadline_); }
  void Pause(absl::Duration time) {
    cluster_.Await([] { return false; }, std::min(absl::Now() + time, deadline_));
  }

  // The victim's process, whoever has started it; -1 when it does not run.
  pid_t Pid(const std::string& task) {
    if (IsLaunched() && task != "launcher") return job_.PidOf(task);
    TaskProcess* process = job_.newest(task);
    return process != nullptr && process->is_running() ? process->pid : -1;
  }

  bool HasStarted(const std::string& task) const {
    return job_.PidOf(task == "launcher" ? "worker:0" : task) > 0;
  }

  void AwaitStep() {
    Await([&] { return job_.LastStep() >= plan_.at_step || cluster_.AllHaveEnded(); });
  }

  // Until nothing has been done for a while: what was pushed waits.
  void AwaitStandstill() {
    Await([&] {
      const std::vector<Progress>& progress = job_.progress();
      return progress.empty() || absl::Now() - progress.back().time > absl::Milliseconds(120);
    });
  }

  // The victim is killed when this returns.
  void AwaitPhase() {
    switch (plan_.phase) {
      case Phase::kBeforeInit:
        Await([&] { return HasStarted(plan_.victim) || cluster_.AllHaveEnded(); });
        absl::SleepFor(plan_.delay);
        return;
      case Phase::kMidStep:
        AwaitStep();
        absl::SleepFor(plan_.delay);
        return;
      case Phase::kPushed:
        AwaitStep();
        frozen_pid_ = Pid(plan_.frozen);
        if (frozen_pid_ > 0) kill(frozen_pid_, SIGSTOP);
        AwaitStandstill();
        return;
      case Phase::kCheckpoint: {
        AwaitStep();
        FolderWatch watch(job_.checkpoint_dir());
        Await([&] { return watch.Sees("model.ckpt-") || cluster_.AllHaveEnded(); });
        absl::SleepFor(plan_.delay);
        return;
      }
      case Phase::kShutdown:
        Await([&] { return job_.LastStep() >= plan_.last_step - 1 || cluster_.AllHaveEnded(); });
        absl::SleepFor(plan_.delay);
    }
  }

  void MarkFault() {
    history_.checkpoint_at_fault = job_.NewestCheckpoint();
    history_.fault = absl::Now();
  }

  void Kill() {
    cluster_.left_alone().insert(plan_.victim);
    AwaitPhase();
    job_.Poll();
    TaskProcess* victim = job_.newest(plan_.victim);
    history_.was_hit = victim != nullptr && victim->is_running();
    if (IsLaunched()) RememberPids();
    MarkFault();
    if (history_.was_hit) job_.Signal(*victim, SIGKILL);
    if (frozen_pid_ > 0) kill(frozen_pid_, SIGCONT);
    if (!history_.was_hit) {
      cluster_.left_alone().erase(plan_.victim);
      return;
    }
    Await([&] { return !victim->is_running(); });
    if (IsLaunched()) {
      Await([&] { return NumRunning() == 0; });
      cluster_.StartLauncher();
      history_.healed = absl::Now();
      return;
    }
    history_.victim_is_gone_for_good = plan_.comeback == Comeback::kNever;
    if (plan_.comeback == Comeback::kNever) {
      if (plan_.role == Role::kPs) {  // nobody is started again then: each says once why it ends
        for (const std::string& task : cluster_.tasks()) {
          cluster_.left_alone().insert(task);
        }
        StopEvaluator();
      }
      return;
    }
    Pause(plan_.pause);
    if (cluster_.ChiefIsDone() && plan_.role != Role::kEvaluator) return;
    if (plan_.comeback == Comeback::kOtherPort && !cluster_.LinksTo(plan_.victim).empty()) {
      cluster_.StartElsewhere(plan_.victim);
    } else {
      cluster_.StartTask(plan_.victim);
    }
    history_.healed = absl::Now();
    cluster_.left_alone().erase(plan_.victim);
  }

  // It would wait for ever for the last checkpoint of a job that has failed.
  void StopEvaluator() {
    Await([&] {
      return std::none_of(job_.processes().begin(), job_.processes().end(), [](const TaskProcess& process) {
        return process.is_running() && absl::StartsWith(process.task, "worker");
      });
    });
    if (TaskProcess* evaluator = job_.newest("evaluator:0")) job_.Signal(*evaluator, SIGKILL);
    for (int i = 0; i < plan_.num_ps; ++i) {
      TaskProcess* ps = job_.newest(absl::StrCat("ps:", i));
      if (ps != nullptr) job_.Signal(*ps, SIGKILL);
    }
  }

  void RememberPids() {
    for (const std::string& task : cluster_.tasks()) {
      const pid_t pid = job_.PidOf(task);
      if (pid > 0) history_.pids.push_back(pid);
    }
  }
  int NumRunning() const {
    return static_cast<int>(std::count_if(history_.pids.begin(), history_.pids.end(), IsRunning));
  }

  void StopAndContinue() {
    AwaitStep();
    absl::SleepFor(plan_.delay);
    job_.Poll();
    TaskProcess* victim = job_.newest(plan_.victim);
    history_.was_hit = victim != nullptr && victim->is_running();
    MarkFault();
    if (!history_.was_hit) return;
    kill(victim->pid, SIGSTOP);
    switch (plan_.stop) {
      case Stop::kOneSecond:
        Pause(absl::Seconds(1));
        break;
      case Stop::kTwoLeases:
        Pause(2 * plan_.lease);
        break;
      case Stop::kUntilOthersEnd:
        AwaitEndOfOthers();
        break;
      case Stop::kReplaced:
      case Stop::kReplacedUntilOthersEnd:
        Pause(plan_.lease);
        Replace();
        if (plan_.stop == Stop::kReplaced) {
          const int step = job_.LastStep();
          Await([&] { return job_.LastStep() > step || OnlyTheStoppedRuns(victim); });
        } else {
          Await([&] { return OnlyTheStoppedRuns(victim); });
        }
    }
    cluster_.left_alone().insert(plan_.victim);
    kill(victim->pid, SIGCONT);
    cluster_.NoteVictimIsAwake();
    history_.healed = absl::Now();
  }

  static bool OnlyTheStoppedRuns(const std::deque<TaskProcess>& processes, const TaskProcess* stopped) {
    return std::none_of(processes.begin(), processes.end(), [&](const TaskProcess& process) {
      return process.is_running() && &process != stopped;
    });
  }
  bool OnlyTheStoppedRuns(const TaskProcess* stopped) {
    return OnlyTheStoppedRuns(job_.processes(), stopped);
  }

  // Also when they have ended because of it, and are started again.
  void AwaitEndOfOthers() {
    if (IsLaunched()) {
      RememberPids();
      Await([&] { return NumRunning() == 0; });
      return;
    }
    Await([&] { return cluster_.num_restarts() > 0 || cluster_.OthersHaveEnded() || OnlyAPsWaits(); });
  }
  // For the chief, which is stopped.
  bool OnlyAPsWaits() {
    return plan_.role == Role::kChief &&
           job_.FirstLine("waits for worker:0, the chief, lost", history_.fault) != nullptr;
  }

  void Replace() {
    // As a file server does with the lock of a client that is silent for long.
    if (plan_.role == Role::kChief) {
      std::error_code ignored;
      std::filesystem::remove(job_.checkpoint_dir() + "/.lock", ignored);
    }
    cluster_.StartElsewhere(plan_.victim);
  }

  void TroubleLinks();
  void TroubleMachine();
  void KillVictim(TaskProcess& victim);
  void SetFault(const LinkFault& inbound, const LinkFault& outbound);

  void Measure(Outcome& outcome) const {
    if (!history_.was_hit) return;
    const std::string name = absl::StrCat(plan_.victim, " ");
    if (const Line* line = job_.FirstLine(name, history_.fault, plan_.victim)) {
      outcome.detection = line->time - history_.fault;
    }
    if (history_.healed == absl::Time()) return;
    const bool is_own = plan_.role == Role::kWorker || plan_.role == Role::kEvaluator;
    for (const Progress& progress : job_.progress()) {
      if (progress.time < history_.healed || (is_own && progress.task != plan_.victim)) continue;
      outcome.recovery = progress.time - history_.healed;
      return;
    }
  }

  const Plan& plan_;
  Surroundings& surroundings_;
  Cluster cluster_;
  Job& job_;
  const absl::Time begin_;
  const absl::Time deadline_;
  History history_;
  LightSleeper sleeper_;
  pid_t frozen_pid_ = -1;
  std::string setup_error_;
};

void FaultRun::SetFault(const LinkFault& inbound, const LinkFault& outbound) {
  for (const int link : cluster_.LinksTo(plan_.victim)) cluster_.network()->SetFault(link, inbound);
  for (const int link : cluster_.LinksFrom(plan_.victim)) cluster_.network()->SetFault(link, outbound);
}

// What comes in is requests of the links to the victim, and replies of those from it.
void FaultRun::TroubleLinks() {
  AwaitStep();
  absl::SleepFor(plan_.delay);
  job_.Poll();
  TaskProcess* victim = job_.newest(plan_.victim);
  history_.was_hit = victim != nullptr && victim->is_running();
  MarkFault();
  if (!history_.was_hit) return;
  Network& network = *cluster_.network();
  const auto reset_all = [&] {
    for (const int link : cluster_.LinksTo(plan_.victim)) network.Reset(link);
    for (const int link : cluster_.LinksFrom(plan_.victim)) network.Reset(link);
  };
  const LinkFault all = {.stalls_requests = true, .stalls_replies = true, .delay = {}, .jitter = {}};
  const LinkFault requests = {.stalls_requests = true, .delay = {}, .jitter = {}};
  const LinkFault replies = {.stalls_replies = true, .delay = {}, .jitter = {}};
  switch (plan_.trouble) {
    case Trouble::kPartition:
      SetFault(all, all);
      Pause(plan_.outage);
      break;
    case Trouble::kDeafPartition:
      SetFault(requests, replies);
      Pause(plan_.outage);
      break;
    case Trouble::kMutePartition:
      SetFault(replies, requests);
      Pause(plan_.outage);
      break;
    case Trouble::kReset:
      for (int i = 0; i < 5; ++i) {
        reset_all();
        Pause(plan_.outage / 10);
      }
      break;
    case Trouble::kFlap:
      for (int i = 0; i < 10; ++i) {
        SetFault(all, all);
        Pause(plan_.outage / 20);
        if (i % 2 == 1) reset_all();
        SetFault({}, {});
        Pause(plan_.outage / 20);
      }
      break;
    case Trouble::kHostDeath:
      // No end of a connection is ever seen. Its successor comes under the same name.
      for (const int link : cluster_.LinksTo(plan_.victim)) network.Abandon(link);
      for (const int link : cluster_.LinksFrom(plan_.victim)) network.Abandon(link);
      job_.Signal(*victim, SIGKILL);
      cluster_.left_alone().insert(plan_.victim);
      Await([&] { return !victim->is_running(); });
      Pause(plan_.pause);
      cluster_.StartElsewhere(plan_.victim);
      cluster_.left_alone().erase(plan_.victim);
      break;
    case Trouble::kDelay: {
      const LinkFault slow = {.delay = absl::Milliseconds(50), .jitter = absl::Milliseconds(150)};
      SetFault(slow, slow);
      Pause(plan_.outage);
      break;
    }
    case Trouble::kSlow: {
      const LinkFault slow = {.delay = {}, .jitter = {}, .bytes_per_second = 1'000'000 / 8};
      SetFault(slow, slow);
      Pause(plan_.outage);
      break;
    }
    case Trouble::kCut: {
      for (int i = 0; i < 5; ++i) {
        const LinkFault cut = {.delay = {}, .jitter = {}, .cut_after = 1 + 97 * i};
        SetFault(cut, cut);
        Pause(plan_.outage / 20);
        SetFault({}, {});
        Pause(plan_.outage / 20);
      }
      break;
    }
  }
  SetFault({}, {});
  history_.healed = absl::Now();
}

void FaultRun::KillVictim(TaskProcess& victim) {
  cluster_.left_alone().insert(plan_.victim);
  job_.Signal(victim, SIGKILL);
  Await([&] { return !victim.is_running(); });
}

void FaultRun::TroubleMachine() {
  AwaitStep();
  absl::SleepFor(plan_.delay);
  job_.Poll();
  TaskProcess* victim = job_.newest(plan_.victim);
  history_.was_hit = victim != nullptr && victim->is_running();
  MarkFault();
  if (!history_.was_hit) return;
  Machines& machines = *cluster_.machines();
  const int machine = cluster_.machine_of(plan_.victim);
  absl::Status status;
  switch (plan_.mishap) {
    case Mishap::kCable:
      status = machines.SetLink(machine, false);
      Pause(plan_.outage);
      status.Update(machines.SetLink(machine, true));
      break;
    case Mishap::kLooseCable:
      for (int i = 0; i < 10; ++i) {
        status.Update(machines.SetLink(machine, false));
        Pause(plan_.outage / 20);
        status.Update(machines.SetLink(machine, true));
        Pause(plan_.outage / 20);
      }
      break;
    case Mishap::kPower:
      status = machines.SetLink(machine, false);
      KillVictim(*victim);
      Pause(plan_.pause);
      cluster_.MoveToSpareMachine(plan_.victim);
      cluster_.StartTask(plan_.victim);
      break;
    case Mishap::kName:
      machines.SetName(Cluster::HostOf(plan_.victim), "", /*except=*/machine);
      KillVictim(*victim);
      cluster_.StartTask(plan_.victim);
      Pause(plan_.outage);
      machines.SetName(Cluster::HostOf(plan_.victim), Machines::AddressOf(machine));
      break;
    case Mishap::kRate:
      status = machines.SetRate(machine, 1000);
      Pause(plan_.outage);
      status.Update(machines.SetRate(machine, 0));
      break;
    case Mishap::kProxy:
      break;
  }
  if (!status.ok()) setup_error_ = std::string(status.message());
  cluster_.left_alone().erase(plan_.victim);
  history_.healed = absl::Now();
}

}  // namespace

Outcome RunPlan(const Plan& plan, Surroundings& surroundings) {
  const std::string directory =
      absl::StrCat(surroundings.scratch(), "/", NameOf(plan.family), "_", plan.seed);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  Outcome outcome = FaultRun(AtThePaceOfNow(plan), surroundings, directory).Run();
  outcome.directory = directory;
  if (outcome.violations.empty()) std::filesystem::remove_all(directory, ignored);
  return outcome;
}

}  // namespace weir
