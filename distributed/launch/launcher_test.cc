// The launcher with small shell programs as tasks.
#include "distributed/launch/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
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
                      "case $INDEX in 1) exit 3;; 2) sleep 0.3; exit 4;; *) sleep 0.6; echo finished;; esac"),
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
  const std::string dir = TestDir();
  LaunchOptions options =
      ShellJob(2, 1, dir, "if [ $TYPE$INDEX = ps0 ]; then exec sleep 60; fi; sleep 0.1; echo bye");
  options.ps_grace = absl::Milliseconds(500);
  const Result result = Launch(options, dir);
  EXPECT_EQ(result.code.value(), 0);
  EXPECT_THAT(result.output, HasSubstr("[ps:1] bye"));
  EXPECT_THAT(result.error, HasSubstr("ps:0 (pid "));
  EXPECT_THAT(result.error, HasSubstr("still runs 500ms after the last worker was done: stopping it"));
  EXPECT_THAT(result.error, Not(HasSubstr("died")));
}

TEST(Launcher, WhoIgnoresTheStopIsKilled) {
  const std::string dir = TestDir();
  LaunchOptions options =
      ShellJob(1, 1, dir, "if [ $TYPE = ps ]; then trap '' TERM; sleep 60; sleep 60; fi; sleep 0.3; exit 2");
  options.stop_grace = absl::Milliseconds(300);
  const Result result = Launch(options, dir);
  EXPECT_EQ(result.code.value(), 2);
  EXPECT_THAT(result.error, HasSubstr("after it was told to stop: killing it"));
}

TEST(Launcher, RestartsOnlyWhatIsWorthIt) {
  const std::string dir = TestDir();
  // The first life of each task dies, the second succeeds.
  const std::string twice =
      "if [ -e $DIR/$TYPE$INDEX ]; then sleep 0.3; exit 0; fi; touch $DIR/$TYPE$INDEX; ";
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
