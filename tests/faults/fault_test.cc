// Kills and stops tasks of a real job (the command `weir launch`, real processes, gRPC) and looks at what
// becomes of it.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FaultTest : public ::testing::Test {
 protected:
  FaultTest() : dir_(MakeTestDir("fault_")) {}

  void Launch(std::vector<std::string> launch_flags, std::vector<std::string> trainer_flags) {
    std::vector<std::string> args = {"distributed/command/weir", "launch"};
    args.insert(args.end(), launch_flags.begin(), launch_flags.end());
    args.insert(args.end(), {"--", absl::StrCat("tests/faults/", trainer_), absl::StrCat("--dir=", dir_)});
    args.insert(args.end(), trainer_flags.begin(), trainer_flags.end());
    launcher_ = TestProcess::Start(std::move(args), dir_ + "/log");
  }

  // The job's exit code; -1 when it did not end in time.
  int AwaitEnd() { return launcher_.AwaitExit(); }

  int Pid(const std::string& task) { return ReadNumber(absl::StrCat(dir_, "/", task, ".pid")); }
  int Step(const std::string& task) { return ReadNumber(absl::StrCat(dir_, "/", task, ".step")); }
  // False when the job ends before.
  bool AwaitStep(const std::string& task, int step) {
    return Await([&] { return Step(task) >= step || launcher_.HasEnded(); }) && Step(task) >= step;
  }
  // Of a task that was not started again: how often the count of its steps was not one more than after its
  // step before, because the variables were restored. No step may be missing, or counted twice, but then.
  int NumRollbacks(const std::string& task) {
    std::ifstream counts(absl::StrCat(dir_, "/", task, ".counts"));
    int num_rollbacks = 0, before = 0;
    for (int count = 0; counts >> count; before = count) {
      EXPECT_LE(count, before + 1) << task << " has counted a step twice";
      num_rollbacks += count <= before ? 1 : 0;
    }
    EXPECT_GT(before, 0) << task << " has counted nothing";
    return num_rollbacks;
  }
  // The chief has ended at that step, or a little beyond it: no step was lost then, and none applied twice.
  void ExpectFinishedAt(int last_step) {
    const std::string log = Log();
    const size_t begin = log.rfind("[worker:0] finished at step ");
    ASSERT_NE(begin, log.npos) << log;
    int step = 0, counter = 0, sum = 0;
    ASSERT_EQ(std::sscanf(log.c_str() + begin, "[worker:0] finished at step %d, counter %d, sum %d", &step,
                          &counter, &sum),
              3)
        << log;
    EXPECT_GE(step, last_step);
    EXPECT_LE(step, last_step + 3) << "each worker may be in a step when the last one is done";
    EXPECT_EQ(counter, step) << log;
    EXPECT_EQ(sum, step) << log;
  }
  int NumTimes(const std::string& text) {
    const std::string log = Log();
    int count = 0;
    for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1)) ++count;
    return count;
  }
  std::string Log() { return ReadFile(dir_ + "/log"); }
  // The step that the file `checkpoint` names first; -1 when there is none.
  int NewestCheckpoint() {
    const std::string text = ReadFile(dir_ + "/model/checkpoint");
    const size_t begin = text.find("model.ckpt-"), end = text.find('"', begin);
    int step = -1;
    return begin != text.npos && absl::SimpleAtoi(text.substr(begin + 11, end - begin - 11), &step) ? step
                                                                                                    : -1;
  }

  const std::string dir_;
  std::string trainer_ = "counting_trainer";
  TestProcess launcher_;
};

TEST_F(FaultTest, ACleanJobLeavesNothingBehind) {
  Launch({"--ps=1", "--workers=2", "--ps_grace=30"}, {"--last_step=60", "--step_ms=5"});
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  ExpectFinishedAt(60);
  EXPECT_THAT(Log(), Not(HasSubstr("still runs")));  // the ps left by itself
  EXPECT_THAT(Log(), Not(HasSubstr("lost")));
  for (const char* task : {"ps:0", "worker:0", "worker:1"}) EXPECT_FALSE(IsAlive(Pid(task))) << task;
  for (const char* task : {"worker:0", "worker:1"}) EXPECT_EQ(NumRollbacks(task), 0) << task;
}

TEST_F(FaultTest, AKilledWorkerDoesNotStopTheOthers) {
  Launch({"--ps=1", "--workers=3", "--ps_grace=30"},
         {"--last_step=300", "--step_ms=20", "--lease_seconds=20"});
  ASSERT_TRUE(AwaitStep("worker:1", 20)) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:1"), SIGKILL));
  EXPECT_EQ(AwaitEnd(), 137) << Log();
  EXPECT_THAT(Log(), HasSubstr("worker:1 (pid "));
  EXPECT_THAT(Log(), HasSubstr("died: killed by signal 9"));
  ExpectFinishedAt(300);
  EXPECT_THAT(Log(), HasSubstr("ps:0: worker:1 was lost: its process is gone: "));
  EXPECT_THAT(Log(), Not(HasSubstr("still runs")));
}

TEST_F(FaultTest, AKilledChiefResumesAtTheSavedStep) {
  Launch({"--ps=1", "--workers=2", "--restart=1", "--ps_grace=30"}, {"--last_step=200", "--step_ms=20"});
  ASSERT_TRUE(AwaitStep("worker:0", 40)) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:0"), SIGKILL));
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  EXPECT_THAT(Log(), HasSubstr("worker:0 (pid "));
  EXPECT_THAT(Log(), HasSubstr("starting it again (0 restarts left)"));
  EXPECT_THAT(Log(), HasSubstr("[worker:0] weir: restored "));
  ExpectFinishedAt(200);
}

// All others end meanwhile. The ps has what was learned since the first checkpoint.
TEST_F(FaultTest, AChiefThatIsStoppedUntilTheOthersHaveEndedSavesTheLastStep) {
  Launch({"--ps=1", "--workers=2", "--ps_grace=60"},
         {"--last_step=300", "--step_ms=20", "--lease_seconds=1"});
  ASSERT_TRUE(AwaitStep("worker:0", 15) && AwaitStep("worker:1", 1)) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:0"), SIGSTOP));
  ASSERT_TRUE(AwaitStep("worker:1", 299)) << Log();
  EXPECT_TRUE(Await([&] {
    return Log().find("ps:0 waits for worker:0, the chief, lost") != std::string::npos;
  })) << Log();
  EXPECT_FALSE(IsAlive(Pid("worker:1")));
  EXPECT_LT(NewestCheckpoint(), 300);
  ASSERT_TRUE(SendSignal(Pid("worker:0"), SIGCONT));
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  EXPECT_GE(NewestCheckpoint(), 300) << Log();
}

// As one that was killed when it had saved its last step, while the others ended in good order.
TEST_F(FaultTest, AChiefThatIsStartedAgainAfterItsJobHasEndedEndsToo) {
  Launch({"--ps=1", "--workers=1", "--ps_grace=30"}, {"--last_step=20", "--step_ms=5"});
  ASSERT_EQ(AwaitEnd(), 0) << Log();
  const auto start = [&](int last_step) {
    std::filesystem::remove(dir_ + "/log");
    // Nobody listens at the port of the ps.
    launcher_ =
        TestProcess::Start({"tests/faults/counting_trainer", "--dir=" + dir_,
                            absl::StrCat("--last_step=", last_step), "--recovery_seconds=1000"},
                           dir_ + "/log",
                           {{"TF_CONFIG", R"({"cluster": {"ps": ["127.0.0.1:9"], "worker": ["127.0.0.1:0"]},)"
                                          R"( "task": {"type": "worker", "index": 0}})"}});
  };
  start(20);
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  EXPECT_THAT(Log(), HasSubstr("training is over: "));
  start(1000);  // and one with steps to do waits for its ps
  EXPECT_TRUE(AwaitText(dir_ + "/log", "still waiting")) << Log();
  EXPECT_FALSE(launcher_.HasEnded());
}

TEST_F(FaultTest, AKilledPsIsRestoredFromTheLastCheckpoint) {
  Launch({"--ps=1", "--workers=2", "--restart=1", "--ps_grace=30"}, {"--last_step=200", "--step_ms=20"});
  ASSERT_TRUE(AwaitStep("worker:0", 40)) << Log();
  ASSERT_TRUE(SendSignal(Pid("ps:0"), SIGKILL));
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  EXPECT_THAT(Log(), HasSubstr("ps:0 (pid "));
  EXPECT_THAT(Log(), HasSubstr("weir: restored "));
  ExpectFinishedAt(200);
}

// In the middle of steps, some of which are applied and not acknowledged: each is counted once all the same.
TEST_F(FaultTest, NoStepIsCountedTwiceHoweverOftenThePsIsStoppedOrKilled) {
  Launch({"--ps=1", "--workers=3", "--restart=3", "--ps_grace=30"},
         {"--last_step=5000", "--step_ms=1", "--lease_seconds=1"});
  const std::vector<std::string> workers = {"worker:0", "worker:1", "worker:2"};
  const auto await_steps_of_all = [&] {
    return std::all_of(workers.begin(), workers.end(), [&](const std::string& worker) {
      return AwaitStep(worker, std::max(Step(worker), 0) + 50);
    });
  };
  for (int i = 1; i <= 2; ++i) {
    ASSERT_TRUE(await_steps_of_all()) << Log();
    const int pid = Pid("ps:0");
    ASSERT_TRUE(SendSignal(pid, SIGSTOP));
    for (const std::string& worker : workers) {
      const std::string lost = absl::StrCat(worker, ": ps:0 was lost: no sign of life");
      ASSERT_TRUE(Await([&] { return NumTimes(lost) >= i; })) << Log();
    }
    ASSERT_TRUE(SendSignal(pid, SIGCONT));
  }
  ASSERT_TRUE(await_steps_of_all()) << Log();
  ASSERT_TRUE(SendSignal(Pid("ps:0"), SIGKILL));
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  ExpectFinishedAt(5000);
  for (const std::string& task : workers) {
    EXPECT_LE(NumRollbacks(task), NumTimes("weir: restored")) << task;
  }
}

TEST_F(FaultTest, APsThatNeverAnswersIsNamed) {
  Launch({"--ps=1", "--workers=1"}, {"--last_step=100000", "--step_ms=5", "--lease_seconds=1"});
  ASSERT_TRUE(AwaitStep("worker:0", 10)) << Log();
  ASSERT_TRUE(SendSignal(Pid("ps:0"), SIGSTOP));
  EXPECT_TRUE(AwaitText(dir_ + "/log", "ps:0 was lost: no sign of life for 1s")) << Log();
  // It was only asleep: it comes back with its variables, and training goes on.
  const int before = Step("worker:0");
  ASSERT_TRUE(SendSignal(Pid("ps:0"), SIGCONT));
  EXPECT_TRUE(AwaitStep("worker:0", before + 10)) << Log();
  launcher_.Signal(SIGINT);
  EXPECT_EQ(AwaitEnd(), 130) << Log();
}

// The chief saves every 10th step, and once more when it is stopped: the variables are on the ps, which must
// not go before it.
TEST_F(FaultTest, CtrlCSavesAndEndsEverybody) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launch({"--ps=1", "--workers=3", "--stop_grace=60"}, {"--last_step=1000000", "--step_ms=20"});
    ASSERT_TRUE(AwaitStep("worker:0", 15) && AwaitStep("worker:1", 1)) << Log();
    launcher_.Signal(signal);
    EXPECT_EQ(AwaitEnd(), 128 + signal) << Log();
    EXPECT_GT(NewestCheckpoint(), Step("worker:0")) << Log();
    EXPECT_THAT(Log(), Not(HasSubstr("UNAVAILABLE"))) << "nobody lost a ps";
    for (const char* task : {"ps:0", "worker:0", "worker:1"}) EXPECT_FALSE(IsAlive(Pid(task))) << task;
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", dir_, "'/*").c_str()), 0);
  }
}

// As Kubernetes and Slurm do it. The variables are on the ps, which must not go before the chief.
TEST_F(FaultTest, TasksThatAreStoppedAtTheSameTimeSaveTheLastStep) {
  Launch({"--ps=1", "--workers=2", "--stop_grace=60"}, {"--last_step=1000000", "--step_ms=20"});
  ASSERT_TRUE(AwaitStep("worker:0", 15) && AwaitStep("worker:1", 1)) << Log();
  for (const char* task : {"ps:0", "worker:0", "worker:1"})
    EXPECT_TRUE(SendSignal(Pid(task), SIGTERM)) << task;
  EXPECT_EQ(AwaitEnd(), 143) << Log();
  EXPECT_GT(NewestCheckpoint(), Step("worker:0")) << Log();
  EXPECT_THAT(Log(), Not(HasSubstr("UNAVAILABLE"))) << "nobody lost a ps";
}

TEST_F(FaultTest, APsThatIsStoppedServesForItsGracePeriod) {
  Launch({"--ps=1", "--workers=1", "--restart=1", "--ps_grace=30"},
         {"--last_step=200", "--step_ms=20", "--termination_grace_seconds=0.5"});
  ASSERT_TRUE(AwaitStep("worker:0", 40)) << Log();
  ASSERT_TRUE(SendSignal(Pid("ps:0"), SIGTERM));
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  EXPECT_THAT(Log(),
              HasSubstr("ps:0 was told to stop: it serves until worker:0 has ended, for 500ms at most"));
  EXPECT_THAT(Log(), HasSubstr("died: exited with code 143; starting it again"));
  ExpectFinishedAt(200);
}

TEST_F(FaultTest, ASecondSigtermEndsAPsAtOnce) {
  Launch({"--ps=1", "--workers=1"}, {"--last_step=1000000", "--step_ms=20"});
  ASSERT_TRUE(AwaitStep("worker:0", 10)) << Log();
  ASSERT_TRUE(SendSignal(Pid("ps:0"), SIGTERM));
  ASSERT_TRUE(AwaitText(dir_ + "/log", "ps:0 was told to stop")) << Log();
  const int before = Step("worker:0");
  ASSERT_TRUE(AwaitStep("worker:0", before + 3)) << Log();
  ASSERT_TRUE(SendSignal(Pid("ps:0"), SIGTERM));
  EXPECT_EQ(AwaitEnd(), 143) << Log();
  EXPECT_THAT(Log(), HasSubstr("died: killed by signal 15"));
}

// Synchronous replicas on two ps: whatever befalls a job that waits for all workers, it ends with the bits of
// one that nothing befell.
class SyncFaultTest : public FaultTest {
 protected:
  // Far beyond those at which something befalls a task.
  static constexpr int kLastStep = 150;

  SyncFaultTest() { trainer_ = "sync_trainer"; }

  void LaunchSync(std::vector<std::string> launch_flags, std::vector<std::string> trainer_flags) {
    launch_flags.insert(launch_flags.end(), {absl::StrCat("--ps=", num_ps_), "--workers=3", "--ps_grace=30"});
    trainer_flags.insert(trainer_flags.begin(),
                         {absl::StrCat("--last_step=", kLastStep), "--step_ms=20", "--lease_seconds=1.5"});
    Launch(launch_flags, trainer_flags);
  }
  // "finished at step 150, bits 0123456789abcdef"; of the last that said so, for one that SIGTERM stops does,
  // too.
  std::string Finish() {
    const std::string log = Log();
    const size_t begin = log.rfind("finished at step ");
    return begin == log.npos ? "did not finish" : log.substr(begin, log.find('\n', begin) - begin);
  }
  std::string FinishWithoutFaults() {
    LaunchSync({}, {"--on_loss=wait"});
    EXPECT_EQ(AwaitEnd(), 0) << Log();
    const std::string finish = Finish();
    EXPECT_THAT(finish, HasSubstr(absl::StrCat("finished at step ", kLastStep, ", bits "))) << Log();
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", dir_, "'/*").c_str()), 0);
    return finish;
  }

  int num_ps_ = 2;
};

TEST_F(SyncFaultTest, AKilledTaskThatComesAgainChangesNoBit) {
  const std::string expected = FinishWithoutFaults();
  const std::vector<std::pair<const char*, int>> cases = {{"worker:1", SIGKILL}, {"worker:0", SIGKILL},
                                                          {"ps:0", SIGKILL},     {"ps:1", SIGKILL},
                                                          {"worker:1", SIGTERM}, {"worker:0", SIGTERM}};
  for (const auto& [victim, signal] : cases) {
    LaunchSync({"--restart=1"}, {"--on_loss=wait"});
    ASSERT_TRUE(AwaitStep("worker:0", 25)) << Log();
    ASSERT_TRUE(SendSignal(Pid(victim), signal));
    EXPECT_EQ(AwaitEnd(), 0) << victim << ": " << Log();
    EXPECT_THAT(Log(), HasSubstr(absl::StrCat(victim, " (pid "))) << "it was not killed";
    EXPECT_EQ(Finish(), expected) << victim << ": " << Log();
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", dir_, "'/*").c_str()), 0);
  }
}

// With random numbers that are a function of the step and the worker. (Those of ops with a state begin again
// with the process, here as in TensorFlow.)
TEST_F(SyncFaultTest, AKilledWorkerThatComesAgainDrawsTheSameRandomNumbers) {
  const std::vector<std::string> flags = {"--on_loss=wait", "--dropout=stateless"};
  LaunchSync({}, flags);
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  const std::string expected = Finish();
  EXPECT_THAT(expected, HasSubstr(absl::StrCat("finished at step ", kLastStep, ", bits "))) << Log();
  EXPECT_EQ(std::system(absl::StrCat("rm -rf '", dir_, "'/*").c_str()), 0);
  EXPECT_NE(FinishWithoutFaults(), expected) << "nothing was dropped";
  for (const char* victim : {"worker:1", "worker:0"}) {
    LaunchSync({"--restart=1"}, flags);
    ASSERT_TRUE(AwaitStep("worker:0", 25)) << Log();
    ASSERT_TRUE(SendSignal(Pid(victim), SIGKILL));
    EXPECT_EQ(AwaitEnd(), 0) << victim << ": " << Log();
    EXPECT_THAT(Log(), HasSubstr(absl::StrCat(victim, " (pid "))) << "it was not killed";
    EXPECT_EQ(Finish(), expected) << victim << ": " << Log();
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", dir_, "'/*").c_str()), 0);
  }
}

// Horovod's way: every worker has the model. Gradients are added up in the same order as on a ps.
TEST_F(SyncFaultTest, AKilledReplicaThatComesAgainChangesNoBit) {
  const std::string expected = FinishWithoutFaults();
  num_ps_ = 0;
  EXPECT_EQ(FinishWithoutFaults(), expected);
  const std::vector<std::pair<const char*, int>> cases = {
      {"worker:1", SIGKILL}, {"worker:0", SIGKILL}, {"worker:1", SIGTERM}, {"worker:0", SIGTERM}};
  for (const auto& [victim, signal] : cases) {
    LaunchSync({"--restart=1"}, {});
    ASSERT_TRUE(AwaitStep("worker:0", 25)) << Log();
    ASSERT_TRUE(SendSignal(Pid(victim), signal));
    EXPECT_EQ(AwaitEnd(), 0) << victim << ": " << Log();
    EXPECT_THAT(Log(), HasSubstr(absl::StrCat(victim, " (pid "))) << "it was not killed";
    // One that SIGTERM stops may have saved the step.
    if (signal == SIGKILL) {
      EXPECT_THAT(Log(), HasSubstr("takes over the variables of ")) << Log();
    }
    EXPECT_EQ(Finish(), expected) << victim << ": " << Log();
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", dir_, "'/*").c_str()), 0);
  }
}

// They are not in the same step then: one that has ended leaves the others alone in theirs.
// The same with two devices in each process.
TEST_F(SyncFaultTest, AKilledProcessOfSeveralDevicesThatComesAgainChangesNoBit) {
  num_ps_ = 0;
  LaunchSync({}, {"--devices=2"});
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  const std::string expected = Finish();
  EXPECT_THAT(expected, HasSubstr(absl::StrCat("finished at step ", kLastStep, ", bits "))) << Log();
  for (const char* victim : {"worker:1", "worker:0"}) {
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", dir_, "'/*").c_str()), 0);
    LaunchSync({"--restart=1"}, {"--devices=2"});
    ASSERT_TRUE(AwaitStep("worker:0", 25)) << Log();
    ASSERT_TRUE(SendSignal(Pid(victim), SIGKILL));
    EXPECT_EQ(AwaitEnd(), 0) << victim << ": " << Log();
    EXPECT_THAT(Log(), HasSubstr(absl::StrCat(victim, " (pid "))) << "it was not killed";
    EXPECT_THAT(Log(), HasSubstr("takes over the variables of ")) << Log();
    EXPECT_EQ(Finish(), expected) << victim << ": " << Log();
  }
}

TEST_F(SyncFaultTest, ReplicasThatAreToldToStopSaveTheLastStep) {
  num_ps_ = 0;
  LaunchSync({}, {});
  ASSERT_TRUE(AwaitStep("worker:0", 25)) << Log();
  launcher_.Signal(SIGTERM);
  EXPECT_EQ(AwaitEnd(), 143) << Log();
  EXPECT_GE(NewestCheckpoint(), Step("worker:0")) << Log();
}

// Their step waits for one that is silent, and ends without it.
TEST_F(SyncFaultTest, ReplicasThatAreToldToStopWhileOneIsSilentSaveTheLastStep) {
  LaunchSync({"--stop_grace=60"}, {"--on_loss=wait", "--lease_seconds=60"});
  ASSERT_TRUE(AwaitStep("worker:0", 13)) << Log();
  const int chief = Pid("worker:0");
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGSTOP));
  launcher_.Signal(SIGTERM);
  EXPECT_TRUE(AwaitDeath(chief)) << Log();
  const int last_step = Step("worker:0");
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGCONT));
  EXPECT_EQ(AwaitEnd(), 143) << Log();
  EXPECT_GT(NewestCheckpoint(), last_step) << Log();
  EXPECT_THAT(Log(), HasSubstr("stopped by SIGTERM before the step under way was done"));
  EXPECT_THAT(Log(), Not(HasSubstr("waits no more")));
}

// It is declared lost, and the others wait for it to come back.
TEST_F(SyncFaultTest, AReplicaThatIsStoppedForLongChangesNoBit) {
  num_ps_ = 0;
  const std::string expected = FinishWithoutFaults();
  LaunchSync({}, {});
  ASSERT_TRUE(AwaitStep("worker:0", 25)) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGSTOP));
  EXPECT_TRUE(AwaitText(dir_ + "/log", "worker:2 was lost")) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGCONT));
  EXPECT_EQ(AwaitEnd(), 0) << Log();
  EXPECT_EQ(Finish(), expected) << Log();
}

TEST_F(SyncFaultTest, TheOthersGoOnWithoutAKilledWorker) {
  LaunchSync({}, {"--on_loss=shrink"});
  ASSERT_TRUE(AwaitStep("worker:2", 10)) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGKILL));
  EXPECT_EQ(AwaitEnd(), 137) << Log();
  EXPECT_THAT(Finish(), HasSubstr(absl::StrCat("finished at step ", kLastStep))) << Log();
}

TEST_F(SyncFaultTest, AKilledWorkerIsNamedToThoseWhoMayNotGoOn) {
  LaunchSync({}, {"--on_loss=fail"});
  ASSERT_TRUE(AwaitStep("worker:2", 10)) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGKILL));
  EXPECT_EQ(AwaitEnd(), 137) << Log();
  EXPECT_THAT(Log(), HasSubstr("worker 2 was lost at step ")) << Log();
  EXPECT_THAT(Finish(), HasSubstr("did not finish"));
}

TEST_F(SyncFaultTest, AStoppedBackupWorkerIsNotWaitedFor) {
  LaunchSync({}, {"--on_loss=wait", "--backup_workers=1", "--lease_seconds=30"});
  ASSERT_TRUE(AwaitStep("worker:2", 10)) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGSTOP));
  EXPECT_TRUE(AwaitText(dir_ + "/log", absl::StrCat("finished at step ", kLastStep))) << Log();
  ASSERT_TRUE(SendSignal(Pid("worker:2"), SIGCONT));
  EXPECT_EQ(AwaitEnd(), 0) << Log();
}

// Runs the command `weir`; what it prints goes to dir/log.
class WeirCommandTest : public FaultTest {
 protected:
  void Start(std::vector<std::string> args) {
    args.insert(args.begin(), "distributed/command/weir");
    std::filesystem::remove(dir_ + "/log");
    unsetenv("TF_CONFIG");
    launcher_ = TestProcess::Start(std::move(args), dir_ + "/log");
  }
};

TEST_F(WeirCommandTest, ServesUntilItIsToldToStop) {
  Start({"serve", "--cluster_spec=ps|127.0.0.1:0", "--job_name=ps", "--task_index=0", "--num_fake_gpus=2"});
  const std::string serving = "serving /job:ps/replica:0/task:0 at grpc://127.0.0.1:";
  ASSERT_TRUE(Await([&] {
    const size_t place = Log().find(serving);
    return place != std::string::npos && Log().find('\n', place) != std::string::npos;
  })) << Log();
  EXPECT_THAT(Log(), HasSubstr("weir: ps:0 listens without a token"));
  EXPECT_THAT(Log(), Not(HasSubstr("127.0.0.1:0\n")));  // the port it was given
  launcher_.Signal(SIGTERM);
  EXPECT_EQ(AwaitEnd(), 143) << Log();
}

TEST_F(WeirCommandTest, MistakesAreNamedAndExitWith1) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"serv"}, "unknown command 'serv'; did you mean 'serve'?"},
      {{"serve"}, "--cluster_spec is missing"},
      {{"serve", "--cluster_spec=ps|h"}, "--job_name is missing"},
      {{"serve", "--cluster_spec=ps|h", "--job_name=ps"},
       "--cluster_spec: cluster spec: ps:0: address 'h' has no port"},
      {{"serve", "--cluster_spec=ps|127.0.0.1:0", "--job_name=ps", "--task_index=1"},
       "no task ps:1: it has ps:0"},
      {{"serve", "--cluster_spec=ps|0.0.0.0:0", "--job_name=ps"}, "refusing to listen at 0.0.0.0:0"},
      {{"serve", "--cluster_spec=ps|127.0.0.1:0", "--job_name=ps", "--token_file=/no/such"},
       "token file '/no/such'"},
      {{"serve", "--cluster_spec=ps|127.0.0.1:0", "--job_name=ps", "--num_cpus=0"}, "must be from 1 to 64"},
      {{"launch", "--workers=2"}, "no program to launch"},
      {{"launch", "--worker=2", "--", "true"}, "unknown flag --worker; did you mean --workers?"},
      {{"launch", "true"}, "'true' is no flag: the program comes after '--'"},
  };
  for (const auto& [args, error] : cases) {
    Start(args);
    EXPECT_EQ(AwaitEnd(), 1);
    EXPECT_THAT(Log(), HasSubstr(error));
  }
}

TEST_F(WeirCommandTest, HelpEverywhere) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--help"}, "usage: weir COMMAND"},
      {{"serve", "--help"}, "--cluster_spec=string"},
      {{"launch", "--help"}, "--workers=number"},
      {{"inspect", "--help"}, "checkpoint"},
      {{"version"}, "weir "},
  };
  for (const auto& [args, text] : cases) {
    Start(args);
    EXPECT_EQ(AwaitEnd(), 0) << Log();
    EXPECT_THAT(Log(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace weir
