#include "tests/faults/campaign/verdict.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace weir {
namespace {

constexpr int kExitSuperseded = 5;
constexpr int kExitRetryable = 160;
// Between two signs of life of a job that waits: ten seconds, and a delay.
constexpr absl::Duration kLongestSilence = absl::Seconds(15);

class Judgement {
 public:
  Judgement(const Plan& plan, const History& history, Cluster& cluster, const std::string& expected_finish)
      : plan_(plan), history_(history), cluster_(cluster), job_(cluster.job()), expected_(expected_finish) {}

  std::vector<std::string> Judge() {
    if (!history_.ended_in_time && !OnlyLatecomersRun()) {
      Complain("bound", absl::StrCat("did not end within ", absl::FormatDuration(Bound(plan_)), "; ",
                                     RunningTasks(), " still ran"));
    }
    JudgeExits();
    JudgeLines();
    JudgeSilence();
    if (history_.ended_in_time) {
      if (plan_.comeback != Comeback::kNever || plan_.role != Role::kPs) JudgeResult();
      JudgeLeftovers();
    }
    JudgeRestore();
    JudgeNames();
    return std::move(violations_);
  }

 private:
  void Complain(const std::string& what, const std::string& text) {
    violations_.push_back(absl::StrCat(what, ": ", text));
  }

  std::string RunningTasks() const {
    std::string names;
    for (const TaskProcess& process : job_.processes()) {
      if (process.is_running()) absl::StrAppend(&names, names.empty() ? "" : ", ", process.task);
    }
    return names;
  }

  bool IsVictim(const TaskProcess& process) const { return process.task == plan_.victim; }

  // Whether the process may end with the code, beside 0.
  bool MayEndWith(const TaskProcess& process, int code) const {
    if (process.was_killed && code == 128 + SIGKILL) return true;
    if (process.was_told_to_stop && code == 128 + SIGTERM) return true;
    // Who cannot go on without it says so.
    const bool may_give_up =
        (plan_.comeback == Comeback::kNever && plan_.role == Role::kPs) ||
        (plan_.family == Family::kStop && plan_.role == Role::kPs && plan_.stop == Stop::kUntilOthersEnd) ||
        (plan_.phase == Phase::kShutdown && plan_.family == Family::kKill);
    if (code == kExitRetryable && (may_give_up || EndedAfterChief(process))) return true;
    if (!IsVictim(process) || plan_.family == Family::kKill) return false;
    const bool is_first = &process == FirstOf(plan_.victim);
    const bool is_replaced = plan_.family == Family::kStop &&
                             (plan_.stop == Stop::kReplaced || plan_.stop == Stop::kReplacedUntilOthersEnd);
    const bool is_dead_host = plan_.family == Family::kNetwork && plan_.trouble == Trouble::kHostDeath;
    if ((is_replaced || is_dead_host) && is_first && code == kExitSuperseded) return true;
    // When it wakes nobody is there who could tell it.
    const bool wakes_alone = plan_.family == Family::kStop && (plan_.stop == Stop::kUntilOthersEnd ||
                                                               plan_.stop == Stop::kReplacedUntilOthersEnd);
    return wakes_alone && is_first && code == kExitRetryable;
  }

  // It comes when nobody is there any more.
  bool EndedAfterChief(const TaskProcess& process) const {
    const TaskProcess* chief = job_.newest("worker:0");
    return IsVictim(process) && chief != nullptr && chief->ended.has_value() && chief->exit_code() == 0 &&
           *chief->ended < *process.ended;
  }

  // Nobody can tell a process that training is over when it comes after the others have ended: it says whom
  // it waits for, for as long as they might come again.
  bool OnlyLatecomersRun() const {
    constexpr absl::Duration kJoins = absl::Seconds(1);
    const TaskProcess* chief = job_.newest("worker:0");
    if (chief == nullptr || !chief->ended.has_value() || chief->exit_code() != 0) return false;
    for (const TaskProcess& process : job_.processes()) {
      if (!process.is_running()) continue;
      if (!IsVictim(process) || process.started + kJoins < *chief->ended) return false;
    }
    return true;
  }

  const TaskProcess* FirstOf(const std::string& task) const {
    for (const TaskProcess& process : job_.processes()) {
      if (process.task == task) return &process;
    }
    return nullptr;
  }

  void JudgeExits() {
    for (const TaskProcess& process : job_.processes()) {
      if (process.is_running()) continue;
      const int code = process.exit_code();
      if (code == 0 || MayEndWith(process, code)) continue;
      Complain("exit",
               absl::StrCat(process.task, " (pid ", process.pid, ") ended with ",
                            WIFSIGNALED(process.wait_status)
                                ? absl::StrCat("signal ", WTERMSIG(process.wait_status))
                                : absl::StrCat("code ", code),
                            process.lines.empty() ? "" : absl::StrCat(": ", process.lines.back().text)));
    }
  }

  void JudgeLines() {
    constexpr const char* kSignsOfACrash[] = {
        "CHECK fail", "Check fail",     "terminate called", "Sanitizer",
        "*** SIG",    "runtime error:", "Assertion",        "stack smashing"};
    for (const TaskProcess& process : job_.processes()) {
      for (const Line& line : process.lines) {
        for (const char* sign : kSignsOfACrash) {
          if (absl::StrContains(line.text, sign))
            Complain("crash", absl::StrCat(process.task, ": ", line.text));
        }
      }
    }
  }

  // Somebody runs, and for too long nothing is done and nobody says why.
  void JudgeSilence() {
    std::vector<absl::Time> signs;
    absl::Time end = absl::InfinitePast();
    for (const TaskProcess& process : job_.processes()) {
      signs.push_back(process.started);
      signs.push_back(process.ended.value_or(absl::Now()));
      end = std::max(end, signs.back());
      for (const Line& line : process.lines) {
        if (absl::StrContains(line.text, "wait") || absl::StrContains(line.text, " lost")) {
          signs.push_back(line.time);
        }
      }
    }
    for (const Progress& progress : job_.progress()) signs.push_back(progress.time);
    std::sort(signs.begin(), signs.end());
    for (size_t i = 1; i < signs.size() && signs[i] <= end; ++i) {
      const absl::Duration silence = signs[i] - signs[i - 1];
      if (silence <= plan_.slowness * kLongestSilence) continue;
      Complain("silence", absl::StrCat("for ", absl::FormatDuration(silence), ", from ",
                                       absl::FormatDuration(signs[i - 1] - signs[0]), " on"));
    }
  }

  std::string Finish() const {
    for (const TaskProcess& process : job_.processes()) {
      for (const Line& line : process.lines) {
        const size_t begin = line.text.find("finished at step ");
        if (begin != std::string::npos) return line.text.substr(begin);
      }
    }
    return "";
  }

  // The chief may have been killed when it had not said so yet, but saved.
  bool MayLackFinish() const {
    return plan_.mode == Mode::kAsync && plan_.role == Role::kChief &&
           (plan_.comeback == Comeback::kNever || plan_.family == Family::kStop);
  }

  void JudgeResult() {
    const std::string finish = Finish();
    if (finish.empty() && !MayLackFinish()) return Complain("result", "the chief has not finished");
    if (job_.NewestCheckpoint() < plan_.last_step && !finish.empty()) {
      Complain("result", absl::StrCat("the last checkpoint is of step ", job_.NewestCheckpoint(), ", not ",
                                      plan_.last_step));
    }
    if (plan_.mode == Mode::kAsync) return JudgeCounts(finish);
    if (plan_.mode == Mode::kBackup) return;  // depends on which gradients came first
    if (finish != expected_) Complain("result", absl::StrCat("'", finish, "' instead of '", expected_, "'"));
  }

  // "finished at step 61, counter 61, sum 61"
  void JudgeCounts(const std::string& finish) {
    if (!finish.empty()) {
      int step = -1, counter = -2, sum = -3;
      if (std::sscanf(finish.c_str(), "finished at step %d, counter %d, sum %d", &step, &counter, &sum) !=
              3 ||
          step != counter || step != sum) {
        Complain("result", absl::StrCat("not one number: ", finish));
      }
    }
    // A job that had saved nothing begins anew.
    const int num_restored = NumLines("weir: restored ") + (history_.checkpoint_at_fault < 0 ? 1 : 0);
    for (int i = 0; i < plan_.num_workers; ++i) {
      const std::string task = absl::StrCat("worker:", i);
      // A process that is killed may have had a step applied that it has not written down.
      int num_gaps_allowed = NumProcesses(task) - 1;
      int num_rollbacks = 0, before = 0;
      std::ifstream counts(absl::StrCat(job_.directory(), "/", task, ".counts"));
      for (int count = 0; counts >> count; before = count) {
        if (count <= before) ++num_rollbacks;
        if (count <= before + 1) continue;
        if (count == before + 2 && num_gaps_allowed-- > 0) continue;
        Complain("result", absl::StrCat(task, " has counted ", count, " after ", before));
      }
      if (num_rollbacks > num_restored) {
        Complain("result", absl::StrCat(task, " went back ", num_rollbacks, " times, but ", num_restored,
                                        " checkpoints were restored"));
      }
    }
  }

  int NumLines(const std::string& text) const {
    int count = 0;
    for (const TaskProcess& process : job_.processes()) {
      for (const Line& line : process.lines) count += absl::StrContains(line.text, text) ? 1 : 0;
    }
    return count;
  }
  int NumProcesses(const std::string& task) const {
    int count = 0;
    for (const TaskProcess& process : job_.processes()) {
      // A launcher may have started it again as often as it was started itself, and three times more.
      count += process.task == task ? 1 : process.task == "launcher" ? 4 : 0;
    }
    return count;
  }

  void JudgeRestore() {
    for (const TaskProcess& process : job_.processes()) {
      for (const Line& line : process.lines) {
        const size_t place = line.text.find("weir: restored ");
        const size_t number = line.text.find("model.ckpt-", place);
        int step = -1;
        if (line.time < history_.fault || place == std::string::npos || number == std::string::npos ||
            std::sscanf(line.text.c_str() + number, "model.ckpt-%d", &step) != 1) {
          continue;
        }
        if (step < history_.checkpoint_at_fault) {
          Complain("durability", absl::StrCat("step ", step, " was restored, although step ",
                                              history_.checkpoint_at_fault, " had been saved"));
        }
      }
    }
  }

  // "weir: worker:0: ps:0 was lost: ..."
  void JudgeNames() {
    if (plan_.family == Family::kNetwork || plan_.family == Family::kMachine)
      return;  // each side says it of the other
    std::set<std::string> seen;
    for (const TaskProcess& process : job_.processes()) {
      // Who was asleep cannot know who else was.
      if (IsVictim(process)) continue;
      for (const Line& line : process.lines) {
        if (!absl::StrContains(line.text, " was lost: no sign of life")) continue;
        for (const std::string& task : cluster_.tasks()) {
          if (!absl::StrContains(line.text, absl::StrCat(" ", task, " was lost"))) continue;
          const bool is_hurt = task == plan_.victim || plan_.role == Role::kLauncher || task == plan_.frozen;
          if (!is_hurt && EndedInOrder(task, line.time) && !MayHaveSlept(line.time) &&
              seen.insert(task).second) {
            Complain("naming", absl::StrCat(process.task, " says: ", line.text));
          }
        }
      }
    }
    const bool must_fail = plan_.comeback == Comeback::kNever && plan_.role == Role::kPs && history_.was_hit;
    if (!must_fail) return;
    for (const TaskProcess& process : job_.processes()) {
      if (IsVictim(process) || process.is_running() || process.was_killed || process.exit_code() == 0 ||
          process.lines.empty()) {
        continue;
      }
      const std::string& last = process.lines.back().text;
      if (!absl::StrContains(last, plan_.victim)) {
        Complain("naming", absl::StrCat(process.task, " ended and did not name ", plan_.victim, ": ", last));
      }
    }
  }

  // Whether a task that is lost at that time may have had no processor for so long that its heartbeats are
  // missing, which are a fifth of a lease apart.
  bool MayHaveSlept(absl::Time lost) const {
    return std::any_of(history_.standstills.begin(), history_.standstills.end(), [&](const Standstill& one) {
      return one.end - one.begin > plan_.lease / 4 && one.begin < lost && one.end > lost - 2 * plan_.lease;
    });
  }

  // False when it had failed before, so that others lost it for a reason.
  bool EndedInOrder(const std::string& task, absl::Time before) const {
    return std::none_of(job_.processes().begin(), job_.processes().end(), [&](const TaskProcess& process) {
      return process.task == task && process.ended.has_value() && *process.ended < before &&
             process.exit_code() != 0;
    });
  }

  void JudgeLeftovers() {
    for (const pid_t pid : history_.pids) {
      if (IsRunning(pid)) Complain("leftover", absl::StrCat("process ", pid, " runs"));
    }
    for (const auto& entry : std::filesystem::directory_iterator(job_.checkpoint_dir())) {
      const std::string name = entry.path().filename();
      if (absl::StrContains(name, "tempstate") || absl::StrContains(name, ".tmp") || entry.is_directory()) {
        Complain("leftover", name);
      }
      const std::string checkpoint = name.substr(0, name.find('.', 6));
      // A process that is killed while a checkpoint becomes visible leaves what was visible of it.
      if (plan_.family != Family::kKill && absl::StartsWith(name, "model.ckpt-") &&
          !std::filesystem::exists(absl::StrCat(job_.checkpoint_dir(), "/", checkpoint, ".index"))) {
        Complain("leftover", absl::StrCat(name, " of a checkpoint without an index"));
      }
    }
  }

  const Plan& plan_;
  const History& history_;
  Cluster& cluster_;
  Job& job_;
  const std::string& expected_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> Judge(const Plan& plan, const History& history, Cluster& cluster,
                               const std::string& expected_finish) {
  return Judgement(plan, history, cluster, expected_finish).Judge();
}

}  // namespace weir
