// For tests of real processes: a folder, what is in its files, processes, and waits for what they do.
//
// Thread safety: one test. Deadlines are for a machine that is busy with something else.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/launch/child_process.h"
#include "gtest/gtest.h"

namespace weir {

// An empty folder of the test that runs. `before` is the beginning of its name.
inline std::string MakeTestDir(absl::string_view before) {
  const std::string dir = absl::StrCat(::testing::TempDir(), before,
                                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir;
}

// Empty when there is no such file.
inline std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// -1 where there is no number.
inline int ReadNumber(const std::string& path) {
  int number = -1;
  return absl::SimpleAtoi(ReadFile(path), &number) ? number : -1;
}

inline bool Await(absl::FunctionRef<bool()> condition, absl::Duration timeout = absl::Seconds(60)) {
  for (const absl::Time end = absl::Now() + timeout; absl::Now() < end;) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return condition();
}

inline bool AwaitFile(const std::string& path) {
  return Await([&] { return access(path.c_str(), F_OK) == 0; });
}

inline bool AwaitText(const std::string& path, absl::string_view text) {
  return Await([&] { return absl::StrContains(ReadFile(path), text); });
}

// Of a process that need not be a child of this one. False when there is none; 0 and less is none, while the
// system takes it for many.
inline bool SendSignal(int pid, int signal) { return pid > 0 && kill(pid, signal) == 0; }
inline bool IsAlive(int pid) { return SendSignal(pid, 0); }
// False when it still runs.
inline bool AwaitDeath(int pid) {
  return pid > 0 && Await([&] { return !IsAlive(pid); });
}

// A child of this process. Its end kills and reaps it.
class TestProcess {
 public:
  // None.
  TestProcess() = default;
  // Its exit code is what `run` returns.
  static TestProcess Fork(absl::FunctionRef<int()> run) {
    const pid_t pid = fork();
    if (pid == 0) _exit(run());
    return TestProcess(pid);
  }
  // What it prints is appended to the file. 126: there is no such program.
  static TestProcess Start(std::vector<std::string> args, const std::string& output,
                           const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    return Fork([&] {
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      std::vector<char*> argv;
      for (std::string& arg : args) argv.push_back(arg.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      return 126;
    });
  }
  TestProcess(TestProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  TestProcess& operator=(TestProcess&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~TestProcess() {
    if (!is_running()) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  // Whether it was started, and AwaitExit has not seen its end.
  bool is_running() const { return pid_ > 0; }
  bool HasEnded() const {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == pid_;
  }
  void Signal(int signal) const { EXPECT_EQ(kill(pid_, signal), 0); }
  // Its exit code, or 128 + signal; -1 when it has not ended in time.
  int AwaitExit(absl::Duration timeout = absl::Seconds(100)) {
    if (!is_running()) return -1;
    int status = 0;
    if (!Await([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, timeout)) return -1;
    pid_ = -1;
    return ExitCodeOf(status);
  }

 private:
  explicit TestProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
};

}  // namespace weir
