#include "session/monitored/monitored_session.h"

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/full_disk.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_hook.h"
#include "session/monitored/test_program.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

void FlipByte(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.is_open()) << path;
  file.seekg(offset);
  const char byte = static_cast<char>(file.get());
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 0x10));
}

// Those of the names whose variable has no value, as a string vector.
Output StringsWithout(GraphBuilder& g, const std::vector<std::string>& names,
                      const std::vector<Output>& handles) {
  std::vector<Output> are_missing;
  for (const Output& handle : handles) are_missing.push_back(LogicalNot(g, VarIsInitializedOp(g, handle)));
  const Output places = g.AddOp("Where", {g.AddOp("Pack", {InputArg(are_missing)})});
  const Output all =
      Const(g, Tensor::FromSpan<std::string>(Shape({static_cast<int64_t>(names.size())}), names));
  return g.AddOp("GatherNd", {all, places});
}

TEST(MonitoredSessionTest, StopsAtItsStepAndGoesOnFromTheCheckpoint) {
  const std::string directory = EmptyDirectory("resume");
  float after_first = 0;
  {
    TestProgram program;
    auto session = program.Start({.checkpoint_dir = directory, .hooks = {StopAtStepHook({.last_step = 5})}});
    ASSERT_TRUE(session.ok()) << session.status();
    while (!(*session)->should_stop()) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    EXPECT_EQ((*session)->GlobalStep().value(), 5);
    after_first = (*session)->session().Run({}, {program.w.value}).value()[0].scalar<float>();
    EXPECT_NEAR(after_first, 3 * (1 - std::pow(0.8, 5)), 1e-5);
    ASSERT_TRUE((*session)->Close().ok());
  }
  EXPECT_THAT(CheckpointsIn(directory).value(),
              ElementsAre(directory + "/model.ckpt-5", directory + "/model.ckpt-0"));
  EXPECT_TRUE(PosixFileSystem().Exists(directory + "/model.ckpt-5.meta"));
  TestProgram restarted;
  auto session = restarted.Start({.checkpoint_dir = directory, .hooks = {StopAtStepHook({.num_steps = 2})}});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->GlobalStep().value(), 5);
  EXPECT_EQ((*session)->session().Run({}, {restarted.w.value}).value()[0].scalar<float>(), after_first);
  ASSERT_TRUE(TrainUntilStop(restarted, **session).ok());
  EXPECT_THAT(CheckpointsIn(directory).value()[0], HasSubstr("model.ckpt-7"));
}

TEST(MonitoredSessionTest, ADamagedCheckpointLeadsBackToTheOneBefore) {
  const std::string directory = EmptyDirectory("damaged");
  {
    TestProgram program;
    auto session = program.Start({.checkpoint_dir = directory,
                                  .hooks = {StopAtStepHook({.last_step = 6})},
                                  .save_checkpoint_steps = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  }
  ASSERT_THAT(CheckpointsIn(directory).value(), SizeIs(4));
  FlipByte(directory + "/model.ckpt-6.data-00000-of-00001", 1);
  {
    TestProgram program;
    auto session =
        program.Start({.checkpoint_dir = directory, .save_checkpoint_interval = absl::ZeroDuration()});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->GlobalStep().value(), 4);
  }
  // All damaged: an error that names them, and no silent new beginning.
  for (int step : {0, 2, 4}) FlipByte(absl::StrCat(directory, "/model.ckpt-", step, ".index"), 3);
  TestProgram program;
  auto session = program.Start({.checkpoint_dir = directory});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kDataLoss) << session.status();
  EXPECT_THAT(Message(session.status()), HasSubstr(directory));
  EXPECT_EQ(ExitCodeFor(session.status()), kExitBadData);
}

TEST(MonitoredSessionTest, KeepsOnlyTheNewestCheckpoints) {
  const std::string directory = EmptyDirectory("keep");
  TestProgram program;
  TrainingSessionOptions options = {
      .checkpoint_dir = directory, .hooks = {StopAtStepHook({.last_step = 9})}, .save_checkpoint_steps = 1};
  options.scaffold = std::make_shared<Scaffold>();
  options.scaffold->saver_options.max_to_keep = 3;
  auto session = program.Start(std::move(options));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  int num_index_files = 0;
  const std::vector<std::string> names = PosixFileSystem().ListDirectory(directory).value();
  for (const std::string& name : names) {
    num_index_files += name.size() > 6 && name.substr(name.size() - 6) == ".index";
    EXPECT_THAT(name, testing::Not(HasSubstr("temp")));
  }
  EXPECT_EQ(num_index_files, 3);
  EXPECT_THAT(CheckpointsIn(directory).value(),
              ElementsAre(HasSubstr("ckpt-9"), HasSubstr("ckpt-8"), HasSubstr("ckpt-7")));
}

// Training would begin anew otherwise, and delete what it does not know. Whatever the file is called that
// names the checkpoints.
TEST(MonitoredSessionTest, AModelThatDoesNotFitItsCheckpointIsRefused) {
  for (const char* latest_filename : {"checkpoint", "mine"}) {
    const std::string directory = EmptyDirectory("misfit");
    const auto scaffold = [&] {
      auto made = std::make_shared<Scaffold>();
      made->saver_options.latest_filename = latest_filename;
      return made;
    };
    {
      TestProgram program;
      auto session = program.Start(
          {.checkpoint_dir = directory, .hooks = {StopAtStepHook({.last_step = 1})}, .scaffold = scaffold()});
      ASSERT_TRUE(TrainUntilStop(program, **session).ok());
    }
    for (const bool allow_missing : {false, true}) {
      TestProgram larger;
      MakeVariable(larger.g, "another", Tensor::Scalar(0.0f));
      auto session = larger.Start(
          {.checkpoint_dir = directory, .allow_missing_checkpoints = allow_missing, .scaffold = scaffold()});
      EXPECT_FALSE(session.ok()) << latest_filename;
      EXPECT_THAT(Message(session.status()), AllOf(HasSubstr("another"), HasSubstr("model.ckpt-1")));
    }
  }
}

TEST(MonitoredSessionTest, DivergenceEndsWithItsOwnExitCode) {
  TestProgram program;
  auto session = program.Start({.hooks = {NanTensorHook({.tensor = program.loss})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  const Tensor nan = Tensor::Scalar(std::nanf(""));
  const absl::Status status = (*session)->Run({{program.step_scale, nan}}, {}, {program.train}).status();
  EXPECT_EQ(ExitCodeFor(status), kExitDiverged) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("[exit code='4']"));
  EXPECT_THAT(Message(status), AllOf(HasSubstr(program.loss.name()), HasSubstr("nan")));
  EXPECT_EQ((*session)->Run({}, {}, {program.train}).status(), status) << "a failed session stays failed";
  EXPECT_EQ((*session)->Close(), status);
}

TEST(MonitoredSessionTest, AWorkerGivesUpOnAChiefThatNeverComes) {
  TestProgram program;
  auto session = program.Start({.is_chief = false, .max_wait = absl::Milliseconds(300)});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(session.status()), AllOf(HasSubstr("w"), HasSubstr("chief")));
}

// Its program is not that of the chief, which trains.
TEST(MonitoredSessionTest, AWorkerWithMoreVariablesThanTheChiefIsToldWhy) {
  TestProgram program;
  auto chief = program.Start({});
  ASSERT_TRUE(chief.ok()) << chief.status();
  GraphBuilder g(program.runtime->ops());
  MakeVariable(g, "w", Tensor::Scalar(0.0f));
  MakeVariable(g, "more", Tensor::Scalar(0.0f));
  const absl::Status status =
      MonitoredTrainingSession(
          g, {.target = program.target, .is_chief = false, .max_wait = absl::Milliseconds(300)})
          .status();
  EXPECT_THAT(
      Message(status),
      HasSubstr("variables without a value: more (the chief has to initialise or restore them; 1 of 2 have "
                "a value: if the chief trains already, it builds another model)"));
}

TEST(MonitoredSessionTest, AWorkerWithVariablesOfOtherShapesIsRefused) {
  TestProgram program;
  auto chief = program.Start({});
  ASSERT_TRUE(chief.ok()) << chief.status();
  GraphBuilder g(program.runtime->ops());
  MakeVariable(g, "w", Tensor::Vector<float>({0, 0}));
  const absl::Status status =
      MonitoredTrainingSession(g, {.target = program.target, .is_chief = false}).status();
  EXPECT_EQ(ExitCodeFor(status), kExitUserError) << status;
  EXPECT_THAT(
      Message(status),
      HasSubstr("variable 'w' is [] on its task, and [2] in this program: the chief builds another model"));
}

// Nobody may be left who remembers that the job has ended, and there is no folder that says so: a worker that
// comes later would wait for two hours.
TEST(MonitoredSessionTest, AWorkerWithoutAFolderGivesUpSoonerOnAChiefThatIsNotThere) {
  const auto start = [](uint64_t met, absl::Duration max_wait, const std::string& directory = "") {
    TestProgram program;
    program.target.met_chief = [met] { return met; };
    return program
        .Start({.is_chief = false,
                .checkpoint_dir = directory,
                .max_wait = max_wait,
                .max_wait_for_absent_chief = absl::Milliseconds(300)})
        .status();
  };
  const absl::Status never_came = start(0, absl::Hours(2)), is_gone = start(7, absl::Hours(2));
  for (const absl::Status& status : {never_came, is_gone}) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("gave up after 300ms: variables without a value: "),
                      HasSubstr("no folder of checkpoints that would say whether the job has ended")));
  }
  EXPECT_THAT(Message(never_came),
              HasSubstr("the chief has to initialise or restore them, and none has come"));
  EXPECT_THAT(Message(is_gone), HasSubstr("and it has ended, or was lost"));
  // A chief that is there may take its time; a folder says more.
  EXPECT_THAT(Message(start(SessionTarget::kChiefIsThere, absl::Milliseconds(400))),
              HasSubstr("gave up after 400ms"));
  EXPECT_THAT(Message(start(0, absl::Milliseconds(400), EmptyDirectory("absent_chief"))),
              HasSubstr("gave up after 400ms"));
}

TEST(MonitoredSessionTest, AWorkerWaitsForItsChief) {
  TestProgram program;
  auto chief = program.Start({});
  ASSERT_TRUE(chief.ok()) << chief.status();
  // The same variables by name, seen from a second graph on the same worker.
  GraphBuilder g(StandardOps());
  const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(-1.0f));
  auto follower = MonitoredTrainingSession(g, {.target = program.target, .is_chief = false});
  ASSERT_TRUE(follower.ok()) << follower.status();
  EXPECT_EQ((*follower)->Run({}, {w.value}).value()[0].scalar<float>(), 0)
      << "the chief's value, not its own";
}

// The chief has saved what there was, so that nothing is missing: the program ends well.
TEST(MonitoredSessionTest, AWorkerWhoseChiefIsDoneHasNothingToDo) {
  TestProgram program;
  program.target.chief_is_done = [] { return true; };
  auto session = program.Start({.is_chief = false});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kOutOfRange) << session.status();
  EXPECT_THAT(Message(session.status()), HasSubstr("training is over"));
  EXPECT_EQ(ExitCodeFor(session.status()), kExitDone) << session.status();
}

// A checkpoint that is saved before would have variables that were torn when the session was lost.
TEST(MonitoredSessionTest, WhoeverSetsTheVariablesOfANewSessionComesFirst) {
  class SetsVariables final : public Hook {
   public:
    explicit SetsVariables(std::vector<std::string>& order) : order_(order) {}
    bool OwnsVariables() const override { return true; }
    absl::Status AfterCreateSession(Session&, Coordinator&) override {
      order_.push_back("sets");
      return absl::OkStatus();
    }

   private:
    std::vector<std::string>& order_;
  };
  TestProgram program;
  std::vector<std::string> order;
  const auto named = [&order](const char* name) {
    auto hook = std::make_shared<TestHook>();
    hook->after_create_session = [&order, name](Session&, Coordinator&) {
      order.push_back(name);
      return absl::OkStatus();
    };
    return hook;
  };
  ASSERT_TRUE(
      program.Start({.hooks = {named("saves"), std::make_shared<SetsVariables>(order), named("reads")}})
          .ok());
  EXPECT_THAT(order, ElementsAre("sets", "saves", "reads"));
}

TEST(MonitoredSessionTest, NullIsNoSessionCreator) {
  GraphBuilder g(StandardOps());
  EXPECT_THAT(Message(MonitoredSession::Create(g, nullptr).status()), HasSubstr("needs a session creator"));
}

TEST(MonitoredSessionTest, LocalVariablesAreInitialisedByItself) {
  TestProgram program;
  const ModelVariable count = MakeVariable(program.g, "count", Tensor::Scalar(7.0f), {.is_local = true});
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->session().Run({}, {count.value}).value()[0].scalar<float>(), 7.0f);
}

// What it adds to the graph says nothing about where variables are.
TEST(MonitoredSessionTest, MayBeMadeInTheScopeOfAnotherDevice) {
  TestProgram program({.num_cpus = 2});
  const auto scope = program.g.DeviceScope("/device:CPU:1");
  auto session =
      program.Start({.checkpoint_dir = EmptyDirectory("scope"), .hooks = {StopAtStepHook({.last_step = 2})}});
  ASSERT_TRUE(session.ok()) << session.status();
  const std::unique_ptr<Graph> placed = (*session)->session().PlacedGraph().value();
  EXPECT_EQ(placed->FindNode("w")->assigned_device().index, 0);
  EXPECT_TRUE(TrainUntilStop(program, **session).ok());
}

TEST(MonitoredSessionTest, AChiefInitialisesAsItsScaffoldSays) {
  TestProgram program;
  GraphBuilder& g = program.g;
  const Output start = PlaceholderWithDefault(g, Const(g, 1.0f), Shape());
  const ModelVariable late = MakeVariable(g, "late", Tensor::Scalar(2.0f));
  const ModelVariable local = MakeVariable(g, "local", Tensor::Scalar(3.0f));
  const Output local_start = PlaceholderWithDefault(g, Const(g, 1.0f), Shape());
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->init = Group(g, {AssignVariableOp(g, program.w.handle, start), GlobalStep(g).initializer});
  scaffold->init_feed = {{start, Tensor::Scalar(5.0f)}};
  std::vector<std::string> missing;
  scaffold->init_fn = [&](const Scaffold& scaffold, Session& session) {
    missing = scaffold.UninitializedVariables(session).value();
    return session.Run({}, {}, {late.initializer}).status();
  };
  scaffold->ready_for_local_init = StringsWithout(g, {"w", "late"}, {program.w.handle, late.handle});
  scaffold->local_init = AssignVariableOp(g, local.handle, local_start);
  scaffold->local_init_feed = {{local_start, Tensor::Scalar(8.0f)}};
  auto session = program.Start({.scaffold = scaffold});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_THAT(missing, ElementsAre("late", "local"));
  const auto values = (*session)->session().Run({}, {program.w.value, late.value, local.value}).value();
  EXPECT_EQ(values[0].scalar<float>(), 5);
  EXPECT_EQ(values[1].scalar<float>(), 2);
  EXPECT_EQ(values[2].scalar<float>(), 8);
}

TEST(MonitoredSessionTest, AnInitThatForgetsAVariableIsRefusedAtOnce) {
  TestProgram program;
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->init = program.w.initializer;
  const absl::Status status = program.Start({.scaffold = scaffold}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("global_step"));
  TestProgram second;
  scaffold = std::make_shared<Scaffold>();
  scaffold->ready = second.loss;
  EXPECT_THAT(Message(second.Start({.scaffold = scaffold}).status()),
              AllOf(HasSubstr("ready_op"), HasSubstr(second.loss.name()), HasSubstr("float")));
  TestProgram third;
  third.g.graph().collections()["init_op"] = {third.w.initializer->name(), third.train->name()};
  EXPECT_THAT(Message(third.Start({}).status()), AllOf(HasSubstr("init_op"), HasSubstr("2 items")));
}

TEST(MonitoredSessionTest, AChiefRestoresTheCheckpointItIsTold) {
  const std::string directory = EmptyDirectory("told");
  {
    TestProgram program;
    auto session = program.Start({.checkpoint_dir = directory,
                                  .hooks = {StopAtStepHook({.last_step = 4})},
                                  .save_checkpoint_steps = 2});
    ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  }
  TestProgram program;
  auto session = SingularMonitoredSession(
      program.g, {.target = program.target, .checkpoint_path = directory + "/model.ckpt-2"});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->GlobalStep().value(), 2);
  TestProgram second;
  EXPECT_THAT(Message(SingularMonitoredSession(second.g, {.target = second.target,
                                                          .checkpoint_dir = directory,
                                                          .checkpoint_path = directory + "/model.ckpt-2"})
                          .status()),
              AllOf(HasSubstr("checkpoint_dir"), HasSubstr("checkpoint_path")));
  TestProgram third;
  const absl::Status missing =
      SingularMonitoredSession(third.g, {.target = third.target, .checkpoint_path = directory + "/nothing-2"})
          .status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_THAT(Message(missing), HasSubstr(directory + "/nothing-2"));
}

TEST(MonitoredSessionTest, AStepFunctionRunsWithAndWithoutHooks) {
  TestProgram program;
  auto session = program.Start({.hooks = {StopAtStepHook({.last_step = 3})}});
  ASSERT_TRUE(session.ok()) << session.status();
  int num_calls = 0;
  const auto step = [&](MonitoredSession::StepContext& context) -> absl::Status {
    ++num_calls;
    WEIR_RETURN_IF_ERROR(context.session().Run({}, {}, {program.train}).status());
    return context.RunWithHooks({}, {}, {program.train}).status();
  };
  while (!(*session)->should_stop()) ASSERT_TRUE((*session)->RunStepFn(step).ok());
  EXPECT_EQ(num_calls, 2);
  EXPECT_EQ((*session)->GlobalStep().value(), 4);
  TestProgram second;
  auto stopped = second.Start({});
  ASSERT_TRUE((*stopped)
                  ->RunStepFn([](MonitoredSession::StepContext& context) {
                    context.RequestStop();
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_TRUE((*stopped)->should_stop());
}

// As a program does that has one call for each epoch.
TEST(MonitoredSessionTest, AStepFunctionMayRunManySteps) {
  constexpr int kSteps = 1500;
  TestProgram program;
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->RunStepFn([&](MonitoredSession::StepContext& context) {
    for (int i = 0; i < kSteps; ++i) {
      WEIR_RETURN_IF_ERROR(context.RunWithHooks({}, {}, {program.train}).status());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ((*session)->GlobalStep().value(), kSteps);
}

TEST(MonitoredSessionTest, SummariesMayHaveAFolderOfTheirOwn) {
  const std::string checkpoints = EmptyDirectory("checkpoints"), summaries = EmptyDirectory("summaries");
  TestProgram program;
  auto session = program.Start({.checkpoint_dir = checkpoints,
                                .summary_dir = summaries,
                                .hooks = {StopAtStepHook({.last_step = 2})},
                                .save_summaries_steps = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  EXPECT_THAT(PosixFileSystem().ListDirectory(summaries).value(),
              ElementsAre(HasSubstr("events.out.tfevents")));
  EXPECT_THAT(CheckpointsIn(checkpoints).value(), SizeIs(2));
}

TEST(MonitoredSessionTest, CheckpointsNeedAGlobalStep) {
  TestProgram program;
  GraphBuilder g(StandardOps());
  MakeVariable(g, "alone", Tensor::Scalar(1.0f));
  const absl::Status status =
      MonitoredTrainingSession(g, {.target = program.target, .checkpoint_dir = EmptyDirectory("stepless")})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("GlobalStep(g)"));
}

TEST(MonitoredSessionTest, CheckpointsThatAreNamedAndGoneAreAnErrorUnlessAllowed) {
  const std::string directory = EmptyDirectory("gone");
  ASSERT_TRUE(PosixFileSystem().CreateDirectories(directory).ok());
  {
    TestProgram program;
    auto session = program.Start({.checkpoint_dir = directory,
                                  .hooks = {StopAtStepHook({.last_step = 4})},
                                  .save_checkpoint_steps = 2});
    ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  }
  ASSERT_TRUE(PosixFileSystem().Remove(directory + "/model.ckpt-4.index").ok());
  {
    TestProgram program;
    auto session =
        program.Start({.checkpoint_dir = directory, .save_checkpoint_interval = absl::ZeroDuration()});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->GlobalStep().value(), 2) << "the one before it is still there";
  }
  for (int step : {0, 2}) {
    ASSERT_TRUE(PosixFileSystem().Remove(absl::StrCat(directory, "/model.ckpt-", step, ".index")).ok());
  }
  TestProgram program;
  const absl::Status status = program.Start({.checkpoint_dir = directory}).status();
  EXPECT_EQ(ExitCodeFor(status), kExitBadData) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr(directory + "/checkpoint"), HasSubstr("model.ckpt-4")));
  TestProgram allowed;
  auto session = allowed.Start({.checkpoint_dir = directory, .allow_missing_checkpoints = true});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->GlobalStep().value(), 0);
}

TEST(MonitoredSessionTest, AFolderBelongsToOneJob) {
  const std::string directory = EmptyDirectory("owned");
  TestProgram program;
  program.target.life = [] { return uint64_t{9}; };
  auto session = program.Start({.checkpoint_dir = directory});
  ASSERT_TRUE(session.ok()) << session.status();
  TestProgram other;
  const absl::Status refused =
      other.Start({.checkpoint_dir = directory, .checkpoint_dir_max_wait = absl::ZeroDuration()}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(Message(refused), AllOf(HasSubstr(directory), HasSubstr(absl::StrCat("process ", ::getpid()))));
  // Who only reads may come.
  TestProgram evaluator;
  EXPECT_TRUE(
      SingularMonitoredSession(evaluator.g, {.target = evaluator.target, .checkpoint_dir = directory}).ok());
  // The next one, which was started before, waits until the first has ended.
  TestProgram next;
  next.target.life = [] { return uint64_t{8}; };
  bool has_started = false;
  std::thread waits([&] {
    has_started = next.Start({.checkpoint_dir = directory, .checkpoint_dir_max_wait = absl::Minutes(1)}).ok();
  });
  EXPECT_TRUE((*session)->Close().ok());
  waits.join();
  EXPECT_TRUE(has_started);
}

TEST(MonitoredSessionTest, AFolderBelongsToOneJobWhoseHookIsItsOwn) {
  const std::string directory = EmptyDirectory("own_hook");
  const auto start = [&directory](TestProgram& program) {
    program.target.life = [] { return uint64_t{9}; };
    auto scaffold = std::make_shared<Scaffold>();
    return program.Start({.checkpoint_dir = directory,
                          .checkpoint_dir_max_wait = absl::ZeroDuration(),
                          .hooks = {CheckpointSaverHook({.directory = directory, .scaffold = scaffold})},
                          .save_checkpoint_interval = absl::ZeroDuration(),
                          .scaffold = scaffold});
  };
  TestProgram program, other;
  auto session = start(program);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(CheckpointClaim::IsHeldIn(PosixFileSystem(), directory).value());
  EXPECT_EQ(start(other).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*session)->Close().ok());
  EXPECT_TRUE(start(other).ok());
}

// A chief that has a life writes through its claim of the folder, which went past the saver's own files.
TEST(MonitoredSessionTest, AChiefWithALifeWritesToTheFilesOfItsSaver) {
  FullDisk disk(0);
  TestProgram program;
  program.target.life = [] { return uint64_t{9}; };
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->saver_options.file_system = &disk;
  const absl::Status full =
      program.Start({.checkpoint_dir = EmptyDirectory("full"), .scaffold = scaffold}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(Message(full), HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace weir
