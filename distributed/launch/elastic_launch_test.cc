// Elastic jobs of small shell programs: workers come and go as a script finds hosts.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "distributed/launch/launcher.h"
#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A worker notes its process id in DIR/INDEX and runs until there is DIR/end, or DIR/fail.INDEX with its exit
// code; told to stop, it notes that in DIR/told, waits while there is DIR/linger, and ends with 143.
constexpr char kScript[] = R"(
  if [ $TYPE = ps ]; then while [ ! -e $DIR/end ]; do sleep 0.05; done; exit 0; fi
  trap 'touch $DIR/told; while [ -e $DIR/linger ]; do sleep 0.05; done; rm $DIR/$INDEX; exit 143' TERM
  echo "$TF_CONFIG" > $DIR/config$INDEX
  echo $WEIR_MAX_WORKERS > $DIR/max$INDEX
  echo $$ > $DIR/pid$INDEX; mv $DIR/pid$INDEX $DIR/$INDEX
  while [ ! -e $DIR/end ]; do
    if [ -e $DIR/fail.$INDEX ]; then code=$(cat $DIR/fail.$INDEX); rm $DIR/fail.$INDEX $DIR/$INDEX; exit $code; fi
    sleep 0.05
  done)";

class ElasticLaunchTest : public ::testing::Test {
 protected:
  ElasticLaunchTest() : dir_(MakeTestDir("elastic_launch_")) {
    options_.num_ps = 1;
    const std::string prelude = absl::StrCat(
        "TYPE=$(echo \"$TF_CONFIG\" | sed 's/.*\"type\":\"\\([a-z]*\\)\".*/\\1/'); "
        "INDEX=$(echo \"$TF_CONFIG\" | sed 's/.*\"index\":\\([0-9]*\\).*/\\1/'); DIR='",
        dir_, "'; ");
    options_.command = {"sh", "-c", prelude + kScript};
    options_.is_elastic = true;
    options_.pool = {.min_workers = 1, .max_workers = 4, .cooldown = absl::Milliseconds(100)};
    options_.host_discovery_script = absl::StrCat("cat '", dir_, "/hosts'");
  }
  void SetHosts(const std::string& text) {
    std::ofstream(dir_ + "/hosts.new") << text << "\n";
    EXPECT_EQ(rename((dir_ + "/hosts.new").c_str(), (dir_ + "/hosts").c_str()), 0);
  }
  void Fail(int index, int code) {
    std::ofstream(absl::StrCat(dir_, "/fail.new")) << code << "\n";
    const std::string path = absl::StrCat(dir_, "/fail.", index);
    EXPECT_EQ(rename((dir_ + "/fail.new").c_str(), path.c_str()), 0);
  }
  void Launch() {
    launcher_ = TestProcess::Fork([this] {
      const int err = open((dir_ + "/err").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600);
      options_.output_fd = err;
      options_.error_fd = err;
      const absl::StatusOr<int> code = Launcher(options_).Run();
      if (!code.ok()) dprintf(err, "%s\n", std::string(code.status().message()).c_str());
      return code.ok() ? *code : 99;
    });
  }
  int AwaitEnd() { return launcher_.AwaitExit(); }
  void EndJob() { std::ofstream(dir_ + "/end") << "now\n"; }
  // Its process id; 0 when it does not run.
  int Pid(int index) { return std::atoi(ReadFile(absl::StrCat(dir_, "/", index)).c_str()); }
  // Exactly these workers run.
  bool AwaitWorkers(const std::vector<int>& indices) {
    return Await([&] {
      for (int i = 0; i < 8; ++i) {
        const bool is_wanted = std::find(indices.begin(), indices.end(), i) != indices.end();
        if (is_wanted != (Pid(i) != 0)) return false;
      }
      return true;
    });
  }
  bool AwaitError(const std::string& text) { return AwaitText(dir_ + "/err", text); }
  std::string Error() { return ReadFile(dir_ + "/err"); }

  const std::string dir_;
  LaunchOptions options_;
  TestProcess launcher_;
};

TEST_F(ElasticLaunchTest, WorkersFollowWhatTheScriptFinds) {
  SetHosts("localhost:1");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0})) << Error();
  const int chief = Pid(0);
  SetHosts("localhost:9");
  ASSERT_TRUE(AwaitWorkers({0, 1, 2, 3})) << "at most four; " << Error();
  const int first = Pid(1);
  // One that joins knows the tasks that the job began with, and itself.
  const std::string config = ReadFile(dir_ + "/config3");
  EXPECT_THAT(config, HasSubstr("\"ps\":[\"127.0.0.1:"));
  EXPECT_THAT(config, HasSubstr("\"worker\":{\"0\":\"127.0.0.1:"));
  EXPECT_THAT(config, HasSubstr("\"3\":\"127.0.0.1:"));
  EXPECT_THAT(config, Not(HasSubstr("\"2\":\"127.0.0.1:")));
  EXPECT_EQ(ReadFile(dir_ + "/max0"), "4\n");
  SetHosts("localhost:2");
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  EXPECT_THAT(Error(), HasSubstr("is told to leave: there is no slot for it any more"));
  SetHosts("localhost slots=3");
  ASSERT_TRUE(AwaitWorkers({0, 1, 2})) << Error();
  EXPECT_EQ(Pid(0), chief);
  EXPECT_EQ(Pid(1), first);
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
}

TEST_F(ElasticLaunchTest, AScriptThatFailsChangesNothing) {
  SetHosts("localhost:2");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  unlink((dir_ + "/hosts").c_str());
  ASSERT_TRUE(AwaitError("No such file")) << Error();
  SetHosts("localhost:two");
  ASSERT_TRUE(AwaitError("--host_discovery_script")) << Error();
  SetHosts("far.away:3");
  ASSERT_TRUE(AwaitError("far.away is not this machine")) << Error();
  SetHosts("localhost:3");
  ASSERT_TRUE(AwaitWorkers({0, 1, 2})) << Error();
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
}

TEST_F(ElasticLaunchTest, AWorkerThatDiesIsFollowedByAnotherOne) {
  options_.host_discovery_script.clear();
  options_.num_workers = 2;
  Launch();
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  for (int i = 0; i < 2; ++i) {
    const int before = Pid(1);
    Fail(1, 160);
    ASSERT_TRUE(Await([&] { return Pid(1) != 0 && Pid(1) != before; })) << Error();
  }
  EXPECT_THAT(Error(), HasSubstr("died: exited with code 160 (2 of 100 resets)"));
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << "it is no failure of the job; " << Error();
}

TEST_F(ElasticLaunchTest, TooManyFailuresStopTheJob) {
  options_.host_discovery_script.clear();
  options_.num_workers = 2;
  options_.pool.reset_limit = 1;
  Launch();
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  const int before = Pid(1);
  Fail(1, 160);
  ASSERT_TRUE(Await([&] { return Pid(1) != 0 && Pid(1) != before; })) << Error();
  Fail(1, 161);
  EXPECT_EQ(AwaitEnd(), 161) << Error();
  EXPECT_THAT(Error(), HasSubstr("workers have failed 2 times (--reset_limit=1); stopping the job"));
}

TEST_F(ElasticLaunchTest, TooFewWorkersStopTheJob) {
  options_.host_discovery_script.clear();
  options_.num_workers = 3;
  options_.pool.min_workers = 2;
  Launch();
  ASSERT_TRUE(AwaitWorkers({0, 1, 2})) << Error();
  Fail(1, 3);
  ASSERT_TRUE(AwaitError("died: exited with code 3")) << Error();
  Fail(2, 4);
  EXPECT_EQ(AwaitEnd(), 3) << "the first failure; " << Error();
  EXPECT_THAT(Error(),
              HasSubstr("1 workers run, and --min_workers=2 are needed; the others have failed for good"));
}

TEST_F(ElasticLaunchTest, TheJobBeginsWhenThereAreEnoughSlots) {
  options_.pool.min_workers = 2;
  SetHosts("localhost:1");
  Launch();
  ASSERT_TRUE(AwaitError("has found 1 slots")) << Error();
  EXPECT_EQ(Pid(0), 0);
  SetHosts("localhost:2");
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  launcher_.Signal(SIGTERM);
  EndJob();
  EXPECT_EQ(AwaitEnd(), 128 + SIGTERM) << Error();
}

TEST_F(ElasticLaunchTest, ItIsStoppedWhileItWaitsForSlots) {
  SetHosts("# none yet");
  options_.pool.patience = absl::ZeroDuration();
  Launch();
  EXPECT_EQ(AwaitEnd(), 99) << Error();
  EXPECT_THAT(Error(),
              HasSubstr("--host_discovery_script has found 0 slots, and --min_workers=1 are needed"));
  options_.pool.patience = absl::Hours(1);
  options_.host_discovery_script = absl::StrCat("touch '", dir_, "/asked'");
  Launch();
  ASSERT_TRUE(AwaitFile(dir_ + "/asked"));
  launcher_.Signal(SIGINT);
  EXPECT_EQ(AwaitEnd(), 128 + SIGINT);
}

TEST_F(ElasticLaunchTest, AScriptThatHasNotAnsweredYetIsWaitedFor) {
  options_.pool.patience = absl::ZeroDuration();
  SetHosts("localhost:1");
  options_.host_discovery_script = absl::StrCat("sleep 0.3; ", options_.host_discovery_script);
  Launch();
  EXPECT_TRUE(AwaitWorkers({0})) << Error();
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
}

// Its errors, a host file and the names in it are anybody's text.
TEST_F(ElasticLaunchTest, WhatAScriptSaysMovesNoCursor) {
  SetHosts("localhost:1");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0})) << Error();
  SetHosts("local\033[2Jhost:one");
  ASSERT_TRUE(AwaitError("[weir] --host_discovery_script")) << Error();
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
  EXPECT_THAT(Error(), Not(HasSubstr("\033")));
}

int64_t ProcessorMillisOf(int pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string word;
  int64_t user = 0, system = 0;
  for (int i = 0; i < 13; ++i) stat >> word;
  stat >> user >> system;
  return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

// Half of all stops come while the script runs; nobody reads it then.
TEST_F(ElasticLaunchTest, ItIsIdleWhileItStops) {
  SetHosts("localhost:1");
  options_.host_discovery_script =
      absl::StrCat("DIR='", dir_,
                   "'; cat $DIR/hosts; [ -e $DIR/slow ] || exit 0; touch $DIR/runs; "
                   "while [ ! -e $DIR/told ]; do sleep 0.05; done; echo more; sleep 60");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0})) << Error();
  std::ofstream(dir_ + "/linger") << "1\n";
  std::ofstream(dir_ + "/slow") << "1\n";
  ASSERT_TRUE(AwaitFile(dir_ + "/runs")) << Error();
  launcher_.Signal(SIGTERM);
  ASSERT_TRUE(AwaitFile(dir_ + "/told")) << Error();
  const int64_t before = ProcessorMillisOf(launcher_.pid());
  // One that spins needs as much soon, unless the machine has better things to do.
  EXPECT_FALSE(Await([&] { return ProcessorMillisOf(launcher_.pid()) > before + 50; }, absl::Seconds(3)));
  unlink((dir_ + "/linger").c_str());
  EndJob();
  EXPECT_EQ(AwaitEnd(), 128 + SIGTERM) << Error();
}

// In the place of ssh: it gets a host and a command. To the host "deaf" it connects, and hears nothing more,
// until there is DIR/hears.
class RemoteElasticLaunchTest : public ElasticLaunchTest {
 protected:
  RemoteElasticLaunchTest() {
    const std::string ssh = dir_ + "/ssh";
    std::ofstream(ssh) << "#!/bin/sh\n[ $1 = deaf ] && [ ! -e '" << dir_
                       << "/hears' ] && exec sleep 1000\nexec sh -c \"$2\"\n";
    EXPECT_EQ(chmod(ssh.c_str(), 0700), 0);
    options_.ssh = ssh;
    options_.hosts = {{"a", 1}};
    options_.stop_grace = absl::Seconds(20);
  }
};

// What ran there may still run, and have its port.
TEST_F(RemoteElasticLaunchTest, AWorkerWhoseConnectionIsLostIsFollowedByOneAtAnotherPort) {
  options_.stop_grace = absl::Milliseconds(500);
  SetHosts("a:1");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0})) << Error();
  SetHosts("a:1\nb:1");
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  EXPECT_THAT(ReadFile(dir_ + "/config1"), HasSubstr(absl::StrCat("\"b:", kDefaultPortBase)));
  int before = Pid(1);
  Fail(1, 255);
  ASSERT_TRUE(Await([&] { return Pid(1) != 0 && Pid(1) != before; })) << Error();
  EXPECT_THAT(ReadFile(dir_ + "/config1"), HasSubstr(absl::StrCat("\"b:", kDefaultPortBase + 1)));
  EXPECT_THAT(Error(),
              HasSubstr("(ssh's own: the host cannot be reached, or the connection was lost) (1 of "));
  // As one does that cannot listen.
  before = Pid(1);
  Fail(1, 1);
  ASSERT_TRUE(Await([&] { return Pid(1) != 0 && Pid(1) != before; })) << Error();
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
}

TEST_F(RemoteElasticLaunchTest, AWorkerThatCannotBeToldToLeaveLosesItsPlace) {
  options_.stop_grace = absl::Milliseconds(300);
  SetHosts("a:1");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0})) << Error();
  SetHosts("a:1\ndeaf:1");
  ASSERT_TRUE(AwaitError("worker:1 (on deaf) is started")) << Error();
  SetHosts("a:1");
  ASSERT_TRUE(AwaitError("still runs 300ms after it was told to leave: killing it")) << Error();
  EXPECT_TRUE(AwaitError("worker:1 (on deaf) has left")) << Error();
  SetHosts("a:2");
  EXPECT_TRUE(AwaitWorkers({0, 1})) << Error();
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
}

// Nobody knows whether it was told: it may still have its port.
TEST_F(RemoteElasticLaunchTest, AWorkerWhoseHungConnectionIsKilledIsFollowedByOneAtAnotherPort) {
  options_.stop_grace = absl::Milliseconds(300);
  SetHosts("a:1");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0})) << Error();
  SetHosts("a:1\ndeaf:1");
  ASSERT_TRUE(AwaitError("worker:1 (on deaf) is started")) << Error();
  SetHosts("a:1");
  ASSERT_TRUE(AwaitError("worker:1 (on deaf) has left")) << Error();
  std::ofstream(dir_ + "/hears") << "1\n";
  SetHosts("a:1\ndeaf:1");
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  EXPECT_THAT(ReadFile(dir_ + "/config1"), HasSubstr(absl::StrCat("\"deaf:", kDefaultPortBase + 1)));
  // As one does that cannot listen.
  const int before = Pid(1);
  Fail(1, 1);
  EXPECT_TRUE(Await([&] { return Pid(1) != 0 && Pid(1) != before; })) << Error();
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
}

TEST_F(RemoteElasticLaunchTest, WorkersJoinOnOtherHosts) {
  SetHosts("a:1");
  Launch();
  ASSERT_TRUE(AwaitWorkers({0})) << Error();
  SetHosts("localhost:3");
  ASSERT_TRUE(AwaitError("localhost could not be reached from the hosts of -H")) << Error();
  SetHosts("a:1\nb:2");
  ASSERT_TRUE(AwaitWorkers({0, 1, 2})) << Error();
  const std::string config = ReadFile(dir_ + "/config2");
  EXPECT_THAT(config, HasSubstr(absl::StrCat("\"ps\":[\"a:", kDefaultPortBase)));
  EXPECT_THAT(config, HasSubstr(absl::StrCat("\"0\":\"a:", kDefaultPortBase + 1)));
  EXPECT_THAT(config, HasSubstr(absl::StrCat("\"2\":\"b:", kDefaultPortBase + 1)));
  EXPECT_EQ(ReadFile(dir_ + "/max2"), "4\n");
  SetHosts("a:1\nb:1");
  ASSERT_TRUE(AwaitWorkers({0, 1})) << Error();
  EXPECT_THAT(Error(), HasSubstr("worker:2 (on b) is told to leave"));
  EndJob();
  EXPECT_EQ(AwaitEnd(), 0) << Error();
}

TEST_F(ElasticLaunchTest, MistakesAreNamed) {
  const auto error = [this] { return std::string(Launcher(options_).Run().status().message()); };
  options_.pool.min_workers = 5;
  EXPECT_THAT(error(), HasSubstr("--min_workers=5 --max_workers=4: the first must be at least 1"));
  options_.pool.min_workers = 1;
  options_.num_ps = 0;
  EXPECT_THAT(error(), HasSubstr("--ps must be at least 1"));
  options_.num_ps = 1;
  options_.host_discovery_script.clear();
  options_.num_workers = 6;
  EXPECT_THAT(error(), HasSubstr("--workers=6 is not between --min_workers=1 and --max_workers=4"));
}

}  // namespace
}  // namespace weir
