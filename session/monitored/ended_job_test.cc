#include "session/monitored/ended_job.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/memory_files.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kLife = 0xac;

// A chief of that life that has trained to step 3 in good order.
void TrainToTheEnd(const std::string& directory, std::shared_ptr<Scaffold> scaffold = nullptr) {
  TestProgram chief;
  chief.target.life = [] { return kLife; };
  auto session = chief.Start({.checkpoint_dir = directory,
                              .hooks = {StopAtStepHook({.last_step = 3})},
                              .save_checkpoint_steps = 2,
                              .scaffold = std::move(scaffold)});
  EXPECT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(TrainUntilStop(chief, **session).ok());
  EXPECT_TRUE((*session)->Close().ok());
}

std::string FolderOfAnEndedJob(std::shared_ptr<Scaffold> scaffold = nullptr) {
  const std::string directory = EmptyDirectory("ended");
  TrainToTheEnd(directory, std::move(scaffold));
  return directory;
}

// Of a worker that wants that many steps.
EndedJobOptions WorkerOf(const std::string& directory, uint64_t met_chief, int64_t last_step = 3) {
  return {.directory = directory,
          .is_at_end = [last_step](int64_t step) { return step >= last_step; },
          .met_chief = [met_chief] { return met_chief; },
          .patience = absl::InfiniteDuration()};
}

TEST(EndedJobTest, WhoHasMetTheChiefKnowsAtOnce) {
  const std::string directory = FolderOfAnEndedJob();
  EXPECT_THAT(EndedJob(WorkerOf(directory, kLife)).WhyOver(), HasSubstr("model.ckpt-3 is of the last step"));
  EXPECT_THAT(EndedJob(WorkerOf(directory, kLife - 1)).WhyOver(), HasSubstr("of this job has ended"));
  EXPECT_THAT(EndedJob(WorkerOf(directory, kLife + 1)).WhyOver(), IsEmpty()) << "a later chief";
  EXPECT_THAT(EndedJob(WorkerOf(directory, kLife, 4)).WhyOver(), IsEmpty()) << "there are steps to do";
  EXPECT_THAT(EndedJob(WorkerOf("", kLife)).WhyOver(), IsEmpty());
  EXPECT_THAT(EndedJob(WorkerOf(directory + "/none", kLife)).WhyOver(), IsEmpty());
}

// What lists the folder reads the checkpoints, too.
TEST(EndedJobTest, TheFolderMayBeInAnotherFileSystem) {
  const std::string directory = FolderOfAnEndedJob(), elsewhere = "/in/memory/alone";
  MemoryFiles files;
  const std::vector<std::string> names = PosixFileSystem().ListDirectory(directory).value();
  for (const std::string& name : names) {
    const auto content = ReadWholeFile(PosixFileSystem(), JoinPath(directory, name));
    if (content.ok()) files.Put(JoinPath(elsewhere, name), *content);  // no folder
  }
  const auto is_at_end = [](int64_t step) { return step >= 3; };
  EXPECT_EQ(CheckpointAtEnd(elsewhere, files, "checkpoint", is_at_end), elsewhere + "/model.ckpt-3");
  EXPECT_EQ(CheckpointAtEnd(elsewhere, files, "checkpoint", [](int64_t step) { return step >= 4; }), "");
  EndedJobOptions options = WorkerOf(elsewhere, kLife);
  options.files = &files;
  EXPECT_THAT(EndedJob(options).WhyOver(), HasSubstr("model.ckpt-3 is of the last step"));
}

TEST(EndedJobTest, OthersWaitForAChiefForAWhile) {
  const std::string directory = FolderOfAnEndedJob();
  EndedJobOptions options = WorkerOf(directory, 0);
  EXPECT_THAT(EndedJob(options).WhyOver(), IsEmpty());
  options.patience = absl::ZeroDuration();
  EXPECT_THAT(EndedJob(options).WhyOver(), HasSubstr("none has come for"));
  options.met_chief = nullptr;
  EXPECT_THAT(EndedJob(options).WhyOver(), HasSubstr("none has come for"));
}

// It prepares data before it takes the folder, and empties that.
TEST(EndedJobTest, AChiefThatIsThereOrLaterIsWaitedFor) {
  const std::string directory = FolderOfAnEndedJob();
  for (const uint64_t met : {kLife + 1, SessionTarget::kChiefIsThere}) {
    EndedJobOptions options = WorkerOf(directory, met);
    options.patience = absl::ZeroDuration();
    EXPECT_THAT(EndedJob(options).WhyOver(), IsEmpty());
  }
}

TEST(EndedJobTest, AChiefThatTakesTheFolderIsWaitedFor) {
  const std::string directory = FolderOfAnEndedJob();
  EndedJobOptions options = WorkerOf(directory, kLife);
  options.patience = absl::ZeroDuration();
  EndedJob job(options);
  EXPECT_THAT(job.WhyOver(), HasSubstr("is of the last step"));
  const auto claim = CheckpointClaim::Take(PosixFileSystem(), directory, kLife + 1);
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_THAT(job.WhyOver(), IsEmpty());
}

// Without it the worker would wait for two hours.
TEST(EndedJobTest, ASessionOfSuchAWorkerIsOver) {
  const std::string directory = FolderOfAnEndedJob();
  TestProgram worker;
  worker.target.met_chief = [] { return kLife; };
  const auto session = worker.Start({.is_chief = false,
                                     .checkpoint_dir = directory,
                                     .hooks = {StopAtStepHook({.last_step = 3})},
                                     .max_wait = absl::Seconds(20)});
  EXPECT_EQ(ExitCodeFor(session.status()), kExitDone) << session.status();
  EXPECT_THAT(Message(session.status()), HasSubstr("training is over"));
}

// The session asks its hooks whether a step is the last, and tells them whom to ask about the chief.
TEST(EndedJobTest, NoHookKeepsItself) {
  class KeepsTarget final : public Hook {
   public:
    absl::string_view name() const override { return "KeepsTarget"; }
    void SetTarget(const SessionTarget& target) override { target_ = target; }
    bool has_target() const { return !target_.workers.empty(); }

   private:
    SessionTarget target_;
  };
  auto hook = std::make_shared<KeepsTarget>();
  const std::weak_ptr<KeepsTarget> kept = hook;
  {
    TestProgram worker;
    worker.target.chief_is_done = [] { return true; };
    const auto session = worker.Start(
        {.is_chief = false, .checkpoint_dir = EmptyDirectory("keeps"), .hooks = {std::move(hook)}});
    EXPECT_EQ(ExitCodeFor(session.status()), kExitDone) << session.status();
    const std::shared_ptr<KeepsTarget> still_there = kept.lock();
    if (still_there != nullptr) EXPECT_TRUE(still_there->has_target());
  }
  EXPECT_TRUE(kept.expired());
}

// It waits for a chief that is there, and the last checkpoint comes meanwhile.
TEST(EndedJobTest, ASessionIsOverWhenTheOthersEndWhileItWaits) {
  for (const bool others_end : {false, true}) {
    const std::string directory = EmptyDirectory("ends_later");
    TestProgram worker;
    worker.target.met_chief = [] { return SessionTarget::kChiefIsThere; };
    bool has_begun = false;
    worker.target.chief_is_done = [&] {
      if (!std::exchange(has_begun, true) && others_end) TrainToTheEnd(directory);
      return false;
    };
    const auto session = worker.Start({.is_chief = false,
                                       .checkpoint_dir = directory,
                                       .hooks = {StopAtStepHook({.last_step = 3})},
                                       .max_wait = absl::Seconds(1)});
    EXPECT_TRUE(has_begun);
    EXPECT_EQ(ExitCodeFor(session.status()) == kExitDone, others_end) << session.status();
    if (others_end) EXPECT_THAT(Message(session.status()), HasSubstr("training is over"));
  }
}

// Where its saver calls that file otherwise, the worker asks for it by that name.
TEST(EndedJobTest, ASessionReadsWhatItsSaverCallsTheNewest) {
  const SaverOptions options = {.latest_filename = "mine"};
  const auto scaffold = std::make_shared<Scaffold>();
  scaffold->saver_options = options;
  const std::string directory = FolderOfAnEndedJob(scaffold);
  for (const bool has_saver : {false, true}) {
    TestProgram worker;
    worker.target.met_chief = [] { return kLife; };
    const auto own = std::make_shared<Scaffold>();
    if (has_saver) {
      own->saver = Saver::Build(worker.g, options).value();
    } else {
      own->saver_options = options;
    }
    const auto session = worker.Start({.is_chief = false,
                                       .checkpoint_dir = directory,
                                       .hooks = {StopAtStepHook({.last_step = 3})},
                                       .scaffold = own,
                                       .max_wait = absl::Seconds(3)});
    EXPECT_EQ(ExitCodeFor(session.status()), kExitDone) << session.status();
    EXPECT_THAT(Message(session.status()), HasSubstr("training is over"));
  }
}

}  // namespace
}  // namespace weir
