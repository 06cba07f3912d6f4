#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/no_more_threads.h"
#include "session/monitored/held_disk.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

float SavedW(const std::string& checkpoint) {
  return BundleReader::Open(checkpoint).value()->Read("w").value().scalar<float>();
}

TEST(AsynchronousSavingTest, TrainingGoesOnAndTheValuesAreThoseOfTheStep) {
  const std::string directory = EmptyDirectory("meanwhile"), prefix = directory + "/m";
  TestProgram program;
  HeldDisk disk;
  auto saver = Saver::Build(program.g, {.file_system = &disk}).value();
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  Session& steps = (*session)->session();
  ASSERT_TRUE(steps.Run({}, {}, {program.train}).ok());
  const float before = steps.Run({}, {program.w.value}).value()[0].scalar<float>();
  disk.Hold();
  ASSERT_EQ(saver->StartSave(steps, prefix, 1).value(), prefix + "-1");
  EXPECT_TRUE(saver->is_saving());
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(steps.Run({}, {}, {program.train}).ok());
  EXPECT_NE(steps.Run({}, {program.w.value}).value()[0].scalar<float>(), before);
  EXPECT_THAT(CheckpointsIn(directory).value(), IsEmpty()) << "it is not there yet";
  disk.Release();
  ASSERT_TRUE(saver->AwaitSave().ok());
  EXPECT_FALSE(saver->is_saving());
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-1"));
  EXPECT_EQ(SavedW(prefix + "-1"), before);
  EXPECT_TRUE(PosixFileSystem().Exists(prefix + "-1.meta"));
  ASSERT_TRUE(saver->Restore(steps, prefix + "-1").ok());
  EXPECT_EQ(steps.Run({}, {program.w.value}).value()[0].scalar<float>(), before);
}

TEST(AsynchronousSavingTest, ASystemWithoutThreadsIsAnErrorAndTheNextSaveAnother) {
  const std::string directory = EmptyDirectory("no_threads"), prefix = directory + "/m";
  TestProgram program;
  auto saver = Saver::Build(program.g).value();
  auto session = program.Start({});
  Session& steps = (*session)->session();
  {
    const NoMoreThreads no_more;
    const absl::Status failed = saver->StartSave(steps, prefix, 1).status();
    EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(Message(failed), HasSubstr(prefix + "-1 asynchronously: the system gives"));
    EXPECT_FALSE(saver->is_saving());
  }
  ASSERT_TRUE(saver->StartSave(steps, prefix, 2).ok());
  ASSERT_TRUE(saver->AwaitSave().ok());
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-2"));
}

TEST(AsynchronousSavingTest, AnErrorIsThatOfTheNextCallOnce) {
  const std::string directory = EmptyDirectory("error"), prefix = directory + "/m";
  TestProgram program;
  HeldDisk disk;
  auto saver = Saver::Build(program.g, {.file_system = &disk}).value();
  auto session = program.Start({});
  Session& steps = (*session)->session();
  ASSERT_TRUE(saver->Save(steps, prefix, 1).ok());
  disk.Hold();
  ASSERT_TRUE(saver->StartSave(steps, prefix, 2).ok());
  disk.Release(absl::ResourceExhaustedError("the disk is full"));
  const absl::Status failed = saver->StartSave(steps, prefix, 3).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(failed), HasSubstr("full"));
  disk.Release();
  ASSERT_TRUE(saver->StartSave(steps, prefix, 4).ok());
  // Whoever reads waits for what is being written.
  EXPECT_EQ(saver->RestoreNewest(steps, directory).value(), prefix + "-4");
  EXPECT_THAT(saver->LastCheckpoints(), ElementsAre(prefix + "-1", prefix + "-4"));
}

TEST(AsynchronousSavingTest, AtMostOneAtATime) {
  const std::string directory = EmptyDirectory("one"), prefix = directory + "/m";
  TestProgram program;
  auto saver = Saver::Build(program.g, {.max_to_keep = 2}).value();
  auto session = program.Start({});
  for (int step = 1; step <= 20; ++step) {
    ASSERT_TRUE((*session)->session().Run({}, {}, {program.train}).ok());
    const auto started = saver->StartSave((*session)->session(), prefix, step);
    ASSERT_TRUE(started.ok()) << started.status();
  }
  saver = nullptr;  // waits
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-20", prefix + "-19"));
  EXPECT_FALSE(PosixFileSystem().Exists(prefix + "-18.index"));
}

class StepsOfCheckpoints final : public CheckpointSaverListener {
 public:
  absl::StatusOr<bool> AfterSave(Session&, int64_t step) override {
    steps.push_back(step);
    return false;
  }
  std::vector<int64_t> steps;
};

TEST(AsynchronousSavingTest, TheHookSavesWhileTrainingGoesOnAndEndsWithTheLast) {
  const std::string directory = EmptyDirectory("hook");
  auto listener = std::make_shared<StepsOfCheckpoints>();
  TestProgram program;
  auto session = program.Start({.checkpoint_dir = directory,
                                .hooks = {StopAtStepHook({.last_step = 7})},
                                .save_checkpoint_steps = 2,
                                .save_checkpoints_asynchronously = true,
                                .checkpoint_listeners = {listener}});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  EXPECT_THAT(listener->steps, ElementsAre(0, 2, 4, 6, 7));
  EXPECT_EQ(CheckpointsIn(directory).value().front(), directory + "/model.ckpt-7");
}

class LosesAPeerOnce final : public Hook {
 public:
  absl::string_view name() const override { return "LosesAPeerOnce"; }
  absl::Status AfterRun(RunContext&, const RunValues&) override {
    return std::exchange(lost_, true) ? absl::OkStatus() : absl::UnavailableError("lost under a hook");
  }

 private:
  bool lost_ = false;
};

TEST(AsynchronousSavingTest, AFullDiskDoesNotEndARecovery) {
  const std::string directory = EmptyDirectory("recovery");
  HeldDisk disk;
  TestProgram program;
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->saver_options.file_system = &disk;
  auto session =
      program.Start({.checkpoint_dir = directory,
                     .hooks = {std::make_shared<LosesAPeerOnce>(), StopAtStepHook({.last_step = 5})},
                     .scaffold = scaffold});
  ASSERT_TRUE(session.ok()) << session.status();
  disk.Release(absl::ResourceExhaustedError("the disk is full"));
  const absl::Status trained = (*session)->Run({}, {}, {program.train}).status();
  EXPECT_TRUE(trained.ok()) << trained;
  disk.Release();
  const absl::Status status = TrainUntilStop(program, **session);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(CheckpointsIn(directory).value().front(), directory + "/model.ckpt-5");
}

TEST(AsynchronousSavingTest, TheHookReportsAFailureAndTriesAgain) {
  const std::string directory = EmptyDirectory("tries");
  auto listener = std::make_shared<StepsOfCheckpoints>();
  HeldDisk disk;
  TestProgram program;
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->saver_options.file_system = &disk;
  auto session = program.Start({.checkpoint_dir = directory,
                                .hooks = {StopAtStepHook({.last_step = 7})},
                                .save_checkpoint_steps = 2,
                                .save_checkpoints_asynchronously = true,
                                .checkpoint_listeners = {listener},
                                .scaffold = scaffold});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto train = [&](int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  };
  disk.Release(absl::ResourceExhaustedError("the disk is full"));
  train(4);  // the save of step 2 has failed when that of step 4 is due
  EXPECT_THAT(listener->steps, ElementsAre(0));
  disk.Release();
  const absl::Status status = TrainUntilStop(program, **session);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(listener->steps.back(), 7);
}

}  // namespace
}  // namespace weir
