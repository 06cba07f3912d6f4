#include "session/monitored/hooks/hooks.h"

#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/full_disk.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/chrome_trace.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_hook.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(HooksTest, LoggingPrintsNamesAndValues) {
  TestProgram program;
  std::vector<std::string> lines;
  auto session = program.Start(
      {.hooks = {LoggingTensorHook({.tensors = {{"loss", program.loss}},
                                    .every_steps = 2,
                                    .at_end = true,
                                    .sink = [&](const std::string& line) { lines.push_back(line); }}),
                 StopAtStepHook({.last_step = 4})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0], "loss = 9");
  EXPECT_THAT(lines[1], AllOf(HasSubstr("loss = 3.68"), HasSubstr(" s)")));
}

TEST(HooksTest, ANumberIsLoggedWithoutItsType) {
  TestProgram program;
  std::vector<std::string> lines;
  auto session = program.Start(
      {.hooks = {LoggingTensorHook({.tensors = {{"step", GlobalStep(program.g).value}},
                                    .every_steps = 100,
                                    .sink = [&](const std::string& line) { lines.push_back(line); }}),
                 StopAtStepHook({.last_step = 1})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], AnyOf(std::string("step = 0"), std::string("step = 1")));
}

// A process that is refused the session may find another one saving there.
TEST(HooksTest, TemporaryFilesAreRemovedByWhoHasTheSession) {
  TestProgram program;
  const std::string directory = EmptyDirectory("temporary");
  ASSERT_TRUE(PosixFileSystem().CreateDirectories(directory).ok());
  const std::string left = TemporaryPathFor(JoinPath(directory, "model.ckpt-1.index"));
  ASSERT_TRUE(PosixFileSystem().CreateNew(left).ok());
  GlobalStep(program.g);
  const CheckpointSaverOptions options = {.directory = directory, .saver = Saver::Build(program.g).value()};
  ASSERT_TRUE(CheckpointSaverHook(options)->Begin(program.g).ok());
  EXPECT_TRUE(PosixFileSystem().FileSize(left).ok());
  const auto session = program.Start({.hooks = {CheckpointSaverHook(options)}});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_FALSE(PosixFileSystem().FileSize(left).ok());
}

// Backup workers, and steps that are run again, see a step twice.
TEST(HooksTest, AGlobalStepIsStuckWhenItStaysForLong) {
  TestProgram program;
  auto session = program.Start({.hooks = {StepCounterHook({.every_steps = 1000, .log = false})}});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto run = [&](int count) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < count; ++i) EXPECT_TRUE((*session)->Run({}, {program.loss}).ok());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(run(10), "");
  EXPECT_THAT(run(20), HasSubstr("the global step stays at 0: pass GlobalStep(g) to Minimize"));
  EXPECT_EQ(run(30), "") << "said once";
}

TEST(HooksTest, MistakesAreNamedBeforeTheFirstStep) {
  TestProgram program;
  EXPECT_THAT(Message(program.Start({.hooks = {StopAtStepHook({})}}).status()),
              HasSubstr("last_step or num_steps"));
  TestProgram second;
  EXPECT_THAT(
      Message(second.Start({.hooks = {NanTensorHook({.tensor = GlobalStep(second.g).value})}}).status()),
      AllOf(HasSubstr("NanTensorHook"), HasSubstr("int64")));
  GraphBuilder g(StandardOps());
  EXPECT_THAT(Message(MonitoredTrainingSession(g, {}).status()), HasSubstr("target"));
}

// What a program may leave null or out of range, and what its message names.
TEST(HooksTest, OptionsThatMakeNoSenseAreRefused) {
  const auto error = [](const auto& options_of) {
    TestProgram program;
    const absl::Status status = program.Start(options_of(program)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return Message(status);
  };
  using Options = TrainingSessionOptions;
  EXPECT_THAT(error([](TestProgram&) { return Options{.hooks = {nullptr}}; }), HasSubstr("hook 0 of 1"));
  EXPECT_THAT(error([](TestProgram&) { return Options{.chief_only_hooks = {nullptr}}; }),
              HasSubstr("hook 0 of 1"));
  EXPECT_THAT(error([](TestProgram&) {
                return Options{.checkpoint_dir = EmptyDirectory("null_listener"),
                               .checkpoint_listeners = {nullptr}};
              }),
              HasSubstr("a checkpoint listener is null"));
  for (const std::string name : {"", "../model", "folder/model"}) {
    EXPECT_THAT(error([&](TestProgram& program) {
                  return Options{.hooks = {CheckpointSaverHook({.directory = EmptyDirectory("names"),
                                                                .saver = Saver::Build(program.g).value(),
                                                                .base_name = name})}};
                }),
                HasSubstr("is '" + name + "'"));
  }
  EXPECT_THAT(
      error([](TestProgram&) { return Options{.hooks = {ProgressHook({.last_step = 1, .out = nullptr})}}; }),
      HasSubstr("`out` is null"));
  EXPECT_THAT(error([](TestProgram&) {
                return Options{.hooks = {StopAtStepHook({.last_step = 3, .num_steps = -3})}};
              }),
              HasSubstr("got 3 and -3"));
}

// A hook reads one string of it.
TEST(HooksTest, ASummaryIsOneString) {
  const auto error = [](const auto& summary_of) {
    TestProgram program;
    const std::shared_ptr<EventWriter> writer = EventWriter::Create(EmptyDirectory("no_summary")).value();
    const HookPtr hook = SummarySaverHook({.writer = writer, .summary = summary_of(program)});
    auto session = program.Start({.hooks = {hook}});
    const absl::Status status =
        session.ok() ? (*session)->Run({}, {}, {program.train}).status() : session.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_THAT(error([](TestProgram& program) { return program.loss; }),
              HasSubstr("SummarySaverHook: the summary 'Square:0' must be one string, is float"));
  EXPECT_THAT(error([](TestProgram& program) {
                return Output{program.loss.node, -1};
              }),
              HasSubstr("SummarySaverHook: the graph has no output 'Square:-1' for the summary"));
  const auto no_strings = [](TestProgram& program) {
    const Output none = Const(program.g, Tensor(DType::kString, Shape({0})));
    return PlaceholderWithDefault(program.g, none, PartialShape(), {.name = "s"});
  };
  EXPECT_THAT(error(no_strings), HasSubstr("the summary 's:0' must be one string, is string[0]"));
}

TEST(HooksTest, ScaffoldsNameOutputsThatAreThere) {
  const auto error = [](const auto& change) {
    TestProgram program;
    auto scaffold = std::make_shared<Scaffold>();
    change(program, *scaffold);
    return Message(program.Start({.scaffold = scaffold}).status());
  };
  EXPECT_THAT(error([](TestProgram& program, Scaffold& scaffold) {
                scaffold.global_step = {program.loss.node, 3};
              }),
              HasSubstr("Scaffold: the graph has no output 'Square:3' for the global step"));
  EXPECT_THAT(error([](TestProgram& program, Scaffold& scaffold) {
                scaffold.ready = {program.loss.node, -1};
              }),
              HasSubstr("the graph has no output 'Square:-1' for the scaffold's ready_op"));
}

TEST(HooksTest, ProgressForgesNoLines) {
  TestProgram program;
  std::FILE* const out = std::tmpfile();
  ASSERT_NE(out, nullptr);
  const std::string name = "loss\n\x1b[2J";
  auto session =
      program.Start({.hooks = {ProgressHook({.last_step = 1, .tensors = {{name, program.loss}}, .out = out}),
                               StopAtStepHook({.last_step = 1})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  std::rewind(out);
  char said[1000] = {};
  EXPECT_GT(std::fread(said, 1, sizeof(said) - 1, out), 0u);
  std::fclose(out);
  EXPECT_THAT(std::string(said), HasSubstr("loss\\n\\x1b[2J"));
}

// Hooks read eight bytes of it.
TEST(HooksTest, AGlobalStepIsOneInt64) {
  const auto error = [](const auto& step_of) {
    TestProgram program;
    const Output step = step_of(program.g);
    const absl::Status status =
        program.Start({.hooks = {StopAtStepHook({.last_step = 1, .global_step = step})}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_THAT(error([](GraphBuilder& g) { return Const(g, 1.0f, {.name = "s"}); }),
              HasSubstr("StopAtStepHook: the global step 's:0' is float[], must be an int64 scalar"));
  EXPECT_THAT(error([](GraphBuilder& g) { return Const(g, Tensor::Vector<int64_t>({}), {.name = "s"}); }),
              HasSubstr("'s:0' is int64[0]"));
  TestProgram program;
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->global_step = program.loss;
  EXPECT_THAT(Message(program.Start({.scaffold = scaffold}).status()),
              HasSubstr("Scaffold: the global step"));
  TestProgram counted;
  counted.g.graph().collections()["global_step"] = {"w"};
  EXPECT_THAT(Message(counted.Start({}).status()), HasSubstr("is float[], must be an int64 scalar"));
}

TEST(HooksTest, AsManyStepsAsThereAreNeverStop) {
  const std::string directory = EmptyDirectory("endless");
  for (int run = 0; run < 2; ++run) {
    TestProgram program;
    auto session =
        program.Start({.checkpoint_dir = directory,
                       .hooks = {StopAtStepHook({.num_steps = std::numeric_limits<int64_t>::max()})}});
    ASSERT_TRUE(session.ok()) << session.status();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    EXPECT_FALSE((*session)->should_stop());
    ASSERT_TRUE((*session)->Close().ok());
  }
}

TEST(HooksTest, AHookAddsFetchesFeedsTargetsAndATimeout) {
  TestProgram program;
  auto hook = std::make_shared<TestHook>();
  hook->before_run = [&](RunContext& context) {
    EXPECT_THAT(context.original_args().fetches, SizeIs(1));
    return RunArgs{.fetches = {program.loss, program.w.value},
                   .feeds = {{program.step_scale, Tensor::Scalar(2.0f)}},
                   .targets = {program.train},
                   .options = {.timeout = absl::Minutes(3)}};
  };
  int num_steps = 0;
  hook->after_run = [&](RunContext& context, const RunValues& values) {
    EXPECT_THAT(values.results, SizeIs(2));
    EXPECT_NEAR(values.results[0].scalar<float>(), num_steps == 0 ? 9 : 0.36, 1e-5);
    EXPECT_EQ(values.options.timeout, absl::Minutes(4)) << "the larger of both";
    if (++num_steps == 2) context.RequestStop();
    return absl::OkStatus();
  };
  auto session = program.Start({.hooks = {hook}});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE((*session)->should_stop());
    const auto result = (*session)->Run({}, {program.w.value}, {}, {.timeout = absl::Minutes(4)});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(*result, SizeIs(1)) << "only what the caller has fetched";
  }
  EXPECT_EQ(num_steps, 2);
  EXPECT_EQ((*session)->GlobalStep().value(), 2) << "the hook's target ran";
  EXPECT_TRUE((*session)->should_stop());
  EXPECT_THAT(Message((*session)->Run({}, {}).status()), HasSubstr("should_stop"));
  EXPECT_TRUE((*session)->Close().ok());
}

TEST(HooksTest, AFeedComesFromOneOnly) {
  const auto feeds = [](Output output) {
    return FeedFnHook([output]() { return Feeds{{output, Tensor::Scalar(1.0f)}}; });
  };
  TestProgram program;
  auto session = program.Start({.hooks = {feeds(program.step_scale)}});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status =
      (*session)->Run({{program.step_scale, Tensor::Scalar(1.0f)}}, {}, {program.train}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr(program.step_scale.name()), HasSubstr("the caller of Run"),
                                     HasSubstr("hook 0 (FeedFnHook)")));
  TestProgram second;
  auto fed_twice = second.Start(
      {.hooks = {feeds(second.step_scale), StopAtStepHook({.last_step = 9}), feeds(second.step_scale)}});
  ASSERT_TRUE(fed_twice.ok()) << fed_twice.status();
  EXPECT_THAT(Message((*fed_twice)->Run({}, {}, {second.train}).status()),
              AllOf(HasSubstr("hook 0 (FeedFnHook)"), HasSubstr("hook 2 (FeedFnHook)")));
}

TEST(HooksTest, TheLastSaveIsTriedAgain) {
  const std::string directory = EmptyDirectory("last_save");
  FullDisk disk(1 << 20);
  TestProgram program;
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->saver_options.file_system = &disk;
  auto session = program.Start({.checkpoint_dir = directory, .scaffold = scaffold});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  disk.FailNextRename();
  const absl::Status closed = (*session)->Close();
  EXPECT_TRUE(closed.ok()) << closed;
  EXPECT_EQ(CheckpointsIn(directory).value().front(), directory + "/model.ckpt-1");
}

// TensorFlow ends training there: what was not saved would be lost.
TEST(HooksTest, ACheckpointIsSavedWhereItsFolderWasMovedAwayAndThatIsSaidOnce) {
  for (const bool is_asynchronous : {false, true}) {
    const std::string directory = EmptyDirectory("moved"), moved = directory + "_away";
    TestProgram program;
    auto session = program.Start({.checkpoint_dir = directory,
                                  .save_checkpoint_steps = 1,
                                  .save_checkpoints_asynchronously = is_asynchronous});
    ASSERT_TRUE(session.ok()) << session.status();
    const auto run = [&] { return (*session)->Run({}, {}, {program.train}).status(); };
    ::testing::internal::CaptureStderr();
    ASSERT_TRUE(run().ok());
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "nothing has happened";
    ::testing::internal::CaptureStderr();
    ASSERT_EQ(std::rename(directory.c_str(), moved.c_str()), 0);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(run().ok());
    const absl::Status closed = (*session)->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    const std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(CheckpointsIn(directory).value().front(), directory + "/model.ckpt-4");
    const std::string said = " is gone: somebody has ";
    EXPECT_THAT(printed, HasSubstr(said));
    EXPECT_EQ(printed.find(said), printed.rfind(said)) << printed;
    // The save that was under way may have made it again.
    EXPECT_THAT(printed,
                HasSubstr(is_asynchronous ? said : directory + said + "moved it away, or deleted it."));
  }
}

TEST(HooksTest, ThatTheLastCheckpointWasDeletedIsSaid) {
  const std::string directory = EmptyDirectory("emptied");
  TestProgram program;
  auto session = program.Start({.checkpoint_dir = directory, .save_checkpoint_steps = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  for (const char* name : {"checkpoint", "model.ckpt-0.index", "model.ckpt-0.data-00000-of-00001"}) {
    ASSERT_TRUE(PosixFileSystem().Remove(JoinPath(directory, name)).ok()) << name;
  }
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_TRUE((*session)->Close().ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the checkpoint " + directory + "/model.ckpt-0 is gone: somebody has deleted it"));
  EXPECT_EQ(CheckpointsIn(directory).value().front(), directory + "/model.ckpt-5");
}

TEST(HooksTest, AProgramThatIsStartedAgainAfterItsLastStepDoesNone) {
  const std::string directory = EmptyDirectory("at_its_end");
  for (const bool is_again : {false, true}) {
    TestProgram program;
    auto session = program.Start({.checkpoint_dir = directory, .hooks = {StopAtStepHook({.last_step = 3})}});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->should_stop(), is_again);
    while (!(*session)->should_stop()) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    EXPECT_EQ((*session)->GlobalStep().value(), 3);
    EXPECT_TRUE((*session)->Close().ok());
  }
}

TEST(HooksTest, VariablesThatHooksMakeAreInitialisedAndSaved) {
  const std::string directory = EmptyDirectory("made_by_hook");
  for (const float expected : {7.0f, 8.0f}) {
    TestProgram program;
    ModelVariable made;
    Node* count = nullptr;
    auto hook = std::make_shared<TestHook>();
    hook->begin = [&](GraphBuilder& g) {
      made = MakeVariable(g, "made_by_hook", Tensor::Scalar(7.0f));
      count = AssignAddVariableOp(g, made.handle, Const(g, 1.0f));
      return absl::OkStatus();
    };
    auto session = program.Start({.checkpoint_dir = directory, .hooks = {hook}});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->session().Run({}, {made.value}).value()[0].scalar<float>(), expected);
    ASSERT_TRUE((*session)->Run({}, {}, {program.train, count}).ok());
    ASSERT_TRUE((*session)->Close().ok());
  }
}

TEST(HooksTest, AFeedFunctionGivesTheInputAndItsEnd) {
  TestProgram program;
  int num_batches = 0;
  auto session = program.Start({.hooks = {FeedFnHook([&]() -> absl::StatusOr<Feeds> {
                                  if (num_batches++ == 3) return absl::OutOfRangeError("no more batches");
                                  return Feeds{{program.step_scale, Tensor::Scalar(0.5f)}};
                                })}});
  ASSERT_TRUE(session.ok()) << session.status();
  absl::Status status;
  while (status.ok()) status = (*session)->Run({}, {}, {program.train}).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_TRUE((*session)->should_stop());
  EXPECT_EQ((*session)->GlobalStep().value(), 3);
  EXPECT_TRUE((*session)->Close().ok()) << "the end of the input is a good end";
}

TEST(HooksTest, FinalOpsAreEvaluatedAtTheEnd) {
  TestProgram program;
  std::vector<Tensor> found;
  auto session = program.Start(
      {.hooks = {StopAtStepHook({.last_step = 2}),
                 FinalOpsHook({.fetches = {program.loss},
                               .feeds = {{program.step_scale, Tensor::Scalar(0.0f)}},
                               .sink = [&](const std::vector<Tensor>& values) { found = values; }})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].scalar<float>(), 9) << "with its feed";
}

TEST(HooksTest, AWaiterBeginsAtItsStep) {
  TestProgram program;
  auto chief = program.Start({});
  ASSERT_TRUE(chief.ok()) << chief.status();
  TestProgram early_program;
  early_program.target = program.target;
  auto early_follower = early_program.Start(
      {.is_chief = false,
       .hooks = {GlobalStepWaiterHook({.wait_until_step = 3, .max_wait = absl::Milliseconds(1)})}});
  ASSERT_TRUE(early_follower.ok()) << early_follower.status();
  const absl::Status early = (*early_follower)->Run({}, {}, {early_program.train}).status();
  EXPECT_EQ(early.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(early), AllOf(HasSubstr("global step 3"), HasSubstr("it is 0")));
  TestProgram follower_program;
  follower_program.target = program.target;
  auto follower = follower_program.Start(
      {.is_chief = false,
       .hooks = {GlobalStepWaiterHook({.wait_until_step = 3, .poll_interval = absl::Milliseconds(1)})}});
  ASSERT_TRUE(follower.ok()) << follower.status();
  std::thread waits([&] { EXPECT_TRUE((*follower)->Run({}, {}, {follower_program.train}).ok()); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((*chief)->Run({}, {}, {program.train}).ok());
  waits.join();
  EXPECT_EQ((*chief)->GlobalStep().value(), 4);
}

TEST(HooksTest, AWorkerThatWaitsForAStepEndsWhenItIsStopped) {
  TestProgram program, follower_program;
  auto chief = program.Start({});
  ASSERT_TRUE(chief.ok()) << chief.status();
  follower_program.target = program.target;
  auto follower = follower_program.Start(
      {.is_chief = false,
       .hooks = {GlobalStepWaiterHook({.wait_until_step = 3, .poll_interval = absl::Hours(1)})},
       .step_grace_period = absl::InfiniteDuration()});
  ASSERT_TRUE(follower.ok()) << follower.status();
  std::thread waits([&] { EXPECT_TRUE((*follower)->Run({}, {}, {follower_program.train}).ok()); });
  (*follower)->RequestStop();
  waits.join();
  EXPECT_TRUE((*follower)->should_stop());
  EXPECT_TRUE((*follower)->Close().ok());
}

class RecordingListener final : public CheckpointSaverListener {
 public:
  absl::Status Begin(GraphBuilder&) override { return Note("begin"); }
  absl::Status BeforeSave(Session&, int64_t step) override { return Note(absl::StrCat("before ", step)); }
  absl::StatusOr<bool> AfterSave(Session&, int64_t step) override {
    WEIR_RETURN_IF_ERROR(Note(absl::StrCat("after ", step)));
    return step == stop_at;
  }
  absl::Status End(Session&, int64_t step) override { return Note(absl::StrCat("end ", step)); }

  int64_t stop_at = -1;
  std::vector<std::string> calls;

 private:
  absl::Status Note(std::string call) {
    calls.push_back(std::move(call));
    return absl::OkStatus();
  }
};

TEST(HooksTest, ListenersHearOfEveryCheckpointAndMayStop) {
  const std::string directory = EmptyDirectory("listener");
  TestProgram program;
  auto listener = std::make_shared<RecordingListener>();
  listener->stop_at = 4;
  auto scaffold = std::make_shared<Scaffold>();
  TrainingSessionOptions options;
  options.scaffold = scaffold;
  options.chief_only_hooks = {CheckpointSaverHook(
      {.directory = directory, .every_steps = 2, .scaffold = scaffold, .listeners = {listener}})};
  auto session = program.Start(std::move(options));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  EXPECT_THAT(listener->calls, ElementsAre("begin", "before 0", "after 0", "before 2", "after 2", "before 4",
                                           "after 4", "end 4"));
  EXPECT_TRUE(PosixFileSystem().Exists(directory + "/graph.pbtxt"));
}

TEST(HooksTest, LoggingOnlyAtTheEndAndWithAFormatter) {
  TestProgram program;
  std::vector<std::string> lines;
  LoggingTensorOptions logging = {.tensors = {{"step", GlobalStep(program.g).value}},
                                  .interval = absl::ZeroDuration(),
                                  .sink = [&](const std::string& line) { lines.push_back(line); }};
  logging.formatter = [](absl::Span<const Tensor> values) {
    return absl::StrCat("at ", values[0].scalar<int64_t>());
  };
  EXPECT_THAT(Message(program.Start({.hooks = {LoggingTensorHook(logging)}}).status()),
              HasSubstr("at the end"));
  TestProgram second;
  logging.tensors = {{"step", GlobalStep(second.g).value}};
  logging.at_end = true;
  auto session = second.Start({.hooks = {LoggingTensorHook(logging), StopAtStepHook({.last_step = 3})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(second, **session).ok());
  EXPECT_THAT(lines, ElementsAre("at 3"));
}

TEST(HooksTest, SummariesHaveTagsBelowTheNameScope) {
  TestProgram program;
  {
    const auto scope = program.g.NameScope("tower");
    AddHistogramSummary(program.g, "weights", program.w.value);
  }
  EXPECT_THAT(program.g.graph().collections().at("summaries"), SizeIs(2));
  const Output merged = program.g.AddOp(
      "MergeSummary",
      {InputArg({program.g.graph().FindOutput(program.g.graph().collections().at("summaries")[0]).value(),
                 program.g.graph().FindOutput(program.g.graph().collections().at("summaries")[1]).value()})});
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_THAT((*session)->Run({}, {merged}).value()[0].scalar<std::string>(),
              AllOf(HasSubstr("loss"), HasSubstr("tower/weights")));
}

TEST(HooksTest, AProfilerWritesTimelines) {
  const std::string directory = EmptyDirectory("profiles");
  TestProgram program;
  auto session = program.Start({.hooks = {StopAtStepHook({.last_step = 7}),
                                          ProfilerHook({.directory = directory, .every_steps = 3})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  EXPECT_THAT(PosixFileSystem().ListDirectory(directory).value(),
              ElementsAre("timeline-3.json", "timeline-6.json"));
  const std::string json = ReadWholeFile(PosixFileSystem(), directory + "/timeline-3.json").value();
  EXPECT_THAT(json, AllOf(HasSubstr("traceEvents"), HasSubstr("device:CPU:0"),
                          HasSubstr("ResourceApplyGradientDescent"), HasSubstr("\"ph\":\"s\"")));
  EXPECT_THAT(Message(TestProgram().Start({.hooks = {ProfilerHook({.directory = directory})}}).status()),
              HasSubstr("every_steps"));
}

TEST(ChromeTraceTest, NamesAreQuotedAndTimesAreMicroseconds) {
  const StepStats stats = {{{"gpu", {{.node = "a\"b", .op = "Op\\", .begin_nanos = 1005, .end_nanos = 3000}}},
                            {"cpu",
                             {{.node = "c",
                               .op = "C",
                               .inputs = {"a\"b", "gone"},
                               .begin_nanos = 4000,
                               .end_nanos = 4000,
                               .thread = 2}}}}};
  const std::string json = ChromeTrace(stats);
  EXPECT_THAT(
      json,
      AllOf(HasSubstr(R"("name":"Op\\","pid":0,"tid":0,"ts":1.005,"dur":1.995)"),
            HasSubstr(R"("args":{"name":"a\"b")"), HasSubstr(R"("ts":4.000,"dur":0.000)"),
            HasSubstr(R"({"ph":"s","cat":"DataFlow","name":"tensor","id":1,"pid":0,"tid":0,"ts":3.000})"),
            HasSubstr(R"("id":1,"pid":1,"tid":2,"ts":4.000})")));
  EXPECT_THAT(ChromeTrace(stats, {.show_dataflow = false}), testing::Not(HasSubstr("DataFlow")));
}

TEST(ProgressLineTest, ShowsPartRateAndTimeLeft) {
  EXPECT_EQ(ProgressLine(520, 1000, 240, false), " 52%  step 520/1000  240.0 steps/s  ETA 2s");
  EXPECT_THAT(ProgressLine(1000, 1000, 0, true), AllOf(HasSubstr("[========================] 100%")));
  EXPECT_THAT(ProgressLine(0, 0, 0, true), HasSubstr("step 0/0"));
}

// The order of tf.train.MonitoredTrainingSession: hooks of the chief only, its own, those of the program.
TEST(HooksTest, TheProgramsHooksEndAfterTheLastSave) {
  const std::string directory = EmptyDirectory("end_order");
  TestProgram program;
  std::vector<std::string> calls;
  const auto hook = [&](const std::string& name) {
    auto made = std::make_shared<TestHook>();
    made->end = [&calls, &directory, name](Session&) {
      calls.push_back(name + " " + FileNameOf(CheckpointsIn(directory).value()[0]));
      return absl::OkStatus();
    };
    return made;
  };
  auto session = program.Start(
      {.checkpoint_dir = directory, .hooks = {hook("mine")}, .chief_only_hooks = {hook("the chief's")}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  ASSERT_TRUE((*session)->Close().ok());
  EXPECT_THAT(calls, ElementsAre("the chief's model.ckpt-0", "mine model.ckpt-1"));
}

TEST(HooksTest, AHookThatFailsAtTheEndKeepsNobodyFromEnding) {
  const std::string directory = EmptyDirectory("end_fails");
  TestProgram program;
  int num_ended = 0;
  const auto fails = [&](const std::string& message) {
    auto made = std::make_shared<TestHook>();
    made->end = [&num_ended, message](Session&) {
      ++num_ended;
      return absl::InternalError(message);
    };
    return made;
  };
  auto session = program.Start(
      {.checkpoint_dir = directory, .hooks = {fails("second")}, .chief_only_hooks = {fails("first")}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_EQ((*session)->Close(), absl::InternalError("first"));
  EXPECT_EQ(num_ended, 2);
  EXPECT_EQ(CheckpointsIn(directory).value()[0], directory + "/model.ckpt-1") << "the last step is saved";
  TestProgram next;
  EXPECT_TRUE(next.Start({.checkpoint_dir = directory}).ok()) << "the folder is free";
}

// A chief that is stopped before it removes what an earlier one has left, and replaced.
TEST(HooksTest, WhatALaterChiefWritesIsNoLeftover) {
  const std::string directory = EmptyDirectory("leftovers");
  TestProgram program;
  const std::shared_ptr<Saver> saver = Saver::Build(program.g).value();
  auto claim = CheckpointClaim::Take(PosixFileSystem(), directory, 5);
  ASSERT_TRUE(claim.ok()) << claim.status();
  ASSERT_TRUE(saver->SetClaim(*claim).ok());
  const std::string written = TemporaryPathFor(directory + "/model.ckpt-7.index");
  const auto replaced = std::make_shared<TestHook>();
  replaced->after_create_session = [&](Session&, Coordinator&) {
    const absl::Status later = CheckpointClaim::Take(PosixFileSystem(), directory, 6).status();
    return later.ok() ? WriteFileAtomically(PosixFileSystem(), written, "half") : later;
  };
  auto session =
      program.Start({.hooks = {replaced, CheckpointSaverHook({.directory = directory, .saver = saver})}});
  EXPECT_TRUE(IsSuperseded(session.status())) << session.status();
  EXPECT_TRUE(PosixFileSystem().Exists(written));
}

}  // namespace
}  // namespace weir
