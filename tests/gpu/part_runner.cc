#include "tests/gpu/part_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace weir::gpu_check {
namespace {

// A part whose tests end their processes again and again is of no use.
constexpr int kMostProcesses = 40;
constexpr absl::Duration kLook = absl::Milliseconds(200);
constexpr absl::Duration kMostWaitForKilled = absl::Seconds(20);

const char* WordOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "failed";
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("its process was killed by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("its process ended with exit code ", WEXITSTATUS(status));
}

// What the processes of a part have said so far.
class Account {
 public:
  // A whole line of the pipe.
  void Take(absl::string_view line) {
    const std::vector<std::string> words = absl::StrSplit(line, '\t');
    if (words.size() != 3) return;
    std::string text;
    absl::CUnescape(words[2], &text);
    const std::string& test = words[1];
    if (words[0] == "plan") {
      if (known_.insert(test).second) planned_.push_back(test);
    } else if (words[0] == "start") {
      running_ = test;
      since_ = absl::Now();
    } else if (words[0] == "leave_out") {
      done_.insert(test);
      running_.clear();
    } else if (words[0] == "give_up") {
      has_given_up_ = true;
    } else {
      const Outcome outcome = words[0] == "passed"    ? Outcome::kPassed
                              : words[0] == "skipped" ? Outcome::kSkipped
                                                      : Outcome::kFailed;
      Add({test, outcome, text});
      running_.clear();
    }
  }

  void Add(TestResult result) {
    done_.insert(result.test);
    results_.push_back(std::move(result));
  }
  void Skip(const std::string& why) {
    Add({running_, Outcome::kSkipped, why});
    running_.clear();
  }
  // The test that was running has failed.
  void Fail(const std::string& why) {
    Add({running_, Outcome::kFailed, why});
    running_.clear();
  }

  void BeginProcess() {
    running_.clear();
    has_given_up_ = false;
    done_before_ = done_.size();
  }
  bool has_run_something() const { return done_.size() > done_before_; }
  bool has_given_up() const { return has_given_up_; }
  const std::string& running() const { return running_; }
  absl::Time since() const { return since_; }
  bool has_planned() const { return !planned_.empty(); }
  std::vector<std::string> Left() const {
    std::vector<std::string> left;
    for (const std::string& test : planned_) {
      if (done_.count(test) == 0) left.push_back(test);
    }
    return left;
  }
  std::vector<std::string> done() const { return {done_.begin(), done_.end()}; }
  std::vector<TestResult>& results() { return results_; }

 private:
  std::vector<std::string> planned_;
  std::set<std::string> known_, done_;
  std::vector<TestResult> results_;
  std::string running_;
  absl::Time since_;
  bool has_given_up_ = false;
  size_t done_before_ = 0;
};

[[noreturn]] void BeTheProcess(const Part& part, int descriptor, const std::string& log_file,
                               const std::vector<std::string>& done) {
  setpgid(0, 0);
  const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (log < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(125);
  Progress progress(descriptor);
  const int code = part.run(progress, done);
  std::fflush(nullptr);
  _exit(code);  // what is left of a GPU's threads shall not keep it
}

// Whether it ends soon. One that waits within a driver may never do.
bool AwaitKilled(pid_t process, int* status) {
  for (const absl::Time end = absl::Now() + kMostWaitForKilled; absl::Now() < end;) {
    if (waitpid(process, status, WNOHANG) == process) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

// Reads what the process says until it ends or its time is over. Returns its wait status, in `hung` why it
// was killed, and whether it is there all the same.
int Listen(pid_t process, int descriptor, const Part& part, absl::Time deadline, Account& account,
           std::string& hung, bool& is_stuck) {
  std::string pending;
  int status = 0;
  bool has_ended = false;
  const auto read_all = [&] {
    char bytes[4096];
    for (ssize_t count = 0; (count = read(descriptor, bytes, sizeof(bytes))) > 0;) {
      pending.append(bytes, static_cast<size_t>(count));
    }
    size_t end = 0;
    while ((end = pending.find('\n')) != std::string::npos) {
      account.Take(pending.substr(0, end));
      pending.erase(0, end + 1);
    }
  };
  while (!has_ended) {
    pollfd wanted = {descriptor, POLLIN, 0};
    poll(&wanted, 1, static_cast<int>(absl::ToInt64Milliseconds(kLook)));
    if ((wanted.revents & POLLHUP) != 0) absl::SleepFor(absl::Milliseconds(5));  // closed: it is ending
    has_ended = waitpid(process, &status, WNOHANG) == process;
    read_all();
    if (has_ended) break;
    const absl::Time now = absl::Now();
    const bool is_late = !account.running().empty() && now > account.since() + part.limit_of_test;
    if (now <= deadline && !is_late) continue;
    hung = is_late && now <= deadline
               ? absl::StrCat("it took longer than ", absl::FormatDuration(part.limit_of_test))
               : "the time of its part was over";
    kill(-process, SIGKILL);
    kill(process, SIGKILL);  // before it is a group of its own
    is_stuck = !AwaitKilled(process, &status);
    if (is_stuck) absl::StrAppend(&hung, ", and it cannot be killed");
    read_all();
    break;
  }
  kill(-process, SIGKILL);  // what it may have left
  return status;
}

// Lines that begin as those of tests/benchmarks do.
std::vector<std::string> MetricsOf(const std::string& log_file) {
  std::vector<std::string> metrics;
  std::ifstream log(log_file);
  for (std::string line; std::getline(log, line);) {
    if (absl::StartsWith(line, "{\"peer\": ")) metrics.push_back(line);
  }
  return metrics;
}

}  // namespace

void Progress::End(absl::string_view test, Outcome outcome, absl::string_view text) {
  Say(WordOf(outcome), test, text);
}

void Progress::Say(absl::string_view word, absl::string_view test, absl::string_view text) {
  const std::string line = absl::StrCat(word, "\t", test, "\t", absl::CEscape(text), "\n");
  for (size_t at = 0; at < line.size();) {
    const ssize_t count = write(descriptor_, line.data() + at, line.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    at += static_cast<size_t>(count);
  }
}

int PartResult::Count(Outcome outcome) const {
  return static_cast<int>(std::count_if(
      tests.begin(), tests.end(), [outcome](const TestResult& result) { return result.outcome == outcome; }));
}

PartResult RunPart(const Part& part, absl::Time deadline, const std::string& log_file) {
  PartResult result{.part = part.name};
  Account account;
  const absl::Time begin = absl::Now();
  const absl::Time until = std::min(deadline, begin + part.limit);
  std::string why_no_more;
  while (true) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      account.Add({"(start)", Outcome::kFailed, absl::StrCat("no pipe: ", std::strerror(errno))});
      break;
    }
    std::fflush(nullptr);
    account.BeginProcess();
    ++result.num_processes;
    const pid_t process = fork();
    if (process == 0) {
      close(ends[0]);
      BeTheProcess(part, ends[1], log_file, account.done());
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::string hung;
    bool is_stuck = false;
    const int status = process < 0 ? 0 : Listen(process, ends[0], part, until, account, hung, is_stuck);
    close(ends[0]);
    if (process < 0) {
      account.Add({"(start)", Outcome::kFailed, absl::StrCat("no process: ", std::strerror(errno))});
      break;
    }
    const bool is_over = absl::Now() > until;
    const bool is_given_up = is_over && until == deadline && !hung.empty() && !is_stuck;
    if (!account.running().empty() && is_given_up) {
      account.Skip("the minutes were over");
    } else if (!account.running().empty()) {
      account.Fail(hung.empty() ? HowItEnded(status) : hung);
    } else if (!hung.empty() || WIFSIGNALED(status) || (!account.has_planned() && status != 0)) {
      // Not while a test ran: before the first one, between two, or after the last.
      account.Add({absl::StrCat("(process ", result.num_processes, ")"), Outcome::kFailed,
                   hung.empty() ? HowItEnded(status) : hung});
    }
    if (account.Left().empty()) break;
    if (is_stuck) why_no_more = "a process of its part cannot be killed";
    if (is_over) why_no_more = "the time of its part was over";
    if (!account.has_run_something()) why_no_more = absl::StrCat("it was not run: ", HowItEnded(status));
    if (result.num_processes == kMostProcesses) why_no_more = "its part had ended too many processes";
    if (!why_no_more.empty()) break;
  }
  const bool is_by_time = why_no_more == "the time of its part was over";
  for (const std::string& test : account.Left()) {
    account.Add({test, is_by_time ? Outcome::kSkipped : Outcome::kFailed, why_no_more});
  }
  result.tests = std::move(account.results());
  result.metrics = MetricsOf(log_file);
  result.took = absl::Now() - begin;
  return result;
}

}  // namespace weir::gpu_check
