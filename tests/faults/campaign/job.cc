#include "tests/faults/campaign/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

extern char** environ;

namespace weir {

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool IsRunning(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');  // "12 (name) S ..."
  return name_end != stat.npos && name_end + 2 < stat.size() && stat[name_end + 2] != 'Z';
}

int TaskProcess::exit_code() const {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

Job::Job(std::string directory) : directory_(std::move(directory)) {
  std::filesystem::create_directories(checkpoint_dir());
}

Job::~Job() {
  for (TaskProcess& process : processes_) {
    if (process.is_running()) kill(process.pid, SIGKILL);
  }
  for (TaskProcess& process : processes_) {
    if (process.is_running()) waitpid(process.pid, nullptr, 0);
  }
  for (const auto& [pid, log] : logs_) close(log.fd);
}

TaskProcess& Job::Start(const std::string& task, const std::vector<std::string>& command,
                        const std::vector<std::pair<std::string, std::string>>& environment) {
  // All is made before the fork: other threads may hold locks of the allocator.
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(absl::StrCat(name, "=", value));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const bool is_replaced = std::any_of(environment.begin(), environment.end(), [&](const auto& own) {
      return variable.compare(0, own.first.size() + 1, own.first + "=") == 0;
    });
    if (!is_replaced) variables.push_back(variable);
  }
  std::vector<char*> argv, envp;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : variables) envp.push_back(const_cast<char*>(variable.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const std::string log = absl::StrCat(directory_, "/", task, ".", processes_.size(), ".log");
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t parent = getpid();
  TaskProcess& process = processes_.emplace_back();
  process.task = task;
  process.started = absl::Now();
  process.pid = fork();
  if (process.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(126);
  }
  close(out);
  logs_[process.pid].fd = open(log.c_str(), O_RDONLY | O_CLOEXEC);
  return process;
}

void Job::Signal(TaskProcess& process, int signal) {
  if (!process.is_running()) return;
  if (signal == SIGKILL) process.was_killed = true;
  kill(process.pid, signal);
}

void Job::ReadLog(TaskProcess& process) {
  Log& log = logs_[process.pid];
  char bytes[4096];
  for (ssize_t count; (count = read(log.fd, bytes, sizeof(bytes))) > 0;) {
    log.unfinished.append(bytes, static_cast<size_t>(count));
  }
  size_t end;
  while ((end = log.unfinished.find('\n')) != std::string::npos) {
    process.lines.push_back({absl::Now(), log.unfinished.substr(0, end)});
    log.unfinished.erase(0, end + 1);
  }
}

void Job::ReadStep(const std::string& task) {
  int step = -1;
  if (!absl::SimpleAtoi(ReadFile(absl::StrCat(directory_, "/", task, ".step")), &step)) return;
  const auto [known, is_new] = steps_.try_emplace(task, -1);
  if (known->second == step) return;
  known->second = step;
  progress_.push_back({absl::Now(), task, step});
}

void Job::Poll() {
  for (TaskProcess& process : processes_) {
    if (!process.is_running()) continue;
    // Before what it has printed is read: so nothing of it is missed.
    const bool has_ended = waitpid(process.pid, &process.wait_status, WNOHANG) == process.pid;
    ReadLog(process);
    if (has_ended) process.ended = absl::Now();
  }
  for (const char* task : {"worker:0", "worker:1", "worker:2", "evaluator:0"}) ReadStep(task);
}

bool Job::Await(const std::function<bool()>& is_so, absl::Duration timeout) {
  for (const absl::Time end = absl::Now() + timeout;;) {
    Poll();
    if (is_so()) return true;
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

TaskProcess* Job::newest(const std::string& task) {
  for (auto process = processes_.rbegin(); process != processes_.rend(); ++process) {
    if (process->task == task) return &*process;
  }
  return nullptr;
}

pid_t Job::PidOf(const std::string& task) const {
  int pid = -1;
  return absl::SimpleAtoi(ReadFile(absl::StrCat(directory_, "/", task, ".pid")), &pid) ? pid : -1;
}

int Job::StepOf(const std::string& task) const {
  const auto known = steps_.find(task);
  return known == steps_.end() ? -1 : known->second;
}

int Job::LastStep() const {
  int last = -1;
  for (const auto& [task, step] : steps_) last = std::max(last, step);
  return last;
}

int Job::NewestCheckpoint() const {
  const std::string text = ReadFile(checkpoint_dir() + "/checkpoint");
  const size_t begin = text.find("model.ckpt-"), end = text.find('"', begin);
  int step = -1;
  return begin != text.npos && absl::SimpleAtoi(text.substr(begin + 11, end - begin - 11), &step) ? step : -1;
}

const Line* Job::FirstLine(const std::string& text, absl::Time since, const std::string& except) const {
  const Line* first = nullptr;
  for (const TaskProcess& process : processes_) {
    if (process.task == except) continue;
    for (const Line& line : process.lines) {
      if (line.time < since || line.text.find(text) == std::string::npos) continue;
      if (first == nullptr || line.time < first->time) first = &line;
      break;
    }
  }
  return first;
}

}  // namespace weir
