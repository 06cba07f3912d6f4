// The save at the end of training, which has no later one, where the disk or a stop is in its way.
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/training/sync_replicas.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/held_disk.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_hook.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

constexpr absl::Duration kLongerThanThreadsStay = absl::Milliseconds(200);

// Has made one step, on a disk that takes nothing any more.
class LastSaveTest : public testing::Test {
 protected:
  LastSaveTest() {
    auto scaffold = std::make_shared<Scaffold>();
    scaffold->saver_options.file_system = &disk_;
    session_ = program_
                   .Start({.checkpoint_dir = directory_,
                           .hooks = {hook_},
                           .scaffold = std::move(scaffold),
                           .step_grace_period = absl::Milliseconds(1)})
                   .value();
    EXPECT_TRUE(session_->Run({}, {}, {program_.train}).ok());
    disk_.Release(absl::ResourceExhaustedError("no space is left"));
  }

  // The disk has room again a while after Close has begun.
  void ExpectTheLastStepIsSaved() {
    absl::SleepFor(kLongerThanThreadsStay);
    std::thread cleaner([this] {
      absl::SleepFor(absl::Milliseconds(300));
      disk_.Release();
    });
    const absl::Status closed = session_->Close();
    cleaner.join();
    EXPECT_TRUE(closed.ok()) << closed;
    EXPECT_EQ(CheckpointsIn(directory_).value().front(), directory_ + "/model.ckpt-1");
  }

  const std::string directory_ = EmptyDirectory("last_save");
  HeldDisk disk_;
  TestProgram program_;
  std::shared_ptr<TestHook> hook_ = std::make_shared<TestHook>();
  std::unique_ptr<MonitoredSession> session_;
};

TEST_F(LastSaveTest, IsTriedAgainAfterTheEndOfTheInput) {
  hook_->before_run = [](RunContext&) -> absl::StatusOr<RunArgs> {
    return absl::OutOfRangeError("the input has come to its end");
  };
  EXPECT_TRUE(absl::IsOutOfRange(session_->Run({}, {}, {program_.train}).status()));
  ExpectTheLastStepIsSaved();
}

TEST_F(LastSaveTest, IsTriedAgainAfterTheEndOfTheInputWhenTheProgramStopsToo) {
  hook_->before_run = [](RunContext&) -> absl::StatusOr<RunArgs> {
    return absl::OutOfRangeError("the input has come to its end");
  };
  EXPECT_TRUE(absl::IsOutOfRange(session_->Run({}, {}, {program_.train}).status()));
  session_->RequestStop();
  ExpectTheLastStepIsSaved();
}

TEST_F(LastSaveTest, IsTriedAgainAfterAStop) {
  session_->RequestStop();
  ExpectTheLastStepIsSaved();
}

// Not even when the input has come to its end more than once.
TEST_F(LastSaveTest, IsTriedAgainAfterTwoEndsOfTheInput) {
  hook_->before_run = [](RunContext&) -> absl::StatusOr<RunArgs> {
    return absl::OutOfRangeError("the input has come to its end");
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::IsOutOfRange(session_->Run({}, {}, {program_.train}).status()));
  }
  ExpectTheLastStepIsSaved();
}

TEST_F(LastSaveTest, IsGivenUpWhenAStopIsRequestedMeanwhile) {
  session_->RequestStop();
  std::thread impatient([this] {
    absl::SleepFor(absl::Milliseconds(300));
    session_->RequestStop();
  });
  const absl::Status closed = session_->Close();
  impatient.join();
  EXPECT_TRUE(absl::IsResourceExhausted(closed)) << closed;
}

// As files have it (kernels/formats/posix_file_system.cc), whose room knows no exit codes.
TEST(ExitCodeTest, APassingErrorOfAFileMayBeMendedByANewStart) {
  absl::Status stale = absl::InternalError("cannot read f: Stale file handle");
  stale.SetPayload("exit code", absl::Cord("160"));
  EXPECT_EQ(ExitCodeFor(stale), kExitRetryable);
  EXPECT_FALSE(IsRecoverable(stale));
}

// Of synchronous replicas: the one that took its place has to finish the update that its save waits for.
TEST(PausedUpdatesTest, AChiefThatWasReplacedDoesNotWaitForTheEndOfAnUpdate) {
  TestProgram program;
  const Output unset = program.g.AddOp("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape()}});
  Node* const pause = program.g.AddNode("ReadVariableOp", {unset}, {{"dtype", DType::kFloat32}});
  Node* const resume = program.g.AddNode("NoOp", {});
  program.g.graph().collections()[kPausesUpdatesCollection] = {pause->name(), resume->name()};
  auto hook = std::make_shared<TestHook>();
  hook->after_create_session = [&](Session&, Coordinator& threads) {
    hook->before_run = [threads](RunContext&) mutable {
      threads.RequestStop(SupersededError("another process is the chief", "chief:0 1"));
      return RunArgs();
    };
    return absl::OkStatus();
  };
  auto session = program.Start(
      {.checkpoint_dir = EmptyDirectory("paused"), .hooks = {hook}, .save_checkpoint_steps = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Time begin = absl::Now();
  const absl::Status status = (*session)->Run({}, {}, {program.train}).status();
  EXPECT_TRUE(IsSuperseded(status)) << status;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30)) << "it waits for a minute where somebody might finish it";
}

}  // namespace
}  // namespace weir
