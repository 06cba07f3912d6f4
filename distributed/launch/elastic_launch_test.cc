// Elastic jobs of small shell programs: workers come and go as a script finds hosts.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/launch/launcher.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

template <typename Condition>
bool Await(Condition condition) {
  for (const absl::Time end = absl::Now() + absl::Seconds(60); absl::Now() < end;) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return condition();
}

// A worker notes its process id in DIR/INDEX and runs until there is DIR/end, or DIR/fail.INDEX with its exit
// code; told to stop, it ends with 143.
constexpr char kScript[] = R"(
  if [ $TYPE = ps ]; then while [ ! -e $DIR/end ]; do sleep 0.05; done; exit 0; fi
  trap 'rm $DIR/$INDEX; exit 143' TERM
  echo "$TF_CONFIG" > $DIR/config$INDEX
  echo $WEIR_MAX_WORKERS > $DIR/max$INDEX
  echo $$ > $DIR/pid$INDEX; mv $DIR/pid$INDEX $DIR/$INDEX
  while [ ! -e $DIR/end ]; do
    if [ -e $DIR/fail.$INDEX ]; then code=$(cat $DIR/fail.$INDEX); rm $DIR/fail.$INDEX $DIR/$INDEX; exit $code; fi
    sleep 0.05
  done)";

class ElasticLaunchTest : public ::testing::Test {
 protected:
  ElasticLaunchTest()
      : dir_(absl::StrCat(::testing::TempDir(), "/elastic_launch_",
                          ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    const std::string command = absl::StrCat("rm -rf '", dir_, "' && mkdir -p '", dir_, "'");
    EXPECT_EQ(std::system(command.c_str()), 0);
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
  ~ElasticLaunchTest() override {
    if (launcher_ <= 0) return;
    kill(launcher_, SIGKILL);
    waitpid(launcher_, nullptr, 0);
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
    launcher_ = fork();
    if (launcher_ != 0) return;
    const int err = open((dir_ + "/err").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600);
    options_.output_fd = err;
    options_.error_fd = err;
    const absl::StatusOr<int> code = Launcher(options_).Run();
    if (!code.ok()) dprintf(err, "%s\n", std::string(code.status().message()).c_str());
    _exit(code.ok() ? *code : 99);
  }
  int AwaitEnd() {
    int status = 0;
    if (!Await([&] { return waitpid(launcher_, &status, WNOHANG) == launcher_; })) return -1;
    launcher_ = -1;
    return WEXITSTATUS(status);
  }
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
  bool AwaitError(const std::string& text) {
    return Await([&] { return Error().find(text) != std::string::npos; });
  }
  std::string Error() { return ReadFile(dir_ + "/err"); }

  const std::string dir_;
  LaunchOptions options_;
  pid_t launcher_ = -1;
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
  ASSERT_TRUE(AwaitWorkers({0, 2})) << Error();
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
  kill(launcher_, SIGTERM);
  EndJob();
  EXPECT_EQ(AwaitEnd(), 128 + SIGTERM) << Error();
}

TEST_F(ElasticLaunchTest, ItIsStoppedWhileItWaitsForSlots) {
  SetHosts("# none yet");
  options_.pool.patience = absl::Milliseconds(1500);
  Launch();
  EXPECT_EQ(AwaitEnd(), 99) << Error();
  EXPECT_THAT(Error(),
              HasSubstr("--host_discovery_script has found 0 slots, and --min_workers=1 are needed"));
  options_.pool.patience = absl::Hours(1);
  options_.host_discovery_script = absl::StrCat("touch '", dir_, "/asked'");
  Launch();
  ASSERT_TRUE(Await([&] { return access((dir_ + "/asked").c_str(), F_OK) == 0; }));
  kill(launcher_, SIGINT);
  EXPECT_EQ(AwaitEnd(), 128 + SIGINT);
}

TEST_F(ElasticLaunchTest, WorkersJoinOnOtherHosts) {
  // In the place of ssh: it gets a host and a command.
  const std::string ssh = dir_ + "/ssh";
  std::ofstream(ssh) << "#!/bin/sh\nexec sh -c \"$2\"\n";
  ASSERT_EQ(chmod(ssh.c_str(), 0700), 0);
  options_.ssh = ssh;
  options_.hosts = {{"a", 1}};
  options_.stop_grace = absl::Seconds(20);
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
