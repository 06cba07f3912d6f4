// What a monitored session makes of peers, answers and variables that are lost.
#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/environment.h"
#include "kernels/formats/file_system.h"
#include "ops/standard_ops.h"
#include "ops/training/local_steps.h"
#include "ops/variable.h"
#include "session/forwarding_worker.h"
#include "session/local_worker.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/monitored_session.h"
#include "session/monitored/test_hook.h"
#include "session/monitored/test_program.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Fails one step as a lost peer does, and counts sessions.
class LosesAPeer final : public ForwardingWorker {
 public:
  LosesAPeer(LocalWorker& worker, Device& device) : ForwardingWorker(&worker), device_(device) {}
  StepOwners* owners() override { return nullptr; }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) override {
    longest_wait = std::max(longest_wait, deadline - absl::Now());
    if (num_silences-- > 0) {
      if (on_silence) on_silence();
      return absl::DeadlineExceededError("did not answer");
    }
    if (!refusal.ok()) return refusal;
    ++num_sessions;
    return worker_->ListDevices(deadline);
  }
  void RunPartition(const RunPartitionCall& call, Done done) override {
    if (std::exchange(lose_answer, false)) {
      return worker_->RunPartition(call, [done = std::move(done)](absl::Status) {
        done(absl::UnavailableError("the answer was lost"));
      });
    }
    if (lose_in > 0 && --lose_in == 0) lose_next = true;
    if (!std::exchange(lose_next, false)) return worker_->RunPartition(call, std::move(done));
    if (lose_variables) device_.resources().ResetContainers({});
    done(absl::UnavailableError("the connection was lost"));
  }

  bool lose_next = false;
  int lose_in = 0;           // n: the n-th step from now on; 0: none
  bool lose_answer = false;  // of the next step, which runs
  bool lose_variables = false;
  int num_sessions = 0;
  int num_silences = 0;  // how often it does not say which devices it has
  std::function<void()> on_silence;
  absl::Status refusal;  // of every session
  absl::Duration longest_wait = absl::ZeroDuration();

 private:
  Device& device_;
};

TEST(SessionRecoveryTest, ALostPeerCostsNothingAndLostVariablesComeFromTheCheckpoint) {
  const std::string directory = EmptyDirectory("recover");
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({.checkpoint_dir = directory, .save_checkpoint_steps = 3});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  worker.lose_next = true;
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_EQ(worker.num_sessions, 2);
  EXPECT_EQ((*session)->GlobalStep().value(), 5) << "the variables were still there";
  worker.lose_next = worker.lose_variables = true;
  const absl::Status recovered = (*session)->Run({}, {}, {program.train}).status();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_EQ(worker.num_sessions, 3);
  EXPECT_EQ((*session)->GlobalStep().value(), 4) << "restored at 3, and one more";
}

// A worker sees no more of it than a smaller step.
TEST(SessionRecoveryTest, ASetbackIsTold) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({.checkpoint_dir = EmptyDirectory("setback"),
                                .hooks = {StopAtStepHook({.last_step = 100})},
                                .save_checkpoint_steps = 3});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto train = [&](int count) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < count; ++i) EXPECT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(train(4), "");
  worker.lose_next = true;
  EXPECT_THAT(train(1), Not(HasSubstr("set back"))) << "the variables were still there";
  worker.lose_next = worker.lose_variables = true;
  // The last step that was seen may have been read before it counted itself.
  EXPECT_THAT(train(1), ContainsRegex("training was set back from step [45] to step 3: the variables were "
                                      "lost, and were set anew\n"));
  worker.lose_next = true;
  worker.lose_variables = false;
  EXPECT_THAT(train(1), Not(HasSubstr("set back"))) << "said once";
}

// A peer that is lost meanwhile does not say that the checkpoints are gone.
TEST(SessionRecoveryTest, APeerThatIsLostInARestoreDoesNotMakeTrainingBeginAnew) {
  for (const char* latest_filename : {"checkpoint", "mine"}) {
    const std::string directory = EmptyDirectory("lost_in_restore");
    for (const int64_t last_step : {3, 5}) {
      TestProgram program;
      LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
      program.target.workers = {&worker};
      worker.lose_in = last_step == 5 ? 2 : 0;  // the first one asks which variables have a value
      const auto scaffold = std::make_shared<Scaffold>();
      scaffold->saver_options.latest_filename = latest_filename;
      auto session = program.Start({.checkpoint_dir = directory,
                                    .allow_missing_checkpoints = true,
                                    .hooks = {StopAtStepHook({.last_step = last_step})},
                                    .scaffold = scaffold});
      ASSERT_TRUE(session.ok()) << session.status();
      EXPECT_EQ(worker.num_sessions, last_step == 5 ? 2 : 1);
      EXPECT_EQ((*session)->GlobalStep().value(), last_step == 5 ? 3 : 0) << latest_filename;
      ASSERT_TRUE(TrainUntilStop(program, **session).ok());
    }
  }
}

TEST(SessionRecoveryTest, AWorkerThatLosesTheVariablesOfADoneChiefHasNothingToDo) {
  TestProgram program;
  ASSERT_TRUE(program.Start({}).ok());
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  program.target.chief_is_done = [] { return true; };
  auto session = program.Start({.is_chief = false});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  worker.lose_next = worker.lose_variables = true;
  const absl::Status status = (*session)->Run({}, {}, {program.train}).status();
  EXPECT_EQ(ExitCodeFor(status), kExitDone) << status;
  EXPECT_TRUE((*session)->should_stop());
  EXPECT_TRUE((*session)->Close().ok());
}

TEST(SessionRecoveryTest, AStepWhoseAnswerIsLostIsAppliedOnce) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  const Output step = (*session)->scaffold().global_step;
  for (int64_t i = 1; i <= 3; ++i) {
    worker.lose_answer = true;
    const auto values = (*session)->Run({}, {step}, {program.train});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ((*session)->GlobalStep().value(), i);
  }
  EXPECT_EQ(worker.num_sessions, 4);
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_EQ((*session)->GlobalStep().value(), 4);
}

// Nor when it is no target, but what a fetch waits for.
TEST(SessionRecoveryTest, AStepThatOthersHaveDoneIsNotRunAgain) {
  struct OthersHaveDoneIt final : Hook {
    bool HasDoneLostCall(bool) const override { return true; }
  };
  TestProgram program;
  Output trained;
  {
    const GraphBuilder::Scope after = program.g.ControlScope({program.train});
    trained = Identity(program.g, program.loss);
  }
  // As a branch of tf.cond counts: the handle comes by a Switch.
  Output counted;
  {
    Node* const branches =
        program.g.AddNode("Switch", {GlobalStep(program.g).handle, Const(program.g, Tensor::Scalar(true))});
    const Output handle{branches, 1}, one = Const(program.g, Tensor::Scalar(int64_t{1}));
    Node* const count = program.g.AddNode("AssignAddVariableOp", {handle, one});
    const GraphBuilder::Scope after = program.g.ControlScope({count});
    counted = Identity(program.g, program.loss);
  }
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  for (const Output& fetch : {program.loss, trained, counted}) {
    // A session that has failed stays failed.
    auto session = program.Start({.hooks = {std::make_shared<OthersHaveDoneIt>()}});
    ASSERT_TRUE(session.ok()) << session.status();
    const bool is_target = fetch == program.loss;
    worker.lose_next = is_target;  // the others are refused before they are run
    const auto step = (*session)->Run(
        {}, {fetch}, is_target ? std::vector<TargetRef>{program.train} : std::vector<TargetRef>{});
    EXPECT_EQ(step.ok(), is_target) << step.status();
    EXPECT_THAT(Message(step.status()), HasSubstr(is_target ? "" : "must not run again"));
    EXPECT_EQ(program.Start({.is_chief = false}).value()->GlobalStep().value(), 0);
  }
}

// What a hook finds wrong with a step that is left out stays what it is.
TEST(SessionRecoveryTest, AHooksErrorInAStepThatIsLeftOutIsKept) {
  struct Diverges final : Hook {
    bool HasDoneLostCall(bool) const override { return true; }
    absl::Status AfterRun(RunContext&, const RunValues&) override { return DivergedError("a NaN"); }
  };
  TestProgram program;
  const auto session = program.Start({.hooks = {std::make_shared<Diverges>()}});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(ExitCodeFor((*session)->Run({}, {}, {program.train}).status()), kExitDiverged);
}

// The steps of one call keep their places in it.
TEST(SessionRecoveryTest, TheStepsOfAFunctionAreEachAppliedOnce) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  int num_attempts = 0;
  const absl::Status status =
      (*session)->RunStepFn([&](MonitoredSession::StepContext& context) -> absl::Status {
        ++num_attempts;
        WEIR_RETURN_IF_ERROR(context.RunWithHooks({}, {}, {program.train}).status());
        worker.lose_answer = num_attempts == 1;
        return context.RunWithHooks({}, {}, {program.train}).status();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(num_attempts, 2);
  EXPECT_EQ((*session)->GlobalStep().value(), 2);
}

// What waits for a peer looks for a stop in between: SIGTERM is followed by SIGKILL after 10 s (weir launch)
// or 30 s (Kubernetes).
TEST(SessionRecoveryTest, APeerThatDoesNotAnswerIsAskedAgain) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  worker.num_silences = 2;
  program.target.workers = {&worker};
  auto session = program.Start({.recovery_timeout = absl::Minutes(5)});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(worker.num_sessions, 1);
  EXPECT_LT(worker.longest_wait, absl::Seconds(10));
  EXPECT_GT(worker.longest_wait, absl::ZeroDuration());
}

// The system's, but for a clock that only passes when a test says so, or something waits for a time.
class PassingTime final : public Environment {
 public:
  PassingTime() : Environment(/*is_simulated=*/true) {}
  void Pass(absl::Duration time) { now_ += time; }
  absl::Time SteadyNow() const override { return now_; }
  uint64_t Random() override { return RealEnvironment().Random(); }
  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) override {
    if (deadline == absl::InfiniteFuture()) return RealEnvironment().Await(mutex, condition, deadline);
    now_ = std::max(now_, deadline);
    return condition.Eval();
  }
  absl::StatusOr<std::unique_ptr<Threads>> MakeThreads(int num_threads, int max_blocked_threads) override {
    return RealEnvironment().MakeThreads(num_threads, max_blocked_threads);
  }
  std::unique_ptr<Timers> MakeTimers() override { return RealEnvironment().MakeTimers(); }
  absl::StatusOr<std::unique_ptr<StartedThread>> StartThread(absl::AnyInvocable<void()> run) override {
    return RealEnvironment().StartThread(std::move(run));
  }

 private:
  absl::Time SimulatedNow() const override { return now_; }
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
};

TEST(SessionRecoveryTest, WhoWaitsForAPeerSaysSoEveryTenSeconds) {
  TestProgram program;
  PassingTime time;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  worker.num_silences = 100;
  worker.on_silence = [&] { time.Pass(absl::Seconds(8)); };
  program.target.workers = {&worker};
  program.target.environment = &time;
  testing::internal::CaptureStderr();
  auto session = program.Start({.recovery_timeout = absl::Seconds(40)});
  const std::vector<std::string> lines =
      absl::StrSplit(testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty());
  EXPECT_THAT(Message(session.status()), HasSubstr("gave up after 40s: did not answer"));
  EXPECT_THAT(lines, SizeIs(testing::Ge(4u))) << "in 40 seconds";
  for (const std::string& line : lines) EXPECT_THAT(line, HasSubstr("still waiting ("));
}

// That a lost peer ends the session does not mean that a late one does.
TEST(SessionRecoveryTest, ASessionThatDoesNotRecoverWaitsForLatePeersToo) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  worker.num_silences = 2;
  program.target.workers = {&worker};
  auto session = SingularMonitoredSession(program.g, {.target = program.target});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(worker.num_sessions, 1);
}

// Loses a peer in its AfterRun, once.
class LosesAPeerAfterTheStep final : public Hook {
 public:
  absl::Status AfterRun(RunContext&, const RunValues&) override {
    return std::exchange(lost_, true) ? absl::OkStatus() : absl::UnavailableError("lost under a hook");
  }

 private:
  bool lost_ = false;
};

TEST(SessionRecoveryTest, AStepIsNotRunAgainWhenAPeerIsLostUnderAHook) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({.hooks = {std::make_shared<LosesAPeerAfterTheStep>()}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_EQ(worker.num_sessions, 2);
  EXPECT_EQ((*session)->GlobalStep().value(), 1);
  worker.lose_next = true;
  EXPECT_EQ((*session)->GlobalStep().value(), 1);
  EXPECT_EQ(worker.num_sessions, 3);
}

// Trains on without what the stop hook saw: the step that it stopped at is no longer in the variables.
TEST(SessionRecoveryTest, AStopIsForgottenWhenTheStepThatItEndedWithIsLost) {
  const std::string directory = EmptyDirectory("lost_stop");
  TestProgram program;
  auto loses = std::make_shared<TestHook>();
  int num_steps = 0;
  loses->after_run = [&](RunContext&, const RunValues&) -> absl::Status {
    if (++num_steps != 3) return absl::OkStatus();
    program.runtime->devices()[0]->resources().ResetContainers({});
    return absl::UnavailableError("lost under a hook");
  };
  auto session =
      program.Start({.checkpoint_dir = directory, .hooks = {StopAtStepHook({.last_step = 3}), loses}});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status trained = TrainUntilStop(program, **session);
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(num_steps, 6);
  EXPECT_THAT(CheckpointsIn(directory).value()[0], HasSubstr("model.ckpt-3"));
}

// The last step was done, its answer was lost, and when it is asked for again the peer is lost once more:
// that training is at its end stops nobody from asking.
TEST(SessionRecoveryTest, ALastStepThatIsLostTwiceIsAskedForAgain) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto loses_again = std::make_shared<TestHook>();
  loses_again->after_create_session = [&](Session&, Coordinator&) {
    worker.lose_next = worker.num_sessions == 2;
    return absl::OkStatus();
  };
  auto session = program.Start({.hooks = {StopAtStepHook({.last_step = 2}), loses_again}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  worker.lose_answer = true;
  const absl::Status last = (*session)->Run({}, {}, {program.train}).status();
  EXPECT_TRUE(last.ok()) << last;
  EXPECT_EQ(worker.num_sessions, 3);
  EXPECT_TRUE((*session)->should_stop());
  EXPECT_EQ((*session)->GlobalStep().value(), 2);
  EXPECT_TRUE((*session)->Close().ok());
}

// The last step was done, its answer was lost, and when it has been asked for again the variables are lost
// with their task: training is not at its end any more.
TEST(SessionRecoveryTest, AnEndThatIsLostWithItsVariablesIsForgotten) {
  const std::string directory = EmptyDirectory("lost_end");
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto loses = std::make_shared<TestHook>();
  loses->after_run = [&](RunContext&, const RunValues&) -> absl::Status {
    if (worker.num_sessions != 2) return absl::OkStatus();
    program.runtime->devices()[0]->resources().ResetContainers({});
    return absl::UnavailableError("lost under a hook");
  };
  auto session = program.Start({.checkpoint_dir = directory,
                                .hooks = {StopAtStepHook({.last_step = 5}), loses},
                                .save_checkpoint_steps = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  worker.lose_answer = true;
  const absl::Status last = (*session)->Run({}, {}, {program.train}).status();
  EXPECT_TRUE(last.ok()) << last;
  EXPECT_EQ(worker.num_sessions, 3);
  EXPECT_FALSE((*session)->should_stop());
  const absl::Status trained = TrainUntilStop(program, **session);
  EXPECT_TRUE(trained.ok()) << trained;
  EXPECT_THAT(CheckpointsIn(directory).value()[0], HasSubstr("model.ckpt-5"));
}

// A program that asks for the step between its last step and Close. What was lost meanwhile is still to be
// done.
TEST(SessionRecoveryTest, StepsThatAreLostAfterTheStopAreMissingAtTheEnd) {
  struct Case {
    bool lose_variables;
    int64_t save_steps, found;
  };
  for (const auto& [lose_variables, save_steps, found] :
       {Case{false, 3, 5}, Case{true, 3, 3}, Case{true, 5, 5}}) {
    const std::string directory = EmptyDirectory("lost_after_stop");
    TestProgram program;
    LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
    program.target.workers = {&worker};
    auto session = program.Start({.checkpoint_dir = directory,
                                  .hooks = {StopAtStepHook({.last_step = 5})},
                                  .save_checkpoint_steps = save_steps});
    ASSERT_TRUE(session.ok()) << session.status();
    while (!(*session)->should_stop()) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    worker.lose_next = true;
    worker.lose_variables = lose_variables;
    EXPECT_EQ((*session)->GlobalStep().value(), found);
    // Once more, with nothing to lose: what was lost stays lost.
    worker.lose_next = true;
    worker.lose_variables = false;
    EXPECT_EQ((*session)->GlobalStep().value(), found);
    const absl::Status closed = (*session)->Close();
    EXPECT_EQ(ExitCodeFor(closed), found == 3 ? kExitRetryable : kExitDone) << closed;
    EXPECT_THAT(Message(closed), HasSubstr(found == 3 ? "variables were lost at the end" : ""));
    EXPECT_THAT(CheckpointsIn(directory).value()[0], HasSubstr(absl::StrCat("model.ckpt-", found)));
  }
}

// A function that trains on sees its end again.
TEST(SessionRecoveryTest, AFunctionThatIsRunAgainAfterTheStopMayReachTheEndAgain) {
  for (const int64_t saved : {4, 3}) {  // the stop is after step 5
    TestProgram program;
    LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
    program.target.workers = {&worker};
    auto session = program.Start({.checkpoint_dir = EmptyDirectory("stop_again"),
                                  .hooks = {StopAtStepHook({.last_step = 5})},
                                  .save_checkpoint_steps = static_cast<int>(saved)});
    ASSERT_TRUE(session.ok()) << session.status();
    int num_attempts = 0;
    while (!(*session)->should_stop()) {
      const absl::Status status =
          (*session)->RunStepFn([&](MonitoredSession::StepContext& context) -> absl::Status {
            WEIR_RETURN_IF_ERROR(context.RunWithHooks({}, {}, {program.train}).status());
            if (++num_attempts == 5) worker.lose_next = worker.lose_variables = true;
            return context.session().Run({}, {program.loss}).status();
          });
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(num_attempts, 6);
    const absl::Status closed = (*session)->Close();
    EXPECT_EQ(ExitCodeFor(closed), saved == 4 ? kExitDone : kExitRetryable) << closed;
  }
}

// An attempt restores and fails after that; the next one finds the variables as that has left them.
TEST(SessionRecoveryTest, WhatAnEarlierAttemptHasRestoredIsLostAllTheSame) {
  for (const bool lose_variables : {false, true}) {
    TestProgram program;
    LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
    program.target.workers = {&worker};
    std::vector<bool> has_restored;  // each session, as a hook sees it
    auto fails = std::make_shared<TestHook>();
    fails->after_create_session = [&](Session&, Coordinator&) -> absl::Status {
      return worker.num_sessions == 2 ? absl::UnavailableError("lost under a hook") : absl::OkStatus();
    };
    auto sees = std::make_shared<TestHook>();
    sees->after_create_session = [&](Session& session, Coordinator&) {
      has_restored.push_back(session.has_restored());
      return absl::OkStatus();
    };
    auto session = program.Start({.checkpoint_dir = EmptyDirectory("attempts"),
                                  .hooks = {StopAtStepHook({.last_step = 5}), fails, sees},
                                  .save_checkpoint_steps = 3});
    ASSERT_TRUE(session.ok()) << session.status();
    while (!(*session)->should_stop()) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    worker.lose_next = true;
    worker.lose_variables = lose_variables;
    const absl::Status closed = (*session)->Close();
    EXPECT_EQ(worker.num_sessions, 3);
    EXPECT_EQ(ExitCodeFor(closed), lose_variables ? kExitRetryable : kExitDone) << closed;
    EXPECT_THAT(has_restored, testing::ElementsAre(true, lose_variables));
  }
}

// The chief was lost in a restore, and is not started again: its worker's steps are refused for ever.
TEST(SessionRecoveryTest, ARestoreThatDoesNotEndIsWaitedForAsAChiefIs) {
  for (const bool has_chief : {true, false}) {
    TestProgram program;
    ASSERT_TRUE(program.Start({}).ok());
    LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
    program.target.workers = {&worker};
    program.target.met_chief = [&] { return has_chief ? SessionTarget::kChiefIsThere : 7; };
    auto hook = std::make_shared<TestHook>();
    auto session = program.Start({.is_chief = false,
                                  .hooks = {hook},
                                  .max_wait = absl::Seconds(8),
                                  .max_wait_for_absent_chief = absl::Seconds(5)});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    // One that ends costs the worker nothing. The chief's own was earlier.
    const uint64_t id = UINT64_MAX - 1;
    ASSERT_TRUE(program.worker.BeginRestore(id, absl::InfiniteFuture()).ok());
    int num_refused = 0;
    hook->before_run = [&](RunContext&) {
      if (++num_refused == 5) {
        EXPECT_TRUE(program.worker.EndRestore(id, "", absl::InfiniteFuture()).ok());
      }
      return RunArgs();
    };
    ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    EXPECT_EQ(num_refused, 5);
    ASSERT_TRUE(program.worker.BeginRestore(id + 1, absl::InfiniteFuture()).ok());
    hook->before_run = [&](RunContext&) {
      if (++num_refused == 60) (*session)->RequestStop();  // it would go on for ever
      return RunArgs();
    };
    const absl::Status refused = (*session)->Run({}, {}, {program.train}).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(refused)) << refused;
    EXPECT_THAT(Message(refused), HasSubstr(has_chief ? "gave up after 8s" : "gave up after 5s"));
    EXPECT_THAT(Message(refused), HasSubstr("the chief is just initialising or restoring the variables"));
    EXPECT_THAT(Message(refused), HasSubstr(has_chief ? "" : "it has ended, or was lost"));
    EXPECT_EQ((*session)->Close(), refused);
  }
}

// The session that is made anew may find the variables in the middle of an update, which is tried again
// later.
TEST(SessionRecoveryTest, OnlyASessionThatHasSetTheVariablesSavesThemAtOnce) {
  struct Saves final : CheckpointSaverListener {
    absl::Status BeforeSave(Session&, int64_t) override {
      ++count;
      return absl::OkStatus();
    }
    int count = 0;
  };
  const auto saves = std::make_shared<Saves>();
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session =
      program.Start({.checkpoint_dir = EmptyDirectory("recovered"), .checkpoint_listeners = {saves}});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(saves->count, 1);
  worker.lose_next = true;
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_EQ(worker.num_sessions, 2);
  EXPECT_EQ(saves->count, 1);
  worker.lose_next = worker.lose_variables = true;
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_EQ(worker.num_sessions, 3);
  EXPECT_EQ(saves->count, 2);
}

TEST(SessionRecoveryTest, AfterARecoveryThatFailedTheSessionIsClosed) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  worker.lose_next = true;
  worker.refusal = absl::PermissionDeniedError("another cluster");
  // Within a step too, which learns of it from something else.
  const absl::Status status = (*session)->RunStepFn([&](MonitoredSession::StepContext&) {
    EXPECT_TRUE(absl::IsPermissionDenied((*session)->GlobalStep().status()));
    return absl::AbortedError("lost");
  });
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_TRUE(absl::IsPermissionDenied((*session)->GlobalStep().status()));
  EXPECT_FALSE((*session)->should_stop());
  EXPECT_TRUE(absl::IsCancelled((*session)->session().Run({}, {program.loss}).status()));
  EXPECT_EQ((*session)->Close(), status);
}

// They have their first values again in the new session, and what the lost attempt did to them is gone with
// it. The model keeps what it did.
TEST(SessionRecoveryTest, AStepThatIsTriedAgainUpdatesLocalVariablesAgain) {
  TestProgram program;
  GraphBuilder& g = program.g;
  const ModelVariable local =
      MakeVariable(g, "sum", Tensor::Scalar(0.0f), {.trainable = false, .is_local = true});
  Node* const once = AssignAddVariableOp(g, local.handle, Const(g, 1.0f));
  const auto add_two = [&]() -> std::vector<Node*> {
    return {AssignAddVariableOp(g, local.handle, Const(g, 2.0f))};
  };
  Node* const twice = When(g, Const(g, true), add_two, SourceLocation::Current());
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  worker.lose_answer = true;
  ASSERT_TRUE((*session)->Run({}, {}, {program.train, once, twice}).ok());
  EXPECT_EQ(worker.num_sessions, 2);
  EXPECT_EQ((*session)->GlobalStep().value(), 1);
  EXPECT_EQ((*session)->session().Run({}, {local.value}).value()[0].scalar<float>(), 3);
}

// It has no session any more.
TEST(SessionRecoveryTest, AStepThatLearnsThatTrainingIsOverEnds) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  worker.lose_next = true;
  worker.refusal = TrainingIsOverError("the chief is done");
  const absl::Status status = (*session)->RunStepFn(
      [&](MonitoredSession::StepContext&) { return (*session)->GlobalStep().status(); });
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_EQ(ExitCodeFor(status), 0);
  EXPECT_TRUE((*session)->should_stop());
  EXPECT_TRUE((*session)->Close().ok());
}

TEST(SessionRecoveryTest, AStepThatFailsInEveryNewSessionIsNotTriedAgainAfterAStop) {
  TestProgram program;
  auto hook = std::make_shared<TestHook>();
  auto session = program.Start({.hooks = {hook}});
  ASSERT_TRUE(session.ok()) << session.status();
  int num_tries = 0;
  hook->before_run = [&](RunContext&) -> absl::StatusOr<RunArgs> {
    if (++num_tries == 3) (*session)->RequestStop();
    return absl::UnavailableError("always away");
  };
  EXPECT_THAT(Message((*session)->Run({}, {}, {program.train}).status()), HasSubstr("always away"));
  EXPECT_EQ(num_tries, 3);
}

TEST(SessionRecoveryTest, ASingularSessionEndsWhenAPeerIsLost) {
  TestProgram program;
  LosesAPeer worker(program.worker, *program.runtime->devices()[0]);
  program.target.workers = {&worker};
  auto session = SingularMonitoredSession(program.g, {.target = program.target});
  ASSERT_TRUE(session.ok()) << session.status();
  worker.lose_next = true;
  EXPECT_TRUE(absl::IsUnavailable((*session)->Run({}, {}, {program.train}).status()));
  EXPECT_EQ(worker.num_sessions, 1);
}

// The authority has granted it too low a life, and grants another one when it has heard from all.
TEST(SessionRecoveryTest, AChiefWithALifeThatIsTooLowWaitsForALaterOne) {
  const std::string directory = EmptyDirectory("too_low");
  ASSERT_TRUE(CheckpointClaim::Take(PosixFileSystem(), directory, 9).ok());
  TestProgram program;
  uint64_t life = 8;
  program.target.life = [&life] { return life; };
  program.target.note_life = [&life](uint64_t known) { life = known + 1; };
  auto session = program.Start({.checkpoint_dir = directory});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_TRUE((*session)->Close().ok());
  EXPECT_EQ(CheckpointClaim::EndedLifeIn(PosixFileSystem(), directory).value(), 10u);
}

}  // namespace
}  // namespace weir
