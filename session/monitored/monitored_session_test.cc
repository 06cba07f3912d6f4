#include "session/monitored/monitored_session.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/full_disk.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/runtime.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string EmptyDirectory(const std::string& name) {
  static int count = 0;
  const std::string path = absl::StrCat(testing::TempDir(), "/", name, "_", ::getpid(), "_", count++);
  EXPECT_TRUE(PosixFileSystem().CreateDirectories(path).ok());
  return path;
}

void FlipByte(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.is_open()) << path;
  file.seekg(offset);
  const char byte = static_cast<char>(file.get());
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 0x10));
}

// A process that trains w towards 3 by gradient descent: loss (w - 3)^2. Making a second one is restarting
// the program.
class Program {
 public:
  Program() : runtime(Runtime::Create().value()), worker(*runtime, runtime->task()), g(StandardOps()) {
    target = {.workers = {&worker}, .default_task = runtime->task(), .kernels = &runtime->kernels()};
    w = MakeVariable(g, "w", Tensor::Scalar(0.0f));
    step_scale = PlaceholderWithDefault(g, Const(g, 1.0f), Shape());
    loss = Square(g, Sub(g, Mul(g, w.value, step_scale), Const(g, 3.0f)));
    g.graph().collections()["summaries"].push_back(ScalarSummary(g, Const(g, "loss"), loss).name());
    train = GradientDescent(0.1).Minimize(g, loss, GlobalStep(g)).value();
  }

  absl::StatusOr<std::unique_ptr<MonitoredSession>> Start(MonitoredSessionOptions options) {
    options.target = target;
    return MonitoredTrainingSession(g, std::move(options));
  }

  std::unique_ptr<Runtime> runtime;
  LocalWorker worker;
  GraphBuilder g;
  SessionTarget target;
  ModelVariable w;
  Output step_scale;
  Output loss;
  Node* train = nullptr;
};

absl::Status TrainUntilStop(Program& program, MonitoredSession& session) {
  while (!session.should_stop()) {
    if (absl::Status status = session.Run({}, {}, {program.train}).status(); !status.ok()) return status;
  }
  return session.Close();
}

TEST(MonitoredSessionTest, StopsAtItsStepAndGoesOnFromTheCheckpoint) {
  const std::string directory = EmptyDirectory("resume");
  float after_first = 0;
  {
    Program program;
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
  Program restarted;
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
    Program program;
    auto session = program.Start({.checkpoint_dir = directory,
                                  .hooks = {StopAtStepHook({.last_step = 6})},
                                  .save_checkpoint_steps = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  }
  ASSERT_THAT(CheckpointsIn(directory).value(), SizeIs(4));
  FlipByte(directory + "/model.ckpt-6.data-00000-of-00001", 1);
  {
    Program program;
    auto session =
        program.Start({.checkpoint_dir = directory, .save_checkpoint_interval = absl::ZeroDuration()});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->GlobalStep().value(), 4);
  }
  // All damaged: an error that names them, and no silent new beginning.
  for (int step : {0, 2, 4}) FlipByte(absl::StrCat(directory, "/model.ckpt-", step, ".index"), 3);
  Program program;
  auto session = program.Start({.checkpoint_dir = directory});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kDataLoss) << session.status();
  EXPECT_THAT(Message(session.status()), HasSubstr(directory));
  EXPECT_EQ(ExitCodeFor(session.status()), kExitBadData);
}

TEST(MonitoredSessionTest, KeepsOnlyTheNewestCheckpoints) {
  const std::string directory = EmptyDirectory("keep");
  Program program;
  MonitoredSessionOptions options = {
      .checkpoint_dir = directory, .hooks = {StopAtStepHook({.last_step = 9})}, .save_checkpoint_steps = 1};
  options.scaffold.saver_options.max_to_keep = 3;
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

// Names of the files of checkpoints in the folder, without those that belong to one of `among`.
std::vector<std::string> FilesOfOthers(const std::string& directory, const std::vector<std::string>& among) {
  std::vector<std::string> others;
  const std::vector<std::string> names = PosixFileSystem().ListDirectory(directory).value();
  for (const std::string& name : names) {
    const bool is_known = std::any_of(among.begin(), among.end(), [&](const std::string& checkpoint) {
      return absl::StartsWith(directory + "/" + name, checkpoint + ".");
    });
    if (!is_known && name != "checkpoint") others.push_back(name);
  }
  return others;
}

TEST(SaverTest, OldCheckpointsStayUntilTheNewOneIsNamed) {
  const std::string directory = EmptyDirectory("named");
  const std::string prefix = directory + "/m";
  Program program;
  FullDisk disk(int64_t{1} << 40);
  auto saver = Saver::Build(program.g, {.max_to_keep = 1, .write_meta_graph = false, .file_system = &disk});
  ASSERT_TRUE(saver.ok()) << saver.status();
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  Session& steps = (*session)->session();
  ASSERT_TRUE((*saver)->Save(steps, prefix, 1).ok());
  disk.FailNextRename();
  EXPECT_EQ((*saver)->Save(steps, prefix, 2).status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-1"));
  EXPECT_TRUE((*saver)->Restore(steps, prefix + "-1").ok());
  // The one that was never named is deleted in its turn, and so is its elder.
  ASSERT_TRUE((*saver)->Save(steps, prefix, 3).ok());
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-3"));
  EXPECT_THAT(FilesOfOthers(directory, {prefix + "-3"}), ElementsAre());
}

TEST(SaverTest, ARestartedProgramDeletesTheOldestOfItsPredecessor) {
  const std::string directory = EmptyDirectory("restarted");
  const std::string prefix = directory + "/m";
  for (const std::vector<int>& steps_of_program : {std::vector<int>{1, 2, 3}, std::vector<int>{4, 5}}) {
    Program program;
    auto saver = Saver::Build(program.g, {.max_to_keep = 3});
    ASSERT_TRUE(saver.ok()) << saver.status();
    auto session = program.Start({});
    ASSERT_TRUE(session.ok()) << session.status();
    for (int step : steps_of_program) {
      ASSERT_TRUE((*saver)->Save((*session)->session(), prefix, step).ok());
    }
  }
  const CheckpointState state = ReadCheckpointState(directory).value();
  EXPECT_EQ(state.newest, prefix + "-5");
  EXPECT_THAT(state.all, ElementsAre(prefix + "-3", prefix + "-4", prefix + "-5"));
  EXPECT_THAT(FilesOfOthers(directory, state.all), ElementsAre());
  for (const std::string& checkpoint : state.all) {
    EXPECT_TRUE(BundleReader::Open(checkpoint).ok()) << checkpoint;
    EXPECT_TRUE(PosixFileSystem().Exists(checkpoint + ".meta")) << checkpoint;
  }
}

TEST(SaverTest, ASaveUnderAnOldNameIsDeletedWhollyToo) {
  const std::string directory = EmptyDirectory("again");
  const std::string prefix = directory + "/m";
  Program program;
  auto saver = Saver::Build(program.g, {.max_to_keep = 1, .write_meta_graph = false});
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int step : {1, 1, 2}) ASSERT_TRUE((*saver)->Save((*session)->session(), prefix, step).ok());
  EXPECT_THAT(FilesOfOthers(directory, {prefix + "-2"}), ElementsAre());
}

TEST(MonitoredSessionTest, AModelThatDoesNotFitItsCheckpointIsRefused) {
  const std::string directory = EmptyDirectory("misfit");
  {
    Program program;
    auto session = program.Start({.checkpoint_dir = directory, .hooks = {StopAtStepHook({.last_step = 1})}});
    ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  }
  Program larger;
  MakeVariable(larger.g, "another", Tensor::Scalar(0.0f));
  auto session = larger.Start({.checkpoint_dir = directory});
  EXPECT_FALSE(session.ok());
  EXPECT_THAT(Message(session.status()), AllOf(HasSubstr("another"), HasSubstr("model.ckpt-1")));
}

TEST(MonitoredSessionTest, DivergenceEndsWithItsOwnExitCode) {
  Program program;
  auto session = program.Start({.hooks = {NanTensorHook({.tensor = program.loss})}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  const Tensor nan = Tensor::Scalar(std::nanf(""));
  const absl::Status status = (*session)->Run({{program.step_scale, nan}}, {}, {program.train}).status();
  EXPECT_EQ(ExitCodeFor(status), kExitDiverged) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr(program.loss.name()), HasSubstr("nan")));
  EXPECT_EQ((*session)->Run({}, {}, {program.train}).status(), status) << "a failed session stays failed";
  EXPECT_EQ((*session)->Close(), status);
}

TEST(MonitoredSessionTest, AWorkerGivesUpOnAChiefThatNeverComes) {
  Program program;
  auto session = program.Start({.is_chief = false, .recovery_timeout = absl::Milliseconds(300)});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(session.status()), AllOf(HasSubstr("w"), HasSubstr("chief")));
}

TEST(MonitoredSessionTest, AWorkerWaitsForItsChief) {
  Program program;
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

// Fails one step as a lost peer does, and counts sessions.
class LosesAPeer final : public Worker {
 public:
  LosesAPeer(LocalWorker& worker, Device& device) : worker_(worker), device_(device) {}
  const DeviceName& task() const override { return worker_.task(); }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) override {
    ++num_sessions;
    return worker_.ListDevices(deadline);
  }
  absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) override {
    return worker_.RegisterPartition(std::move(spec), deadline);
  }
  void RunPartition(const RunPartitionCall& call, Done done) override {
    if (!std::exchange(lose_next, false)) return worker_.RunPartition(call, std::move(done));
    if (lose_variables) device_.resources().ResetContainers({});
    done(absl::UnavailableError("the connection was lost"));
  }
  void CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) override {
    worker_.CancelStep(plan, step_id, reason);
  }
  void DeregisterPartition(PlanId plan) override { worker_.DeregisterPartition(plan); }
  void EndSession(SessionId session) override { worker_.EndSession(session); }
  absl::Status ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) override {
    return worker_.ResetContainers(containers, deadline);
  }

  bool lose_next = false;
  bool lose_variables = false;
  int num_sessions = 0;

 private:
  LocalWorker& worker_;
  Device& device_;
};

TEST(MonitoredSessionTest, ALostPeerCostsNothingAndLostVariablesComeFromTheCheckpoint) {
  const std::string directory = EmptyDirectory("recover");
  Program program;
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
  EXPECT_EQ((*session)->GlobalStep().value(), 5)
      << "restored at 4, where the second session began, and one more";
}

// Loses a peer in its AfterRun, once.
class LosesAPeerAfterTheStep final : public Hook {
 public:
  absl::Status AfterRun(RunContext&) override {
    return std::exchange(lost_, true) ? absl::OkStatus() : absl::UnavailableError("lost under a hook");
  }

 private:
  bool lost_ = false;
};

TEST(MonitoredSessionTest, AStepIsNotRunAgainWhenAPeerIsLostUnderAHook) {
  Program program;
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

TEST(HooksTest, LoggingPrintsNamesAndValues) {
  Program program;
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

TEST(HooksTest, MistakesAreNamedBeforeTheFirstStep) {
  Program program;
  EXPECT_THAT(Message(program.Start({.hooks = {StopAtStepHook({})}}).status()),
              HasSubstr("last_step or num_steps"));
  Program second;
  EXPECT_THAT(
      Message(second.Start({.hooks = {NanTensorHook({.tensor = GlobalStep(second.g).value})}}).status()),
      AllOf(HasSubstr("NanTensorHook"), HasSubstr("int64")));
  GraphBuilder g(StandardOps());
  EXPECT_THAT(Message(MonitoredTrainingSession(g, {}).status()), HasSubstr("target"));
}

TEST(ProgressLineTest, ShowsPartRateAndTimeLeft) {
  EXPECT_EQ(ProgressLine(520, 1000, 240, false), " 52%  step 520/1000  240.0 steps/s  ETA 2s");
  EXPECT_THAT(ProgressLine(1000, 1000, 0, true), AllOf(HasSubstr("[========================] 100%")));
  EXPECT_THAT(ProgressLine(0, 0, 0, true), HasSubstr("step 0/0"));
}

}  // namespace
}  // namespace weir
