// Workers that join a running job and leave it: real processes, gRPC, a ps job whose cluster spec names one
// worker.
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/launch/free_ports.h"
#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kNumPs = 2;
constexpr int kMostWorkers = 6;
constexpr int kTold = 143;

class ElasticTest : public ::testing::Test {
 protected:
  ElasticTest() : dir_(MakeTestDir("elastic_")), ports_(ReservedPorts::Take(kNumPs + kMostWorkers).value()) {}

  // The cluster spec of all has the ps and worker 0; that of another worker has that worker, too.
  void Start(const std::string& job, int index) {
    const std::string guest = job == "ps" || index == 0
                                  ? ""
                                  : absl::StrCat(R"(, ")", index, R"(": ")", AddressOfWorker(index), "\"");
    const std::string config =
        absl::StrCat(R"({"cluster": {"ps": ["127.0.0.1:)", ports_[0], R"(", "127.0.0.1:)", ports_[1],
                     R"("], "worker": {"0": ")", AddressOfWorker(0), "\"", guest, R"(}}, "task": {"type": ")",
                     job, R"(", "index": )", index, "}}");
    running_[absl::StrCat(job, ":", index)] =
        TestProcess::Start(TrainerCommand(), dir_ + "/log",
                           {{"TF_CONFIG", config},
                            {"WEIR_JOB_TOKEN", "0123456789abcdef0123456789abcdef"},
                            {"WEIR_MAX_WORKERS", absl::StrCat(max_workers_)}});
  }
  std::vector<std::string> TrainerCommand() const {
    return {"tests/faults/" + trainer_, "--dir=" + dir_, absl::StrCat(workers_flag_, kMostWorkers),
            "--last_step=1000000",      "--step_ms=5",   "--lease_seconds=3"};
  }
  void StartJob() {
    for (int i = 0; i < kNumPs; ++i) Start("ps", i);
    Start("worker", 0);
  }
  std::string AddressOfWorker(int index) const {
    return absl::StrCat("127.0.0.1:", index == 5 ? 0 : ports_[kNumPs + index]);  // 5: any port that is free
  }

  // The same with `weir launch`, on as many slots as SetSlots has said last.
  void Launch() {
    std::vector<std::string> args = {"distributed/command/weir",
                                     "launch",
                                     "--ps=2",
                                     "--min_workers=1",
                                     "--max_workers=4",
                                     absl::StrCat("--host_discovery_script=cat '", dir_, "/hosts'"),
                                     "--cooldown=0.1",
                                     "--ps_grace=30",
                                     "--"};
    const std::vector<std::string> trainer = TrainerCommand();
    args.insert(args.end(), trainer.begin(), trainer.end());
    running_["launcher"] = TestProcess::Start(args, dir_ + "/log");
  }
  void SetSlots(int count) {
    std::ofstream(dir_ + "/hosts.new") << "localhost:" << count << "\n";
    EXPECT_EQ(rename((dir_ + "/hosts.new").c_str(), (dir_ + "/hosts").c_str()), 0);
  }
  // Of a launched task; -1: it has not been started.
  int Pid(const std::string& task) { return ReadNumber(absl::StrCat(dir_, "/", task, ".pid")); }

  // Its exit code, 128 + signal; -1 when it has not ended in time.
  int AwaitExit(const std::string& task) {
    const int code = running_.at(task).AwaitExit();
    if (code >= 0) running_.erase(task);
    return code;
  }
  int Step(const std::string& task) { return ReadNumber(absl::StrCat(dir_, "/", task, ".step")); }
  // All of them train from now on.
  bool AllTrain(const std::vector<std::string>& tasks) {
    std::map<std::string, int> before;
    for (const std::string& task : tasks) before[task] = Step(task);
    return Await([&] {
      for (const auto& [task, step] : before) {
        if (Step(task) <= step) return false;
      }
      return true;
    });
  }
  // Steps whose end the task has heard of. None of them may be missing, or counted twice.
  int64_t NumCounted(const std::string& task) {
    std::ifstream counts(absl::StrCat(dir_, "/", task, ".counts"));
    int64_t before = 0;
    for (int64_t count = 0; counts >> count; before = count) EXPECT_EQ(count, before + 1) << task;
    return before;
  }
  void EndJob() {
    std::ofstream(dir_ + "/stop") << "now\n";
    while (!running_.empty()) {
      const std::string task = running_.begin()->first;
      ASSERT_EQ(AwaitExit(task), 0) << task << "\n" << Log();
    }
  }
  // Every update that the ps have had counts once in each of the sums that they hold.
  int64_t SumOfUpdates() {
    long long last = -1, counter = -2, sum = -3;
    const std::string log = Log();
    const size_t at = log.find("finished at step ");
    EXPECT_NE(at, log.npos) << log;
    if (at == log.npos) return -1;
    EXPECT_EQ(
        std::sscanf(log.c_str() + at, "finished at step %lld, counter %lld, sum %lld", &last, &counter, &sum),
        3);
    EXPECT_EQ(counter, last);
    EXPECT_EQ(sum, last);
    return sum;
  }
  // They are what the tasks have heard of; `num_unheard` steps may have had no answer.
  void ExpectAllCounted(const std::vector<std::string>& tasks, int num_unheard) {
    const int64_t sum = SumOfUpdates();
    int64_t num_counted = 0;
    for (const std::string& task : tasks) num_counted += NumCounted(task);
    EXPECT_LE(num_counted, sum);
    EXPECT_GE(num_counted, sum - num_unheard);
  }
  std::string Log() { return ReadFile(dir_ + "/log"); }

  const std::string dir_;
  const ReservedPorts ports_;
  std::string trainer_ = "counting_trainer";
  std::string workers_flag_ = "--counted_workers=";
  int max_workers_ = 4;
  std::map<std::string, TestProcess> running_;
};

TEST_F(ElasticTest, AJobOfOneGrowsToFourShrinksToTwoAndGrowsToThree) {
  StartJob();
  ASSERT_TRUE(AllTrain({"worker:0"})) << Log();
  for (int i = 1; i <= 3; ++i) Start("worker", i);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:2", "worker:3"})) << Log();
  std::map<std::string, pid_t> before;
  for (const auto& [task, process] : running_) before[task] = process.pid();
  running_.at("worker:2").Signal(SIGTERM);
  running_.at("worker:3").Signal(SIGKILL);
  EXPECT_EQ(AwaitExit("worker:2"), kTold) << Log();
  EXPECT_EQ(AwaitExit("worker:3"), 128 + SIGKILL);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1"})) << Log();
  Start("worker", 4);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:4"})) << Log();
  for (const char* survivor : {"ps:0", "ps:1", "worker:0", "worker:1"}) {
    EXPECT_EQ(running_.at(survivor).pid(), before.at(survivor));
  }
  EndJob();
  ExpectAllCounted({"worker:0", "worker:1", "worker:2", "worker:3", "worker:4"}, 2);
  EXPECT_THAT(Log(), Not(HasSubstr("restored")));
}

TEST_F(ElasticTest, AWorkerComesBackUnderItsNameAtAnotherAddress) {
  StartJob();
  Start("worker", 5);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:5"})) << Log();
  for (int i = 0; i < 2; ++i) {
    running_.at("worker:5").Signal(SIGKILL);
    ASSERT_EQ(AwaitExit("worker:5"), 128 + SIGKILL);
    Start("worker", 5);
    ASSERT_TRUE(AllTrain({"worker:0", "worker:5"})) << Log();
  }
  EndJob();
  EXPECT_GT(SumOfUpdates(), 0);
  EXPECT_THAT(Log(), Not(HasSubstr("where the others look for it"))) << "they look where it is";
}

TEST_F(ElasticTest, OneTooManyWaitsForAPlace) {
  max_workers_ = 2;
  StartJob();
  Start("worker", 1);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1"})) << Log();
  Start("worker", 2);
  ASSERT_TRUE(AwaitText(dir_ + "/log",
                        "the job has 2 tasks that train, and may have 2 (WEIR_MAX_WORKERS): worker:2 waits"))
      << Log();
  EXPECT_EQ(Step("worker:2"), -1);
  running_.at("worker:1").Signal(SIGTERM);
  ASSERT_EQ(AwaitExit("worker:1"), kTold);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:2"})) << Log();
  EndJob();
  ExpectAllCounted({"worker:0", "worker:1", "worker:2"}, 1);
}

TEST_F(ElasticTest, NobodyJoinsAJobThatDoesNotLetThem) {
  max_workers_ = 0;
  StartJob();
  Start("worker", 1);
  EXPECT_EQ(AwaitExit("worker:1"), 1) << Log();
  EXPECT_THAT(Log(), HasSubstr("worker:1 is no task of the cluster of ps:0: the tasks were given different "
                               "cluster specs, and without WEIR_MAX_WORKERS none"));
  ASSERT_TRUE(AllTrain({"worker:0"})) << Log();
  EndJob();
}

TEST_F(ElasticTest, TheLauncherScalesARunningJob) {
  SetSlots(1);
  Launch();
  ASSERT_TRUE(AllTrain({"worker:0"})) << Log();
  SetSlots(4);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:2", "worker:3"})) << Log();
  std::map<std::string, int> before;
  for (const char* task : {"ps:0", "ps:1", "worker:0", "worker:1", "worker:2", "worker:3"}) {
    before[task] = Pid(task);
  }
  SetSlots(2);
  for (const char* task : {"worker:2", "worker:3"}) {
    ASSERT_TRUE(AwaitDeath(before.at(task))) << Log();
  }
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1"})) << Log();
  SetSlots(3);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:2"})) << Log();
  for (const char* survivor : {"ps:0", "ps:1", "worker:0", "worker:1"}) {
    EXPECT_EQ(Pid(survivor), before.at(survivor));
  }
  // One that dies is followed by another one.
  ASSERT_TRUE(SendSignal(Pid("worker:1"), SIGKILL));
  ASSERT_TRUE(Await([&] { return Pid("worker:1") != before.at("worker:1"); })) << Log();
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:2"})) << Log();
  EndJob();
  EXPECT_GT(SumOfUpdates(), 0);
  EXPECT_THAT(Log(), Not(HasSubstr("still runs")));
  EXPECT_THAT(Log(), Not(HasSubstr("restored")));
}

// A step takes the gradients of all that are there.
TEST_F(ElasticTest, SynchronousReplicasBecomeMoreAndFewer) {
  trainer_ = "sync_trainer";
  workers_flag_ = "--elastic_workers=";
  StartJob();
  ASSERT_TRUE(AllTrain({"worker:0"})) << Log();
  for (int i = 1; i <= 3; ++i) Start("worker", i);
  // The first gradient of a replica may come too late for the step that was running when it joined. Its
  // second is awaited.
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:2", "worker:3"})) << Log();
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:2", "worker:3"})) << Log();
  running_.at("worker:2").Signal(SIGTERM);
  running_.at("worker:3").Signal(SIGKILL);
  EXPECT_EQ(AwaitExit("worker:2"), kTold) << Log();
  EXPECT_EQ(AwaitExit("worker:3"), 128 + SIGKILL);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1"})) << Log();
  Start("worker", 4);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:4"})) << Log();
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1", "worker:4"})) << Log();
  EndJob();
  EXPECT_THAT(Log(), HasSubstr("gradients of workers 0 1 2 3 4 were applied"));
  EXPECT_THAT(Log(), Not(HasSubstr("restored")));
}

// The ps that lets tasks in is started again: it hears of the guest from the guest.
TEST_F(ElasticTest, AGuestStaysWhenThePsThatLetItInIsStartedAgain) {
  StartJob();
  Start("worker", 1);
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1"})) << Log();
  ASSERT_TRUE(Await([&] { return Step("worker:0") > 20; }));  // something was saved
  running_.at("ps:0").Signal(SIGKILL);
  ASSERT_EQ(AwaitExit("ps:0"), 128 + SIGKILL);
  Start("ps", 0);
  ASSERT_TRUE(AwaitText(dir_ + "/log", "restored")) << Log();
  ASSERT_TRUE(AllTrain({"worker:0", "worker:1"})) << Log();
  EndJob();
}

}  // namespace
}  // namespace weir
