// The launcher with small shell programs as tasks.
#include "distributed/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/launch/task_output.h"
#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TestDir() { return MakeTestDir("launch_"); }

struct Result {
  absl::StatusOr<int> code;
  std::string output;
  std::string error;
};

// Every task runs `script` with $TYPE, $INDEX and $DIR set.
LaunchOptions ShellJob(int num_ps, int num_workers, const std::string& dir, const std::string& script) {
  LaunchOptions options;
  options.num_ps = num_ps;
  options.num_workers = num_workers;
  const std::string prelude = absl::StrCat(
      "TYPE=$(echo \"$TF_CONFIG\" | sed 's/.*\"type\":\"\\([a-z]*\\)\".*/\\1/'); "
      "INDEX=$(echo \"$TF_CONFIG\" | sed 's/.*\"index\":\\([0-9]*\\).*/\\1/'); DIR='",
      dir, "'; ");
  options.command = {"sh", "-c", prelude + script};
  options.ps_grace = absl::Seconds(5);
  options.stop_grace = absl::Seconds(5);
  return options;
}

Result Launch(LaunchOptions options, const std::string& dir) {
  const int out = open((dir + "/out").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const int err = open((dir + "/err").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  options.output_fd = out;
  options.error_fd = err;
  Result result{Launcher(options).Run()};
  close(out);
  close(err);
  result.output = ReadFile(dir + "/out");
  result.error = ReadFile(dir + "/err");
  return result;
}

TEST(FreePorts, AreDifferentAndBelowTheEphemeralRange) {
  const std::vector<int> ports = FindFreePorts(20).value();
  EXPECT_EQ(std::set<int>(ports.begin(), ports.end()).size(), 20u);
  for (int port : ports) EXPECT_GE(port, 15000);
  EXPECT_FALSE(FindFreePorts(100'000).ok());
}

// While nobody listens there: a task that is started again must find its port.
TEST(FreePorts, AreNobodyElsesWhileTheyAreReserved) {
  std::optional<ReservedPorts> reserved = ReservedPorts::Take(20).value();
  const std::set<int> mine(reserved->ports().begin(), reserved->ports().end());
  ASSERT_EQ(mine.size(), 20u);
  // All that are left, but for a few.
  absl::StatusOr<std::vector<int>> others = absl::UnknownError("not asked");
  for (int count = 17'700; !others.ok() && count > 0; count -= 50) others = FindFreePorts(count);
  ASSERT_TRUE(others.ok()) << others.status();
  for (const int port : *others) EXPECT_FALSE(mine.contains(port)) << port;
  const ReservedPorts moved = *std::move(reserved);
  reserved.reset();
  EXPECT_EQ(moved.ports().size(), 20u);
  EXPECT_TRUE(mine.contains(moved[19]));
}

TEST(Launcher, EveryTaskKnowsItsPlaceAndItsLinesAreNamed) {
  const std::string dir = TestDir();
  LaunchOptions options = ShellJob(
      1, 2, dir,
      "echo \"I am $TYPE $INDEX\"; echo oops >&2; echo \"$TF_CONFIG $WEIR_JOB_TOKEN\" > $DIR/$TYPE$INDEX");
  options.log_dir = dir + "/logs/deep";
  const Result result = Launch(options, dir);
  EXPECT_EQ(result.code.value(), 0);
  for (const char* line :
       {"[ps:0] I am ps 0\n", "[worker:0] I am worker 0\n", "[worker:1] I am worker 1\n"}) {
    EXPECT_THAT(result.output, HasSubstr(line));
  }
  EXPECT_THAT(result.error, HasSubstr("[worker:1] oops\n"));
  EXPECT_EQ(ReadFile(dir + "/logs/deep/worker-1.log"), "I am worker 1\noops\n");
  // Same cluster and token for everybody, and three different addresses.
  const std::string ps = ReadFile(dir + "/ps0");
  const std::string worker = ReadFile(dir + "/worker1");
  EXPECT_EQ(ps.substr(0, ps.find("task")), worker.substr(0, worker.find("task")));
  EXPECT_EQ(ps.substr(ps.rfind(' ')), worker.substr(worker.rfind(' ')));
  EXPECT_EQ(ps.substr(ps.rfind(' ') + 1).size(), 33u);
}

TEST(Launcher, EveryTaskGetsAPortForMetricsOfItsOwn) {
  const std::string dir = TestDir();
  setenv("WEIR_METRICS_PORT", "127.0.0.1:9100", 1);
  LaunchOptions options = ShellJob(1, 2, dir, "echo \"$WEIR_METRICS_PORT\" > $DIR/$TYPE$INDEX");
  EXPECT_EQ(Launch(options, dir).code.value(), 0);
  std::set<std::string> ports;
  for (const char* task : {"/ps0", "/worker0", "/worker1"}) ports.insert(ReadFile(dir + task));
  EXPECT_THAT(ports, testing::ElementsAre("127.0.0.1:9100\n", "127.0.0.1:9101\n", "127.0.0.1:9102\n"));
  setenv("WEIR_METRICS_PORT", "0", 1);
  EXPECT_EQ(Launch(options, dir).code.value(), 0);
  unsetenv("WEIR_METRICS_PORT");
  EXPECT_EQ(ReadFile(dir + "/worker1"), "0\n");
}

TEST(Launcher, TheEvaluatorIsOutsideOfTheClusterAndIsWaitedFor) {
  const std::string dir = TestDir();
  LaunchOptions options =
      ShellJob(1, 1, dir,
               "echo \"$TF_CONFIG\" > $DIR/$TYPE$INDEX; "
               "if [ $TYPE = evaluator ]; then "
               "until grep -q 'waiting for evaluator' $DIR/err; do sleep 0.01; done; exit 7; fi");
  options.evaluator = true;
  const Result result = Launch(options, dir);
  EXPECT_EQ(result.code.value(), 7) << "its failure is the job's";
  EXPECT_THAT(result.error, HasSubstr("[weir] all workers have ended; waiting for evaluator:0 (pid "));
  EXPECT_THAT(ReadFile(dir + "/evaluator0"), HasSubstr("\"ps\":"));
  EXPECT_THAT(ReadFile(dir + "/worker0"), Not(HasSubstr("evaluator")));
}

TEST(Launcher, UnfinishedAndEndlessLinesAppear) {
  const std::string dir = TestDir();
  const Result result =
      Launch(ShellJob(0, 1, dir, "printf 'no newline'; head -c 200000 /dev/zero | tr '\\0' x"), dir);
  EXPECT_THAT(result.output, HasSubstr("[worker:0] no newline"));
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), 'x'), 200000);
}

TEST(Launcher, FirstFailureIsNamedAndItsCodePassedOn) {
  const std::string dir = TestDir();
  const Result result =
      Launch(ShellJob(0, 3, dir,
                      "until_said() { until grep -q \"$1\" $DIR/err; do sleep 0.01; done; }; "
                      "case $INDEX in 1) exit 3;; 2) until_said 'code 3'; exit 4;; "
                      "*) until_said 'code 4'; echo finished;; esac"),
             dir);
  EXPECT_EQ(result.code.value(), 3);
  EXPECT_THAT(result.error, HasSubstr("worker:1 (pid "));
  EXPECT_THAT(result.error, HasSubstr(") died: exited with code 3\n"));
  EXPECT_THAT(result.output, HasSubstr("[worker:0] finished"));  // the others went on
}

TEST(Launcher, AKilledWorkerGives128PlusSignal) {
  const std::string dir = TestDir();
  const Result result = Launch(ShellJob(0, 2, dir, "if [ $INDEX = 1 ]; then kill -9 $$; fi"), dir);
  EXPECT_EQ(result.code.value(), 137);
  EXPECT_THAT(result.error,
              HasSubstr("died: killed by signal 9 (Killed); it is not started again (--restarts)"));
}

TEST(Launcher, ADeadChiefOrPsStopsTheOthers) {
  for (const char* who : {"worker0", "ps0"}) {
    const std::string dir = TestDir();
    const absl::Time start = absl::Now();
    const Result result = Launch(
        ShellJob(1, 2, dir, absl::StrCat("if [ $TYPE$INDEX = ", who, " ]; then exit 5; fi; sleep 60")), dir);
    EXPECT_EQ(result.code.value(), 5);
    EXPECT_THAT(result.error, HasSubstr("; stopping the others"));
    EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  }
}

TEST(Launcher, PsMayLeaveByItselfAndIsStoppedOtherwise) {
  std::string dir = TestDir();
  // The process id of the worker is its own until the launcher has seen its end.
  LaunchOptions options =
      ShellJob(1, 1, dir,
               "if [ $TYPE = worker ]; then echo $$ > $DIR/pid; mv $DIR/pid $DIR/worker; exit 0; fi; "
               "until [ -e $DIR/worker ]; do sleep 0.01; done; "
               "while kill -0 $(cat $DIR/worker) 2> /dev/null; do sleep 0.01; done; echo bye");
  options.ps_grace = absl::Minutes(1);
  const Result left = Launch(options, dir);
  EXPECT_EQ(left.code.value(), 0);
  EXPECT_THAT(left.output, HasSubstr("[ps:0] bye"));
  EXPECT_EQ(left.error, "");

  dir = TestDir();
  options = ShellJob(1, 1, dir, "if [ $TYPE = ps ]; then exec sleep 60; fi");
  options.ps_grace = absl::Milliseconds(500);
  const Result result = Launch(options, dir);
  EXPECT_EQ(result.code.value(), 0);
  EXPECT_THAT(result.error, HasSubstr("ps:0 (pid "));
  EXPECT_THAT(result.error, HasSubstr("still runs 500ms after the last worker was done: stopping it"));
  EXPECT_THAT(result.error, Not(HasSubstr("died")));
}

TEST(Launcher, WhoIgnoresTheStopIsKilled) {
  const std::string dir = TestDir();
  LaunchOptions options =
      ShellJob(1, 1, dir,
               "if [ $TYPE = ps ]; then trap '' TERM; touch $DIR/ps; sleep 60; sleep 60; fi; "
               "until [ -e $DIR/ps ]; do sleep 0.01; done; exit 2");
  options.stop_grace = absl::Milliseconds(300);
  const Result result = Launch(options, dir);
  EXPECT_EQ(result.code.value(), 2);
  EXPECT_THAT(result.error, HasSubstr("after it was told to stop: killing it"));
}

TEST(Launcher, RestartsOnlyWhatIsWorthIt) {
  const std::string dir = TestDir();
  // The first life of each task dies, the second succeeds, when the others have begun theirs, too.
  const std::string twice =
      "if [ -e $DIR/$TYPE$INDEX ]; then "
      "until [ $(grep -c 'starting it again' $DIR/err) = 3 ]; do sleep 0.01; done; exit 0; fi; "
      "touch $DIR/$TYPE$INDEX; ";
  LaunchOptions options = ShellJob(1, 2, dir, twice + "if [ $INDEX = 0 ]; then kill -9 $$; fi; exit 130");
  options.restarts = 1;
  const Result recovered = Launch(options, dir);
  EXPECT_EQ(recovered.code.value(), 0) << recovered.error;
  EXPECT_THAT(recovered.error, HasSubstr("starting it again (0 restarts left)"));

  const std::string dir2 = TestDir();
  options = ShellJob(0, 1, dir2, "echo life >> $DIR/lives; exit 1");
  options.restarts = 3;
  EXPECT_EQ(Launch(options, dir2).code.value(), 1);  // a user error: trying again would not help
  EXPECT_EQ(ReadFile(dir2 + "/lives"), "life\n");

  const std::string dir3 = TestDir();
  options = ShellJob(0, 1, dir3, "echo life >> $DIR/lives; exit 200");
  options.restarts = 2;
  EXPECT_EQ(Launch(options, dir3).code.value(), 200);
  EXPECT_EQ(ReadFile(dir3 + "/lives"), "life\nlife\nlife\n");
}

TEST(Launcher, GrandchildrenDoNotSurviveTheirTask) {
  const std::string dir = TestDir();
  const Result result = Launch(ShellJob(0, 1, dir, "sleep 60 & echo $! > $DIR/pid"), dir);
  EXPECT_EQ(result.code.value(), 0);
  EXPECT_TRUE(AwaitDeath(ReadNumber(dir + "/pid")));
}

// Runs the launcher in a process of its own, so that signals can be sent to it.
TestProcess ForkLauncher(const LaunchOptions& options, const std::string& dir) {
  return TestProcess::Fork([&] { return Launch(options, dir).code.value_or(99); });
}

// A worker that is told to stop takes a moment to save, and needs the ps for that.
constexpr char kStopsInOrder[] = R"(
  trap '
    if [ $TYPE = ps ]; then echo ps was told; exit 0; fi
    sleep 0.3
    echo worker is gone
    exit 0' TERM
  touch $DIR/$TYPE$INDEX
  while true; do sleep 0.05; done)";

TEST(Launcher, AStopReachesThePsWhenTheWorkersAreGone) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string dir = TestDir();
    TestProcess launcher = ForkLauncher(ShellJob(1, 2, dir, kStopsInOrder), dir);
    for (const char* task : {"/ps0", "/worker0", "/worker1"}) ASSERT_TRUE(AwaitFile(dir + task));
    launcher.Signal(signal);
    EXPECT_EQ(launcher.AwaitExit(), 128 + signal);
    const std::vector<std::string> lines = absl::StrSplit(ReadFile(dir + "/out"), '\n', absl::SkipEmpty());
    ASSERT_EQ(lines.size(), 3u) << ReadFile(dir + "/out");
    EXPECT_EQ(std::set<std::string>(lines.begin(), lines.begin() + 2),
              (std::set<std::string>{"[worker:0] worker is gone", "[worker:1] worker is gone"}));
    EXPECT_EQ(lines[2], "[ps:0] ps was told");
    EXPECT_THAT(ReadFile(dir + "/err"), HasSubstr("stopping the job: "));
  }
}

// The ps is told when the last worker is gone, and has its own time from then on.
TEST(Launcher, APsIsNotKilledForAWorkerThatIgnoresTheStop) {
  const std::string dir = TestDir();
  LaunchOptions options = ShellJob(1, 1, dir,
                                   "if [ $TYPE = worker ]; then trap '' TERM; else "
                                   "trap 'echo ps was told; exit 0' TERM; fi; "
                                   "touch $DIR/$TYPE$INDEX; while true; do sleep 0.05; done");
  options.stop_grace = absl::Seconds(1);
  TestProcess launcher = ForkLauncher(options, dir);
  for (const char* task : {"/ps0", "/worker0"}) ASSERT_TRUE(AwaitFile(dir + task));
  launcher.Signal(SIGTERM);
  EXPECT_EQ(launcher.AwaitExit(), 128 + SIGTERM);
  EXPECT_THAT(ReadFile(dir + "/out"), HasSubstr("[ps:0] ps was told"));
  const std::string error = ReadFile(dir + "/err");
  EXPECT_THAT(error, HasSubstr("still runs 1s after it was told to stop: killing it"));
  EXPECT_THAT(error, Not(HasSubstr("ps:0 (pid"))) << "it ended when it was told";
}

TEST(Launcher, ASecondCtrlCKillsWhoIsSlow) {
  const std::string dir = TestDir();
  LaunchOptions options = ShellJob(
      1, 1, dir, "trap 'touch $DIR/told' TERM; touch $DIR/$TYPE$INDEX; while true; do sleep 0.05; done");
  options.stop_grace = absl::Hours(1);
  TestProcess launcher = ForkLauncher(options, dir);
  for (const char* task : {"/ps0", "/worker0"}) ASSERT_TRUE(AwaitFile(dir + task));
  launcher.Signal(SIGINT);
  ASSERT_TRUE(AwaitFile(dir + "/told"));
  launcher.Signal(SIGINT);
  EXPECT_EQ(launcher.AwaitExit(), 128 + SIGINT);
}

// A pipe whose reader takes nothing.
class StuckReader {
 public:
  StuckReader() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~StuckReader() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int write_end() const { return ends_[1]; }
  bool AwaitFull() const {
    return Await([&] {
      pollfd room{ends_[1], POLLOUT, 0};
      return poll(&room, 1, 0) == 0;
    });
  }
  // Until `is_enough`.
  std::string Read(absl::FunctionRef<bool(const std::string&)> is_enough) const {
    std::string text;
    char bytes[4096];
    EXPECT_TRUE(Await([&] {
      pollfd there{ends_[0], POLLIN, 0};
      while (poll(&there, 1, 0) > 0) text.append(bytes, read(ends_[0], bytes, sizeof(bytes)));
      return is_enough(text);
    }));
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

// What it says goes to DIR/err, and what the tasks print to nobody.
TestProcess ForkLauncherTo(const StuckReader& reader, LaunchOptions options, const std::string& dir) {
  options.output_fd = reader.write_end();
  options.error_fd = open((dir + "/err").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  TestProcess launcher = TestProcess::Fork([&] { return Launcher(options).Run().value_or(99); });
  close(options.error_fd);
  return launcher;
}

constexpr char kChatty[] = "touch $DIR/$TYPE$INDEX; while true; do echo a line of many; done";

// More than a pipe takes: some of it is the launcher's when the signal comes.
TEST(Launcher, ASignalStopsAJobWhoseOutputNobodyReads) {
  constexpr char kPrints[] = "head -c 100000 /dev/zero; touch $DIR/printed; while true; do sleep 0.1; done";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string dir = TestDir();
    const StuckReader reader;
    TestProcess launcher = ForkLauncherTo(reader, ShellJob(0, 1, dir, kPrints), dir);
    ASSERT_TRUE(AwaitFile(dir + "/printed"));
    launcher.Signal(signal);
    EXPECT_EQ(launcher.AwaitExit(absl::Seconds(30)), 128 + signal);
    EXPECT_THAT(ReadFile(dir + "/err"), HasSubstr("stopping the job: "));
    EXPECT_THAT(ReadFile(dir + "/err"),
                HasSubstr("[weir] cannot write standard output: nobody has read it "));
  }
}

TEST(Launcher, DeathsAndGracePeriodsAreNoticedWhileNobodyReadsTheOutput) {
  const std::string dir = TestDir();
  const StuckReader reader;
  LaunchOptions options = ShellJob(
      0, 2, dir,
      absl::StrCat("trap '' TERM; if [ $INDEX = 1 ]; then until [ -e $DIR/die ]; do sleep 0.02; done; "
                   "exit 3; fi; ",
                   kChatty));
  options.stop_grace = absl::Seconds(1);
  TestProcess launcher = ForkLauncherTo(reader, options, dir);
  ASSERT_TRUE(reader.AwaitFull());
  std::ofstream(dir + "/die").close();
  EXPECT_TRUE(AwaitText(dir + "/err", ") died: exited with code 3\n"));
  launcher.Signal(SIGTERM);
  EXPECT_EQ(launcher.AwaitExit(absl::Seconds(30)), 128 + SIGTERM);
  EXPECT_THAT(ReadFile(dir + "/err"), HasSubstr(" still runs 1s after it was told to stop: killing it"));
}

// Who is told to stop may have something to print before it saves.
TEST(Launcher, AStoppedTaskCanPrintThoughNobodyReads) {
  const std::string dir = TestDir();
  const StuckReader reader;
  LaunchOptions options = ShellJob(
      0, 1, dir, absl::StrCat("trap 'head -c 500000 /dev/zero; touch $DIR/saved; exit 0' TERM; ", kChatty));
  TestProcess launcher = ForkLauncherTo(reader, options, dir);
  ASSERT_TRUE(reader.AwaitFull());
  launcher.Signal(SIGTERM);
  EXPECT_EQ(launcher.AwaitExit(absl::Seconds(30)), 128 + SIGTERM);
  EXPECT_TRUE(std::filesystem::exists(dir + "/saved"));
}

TEST(Launcher, WhatIsReadLateIsComplete) {
  const std::string dir = TestDir();
  const StuckReader reader;
  TestProcess launcher = ForkLauncherTo(reader, ShellJob(0, 1, dir, "seq 100000; echo the end"), dir);
  ASSERT_TRUE(reader.AwaitFull());
  absl::SleepFor(absl::Milliseconds(300));
  const std::string text =
      reader.Read([](const std::string& read) { return absl::StrContains(read, "the end\n"); });
  EXPECT_EQ(launcher.AwaitExit(), 0);
  std::string expected;
  for (int i = 1; i <= 100000; ++i) absl::StrAppend(&expected, "[worker:0] ", i, "\n");
  EXPECT_TRUE(text == expected + "[worker:0] the end\n") << text.size() << " bytes";
  EXPECT_EQ(ReadFile(dir + "/err"), "");
}

// The end of a job waits for a reader, but not without end.
TEST(Launcher, WhatNobodyReadsIsLostAtTheEnd) {
  const std::string dir = TestDir();
  const StuckReader reader;
  LaunchOptions options = ShellJob(0, 1, dir, "seq 12000");
  options.output_patience = absl::Milliseconds(200);
  TestProcess launcher = ForkLauncherTo(reader, options, dir);
  EXPECT_EQ(launcher.AwaitExit(absl::Seconds(30)), 0);
  EXPECT_THAT(ReadFile(dir + "/err"),
              HasSubstr("[weir] cannot write standard output: nobody has read it for 200ms; "));
}

TEST(Launcher, ASignalEndsTheWaitForAReader) {
  const std::string dir = TestDir();
  const StuckReader reader;
  TestProcess launcher = ForkLauncherTo(reader, ShellJob(0, 1, dir, "seq 12000; touch $DIR/done"), dir);
  ASSERT_TRUE(AwaitFile(dir + "/done"));
  absl::SleepFor(absl::Milliseconds(300));
  launcher.Signal(SIGTERM);
  EXPECT_EQ(launcher.AwaitExit(absl::Seconds(30)), 128 + SIGTERM);
}

// One that prints faster than its lines can be copied holds up nothing else.
TEST(Launcher, ASignalStopsAJobThatPrintsWithoutEnd) {
  const std::string dir = TestDir();
  LaunchOptions options = ShellJob(0, 2, dir, "touch $DIR/$TYPE$INDEX; exec yes");
  options.output_fd = open("/dev/null", O_WRONLY);
  options.error_fd = options.output_fd;
  TestProcess launcher = TestProcess::Fork([&] { return Launcher(options).Run().value_or(99); });
  for (const char* task : {"/worker0", "/worker1"}) ASSERT_TRUE(AwaitFile(dir + task));
  absl::SleepFor(absl::Milliseconds(300));
  launcher.Signal(SIGTERM);
  EXPECT_EQ(launcher.AwaitExit(absl::Seconds(30)), 128 + SIGTERM);
  close(options.output_fd);
}

// The launcher's own choice is no part of what its tasks inherit.
TEST(Launcher, ATaskHasTheUsualSignalForFilesThatMayNotGrow) {
  const std::string dir = TestDir();
  const auto before = signal(SIGXFSZ, SIG_IGN);
  const Result result = Launch(ShellJob(0, 1, dir, "grep SigIgn: /proc/self/status | tail -c 9"), dir);
  signal(SIGXFSZ, before);
  uint32_t ignored = 0;
  ASSERT_TRUE(absl::SimpleHexAtoi(result.output.substr(std::string("[worker:0] ").size()), &ignored))
      << result.output;
  EXPECT_EQ(ignored & (1u << (SIGXFSZ - 1)), 0u);
}

// The launcher where no file grows beyond so many bytes, as on a disk that is full. What it says goes to
// DIR/err.
int LaunchWithSmallFiles(LaunchOptions options, const std::string& dir, rlim_t most) {
  TestProcess launcher = TestProcess::Fork([&] {
    const rlimit limit = {most, most};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 98;
    options.error_fd = open((dir + "/err").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    const absl::StatusOr<int> code = Launcher(options).Run();
    WriteFully(options.error_fd, code.status().message(), "the error").IgnoreError();
    return code.value_or(99);
  });
  return launcher.AwaitExit();
}

TEST(Launcher, ALogThatCannotBeWrittenIsNamedOnce) {
  const std::string dir = TestDir();
  LaunchOptions options = ShellJob(
      0, 2, dir,
      "if [ $INDEX = 1 ]; then echo short; exit 0; fi; "
      "for i in 1 2 3 4 5 6; do head -c 1000 /dev/zero | tr '\\0' x; echo; echo other >&2; sleep 0.05; done");
  options.log_dir = dir + "/logs";
  options.output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(LaunchWithSmallFiles(options, dir, 4096), 0);
  close(options.output_fd);
  const std::string words =
      absl::StrCat("[weir] cannot write '", dir, "/logs/worker-0.log': File too large\n");
  const std::string error = ReadFile(dir + "/err");
  EXPECT_THAT(error, HasSubstr(words));
  EXPECT_EQ(error.find(words), error.rfind(words)) << error;
  EXPECT_EQ(ReadFile(dir + "/logs/worker-0.log").size(), 4096u);
  EXPECT_EQ(ReadFile(dir + "/logs/worker-1.log"), "short\n");
}

TEST(Launcher, AnOutputThatCannotBeWrittenIsNamedOnce) {
  const std::string dir = TestDir(), output = dir + "/out";
  std::ofstream(output) << std::string(5000, 'x');
  LaunchOptions options = ShellJob(0, 1, dir, "for i in 1 2 3; do echo one; sleep 0.05; done");
  options.output_fd = open(output.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  EXPECT_EQ(LaunchWithSmallFiles(options, dir, 4096), 0);
  EXPECT_EQ(ReadFile(dir + "/err"), "[weir] cannot write standard output: File too large\n");
  options.dry_run = true;
  EXPECT_EQ(LaunchWithSmallFiles(options, dir, 4096), 99);
  EXPECT_EQ(ReadFile(dir + "/err"), "cannot write the commands: File too large");
  close(options.output_fd);
}

TEST(Launcher, AKilledLauncherLeavesNobodyBehind) {
  const std::string dir = TestDir();
  TestProcess launcher = ForkLauncher(
      ShellJob(1, 1, dir, "echo $$ > $DIR/t$TYPE; mv $DIR/t$TYPE $DIR/$TYPE$INDEX; exec sleep 60"), dir);
  for (const char* task : {"/ps0", "/worker0"}) ASSERT_TRUE(AwaitFile(dir + task));
  launcher.Signal(SIGKILL);
  EXPECT_EQ(launcher.AwaitExit(), 128 + SIGKILL);
  for (const char* task : {"/ps0", "/worker0"}) EXPECT_TRUE(AwaitDeath(ReadNumber(dir + task)));
}

TEST(Launcher, MistakesAreNamed) {
  const std::string dir = TestDir();
  LaunchOptions options = ShellJob(1, 1, dir, "true");
  options.command = {"/no/such/program"};
  EXPECT_THAT(std::string(Launch(options, dir).code.status().message()),
              HasSubstr("cannot run '/no/such/program': No such file or directory"));
  options.command = {};
  EXPECT_THAT(std::string(Launch(options, dir).code.status().message()), HasSubstr("no program to launch"));
  options = ShellJob(1, 0, dir, "true");
  EXPECT_THAT(std::string(Launch(options, dir).code.status().message()),
              HasSubstr("--workers=0: a job needs at least one"));
  options = ShellJob(1, 1, dir, "true");
  options.log_dir = "/dev/null/logs";
  EXPECT_THAT(std::string(Launch(options, dir).code.status().message()),
              HasSubstr("--log_dir: cannot make '/dev/null"));
}

}  // namespace
}  // namespace weir
