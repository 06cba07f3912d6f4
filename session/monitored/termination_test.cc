#include "session/monitored/termination.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/held_disk.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_program.h"
#include "session/monitored/training_session.h"

extern char** environ;

namespace weir {
namespace {

// What the program under test does: this binary, started with the name of one.
constexpr char kTrain[] = "train";            // trains until it is stopped
constexpr char kIgnoreOption[] = "opt_out";   // the same with stops_on_sigterm = false
constexpr char kHangs[] = "hang";             // does not come to an end once SIGTERM has come
constexpr char kTwice[] = "train_twice";      // begins a second session after the first was stopped
constexpr char kHangsLater[] = "hang_later";  // the same, and the second does not come to an end

constexpr char kWaits[] = "wait_for_input";  // its third step waits for input that never comes
constexpr char kReturns[] = "return_error";  // the same, and it takes the end of that step for an error
// A peer is lost in its tenth step, after SIGTERM; its own variables are whole then, or have a part of that
// step.
constexpr char kLoses[] = "lose";
constexpr char kLosesTorn[] = "lose_torn";
constexpr char kFullDisk[] = "full_disk";  // nothing can be saved once it trains
constexpr char kFailingDisk[] = "failing_disk";
constexpr char kEndsOnAFullDisk[] = "ends_on_a_full_disk";  // after the step at which it says that it trains
constexpr char kLastStepOnAFullDisk[] = "last_step_on_a_full_disk";  // gets the signal in that step

void SayReady() { ASSERT_EQ(write(STDOUT_FILENO, "r", 1), 1); }

class SaysWhenItTrains final : public Hook {
 public:
  absl::Status AfterRun(RunContext&, const RunValues&) override {
    if (++num_steps_ == 10) SayReady();
    return absl::OkStatus();
  }

 private:
  int num_steps_ = 0;
};

// Signals its own process in the tenth step, and sees to it that it arrives before the step ends.
class SignalsItself final : public Hook {
 public:
  absl::Status AfterRun(RunContext&, const RunValues&) override {
    if (++num_steps_ != 10) return absl::OkStatus();
    EXPECT_EQ(kill(getpid(), SIGTERM), 0);
    while (!Termination::IsRequested()) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(100));  // the session is told on another thread
    return absl::OkStatus();
  }

 private:
  int num_steps_ = 0;
};

// Waits for ever when it is asked to stop.
class Hangs final : public Hook {
 public:
  absl::Status End(Session&) override {
    SayReady();
    while (true) absl::SleepFor(absl::Seconds(1));
  }
};

// A replica's, as distributed/broadcast_variables.h has one.
class LosesAPeer final : public Hook {
 public:
  explicit LosesAPeer(bool are_whole) : are_whole_(are_whole) {}

  bool OwnsVariables() const override { return true; }
  bool AreVariablesWhole() const override { return are_whole_; }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    if (++num_steps_ < 10) return RunArgs();
    if (num_steps_ == 10) {
      SayReady();
      while (!Termination::IsRequested()) absl::SleepFor(absl::Milliseconds(1));
    }
    return absl::UnavailableError("a peer is lost");
  }

 private:
  const bool are_whole_;
  int num_steps_ = 0;
};

class SaysThatTheThirdStepBegins final : public Hook {
 public:
  explicit SaysThatTheThirdStepBegins(int* num_ends) : num_ends_(num_ends) {}

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    if (++num_steps_ == 3) SayReady();
    return RunArgs();
  }
  absl::Status End(Session&) override {
    ++*num_ends_;
    return absl::OkStatus();
  }

 private:
  int* const num_ends_;
  int num_steps_ = 0;
};

// A queue runner waits for what it could put into the queue.
int RunProgramThatWaits(const std::string& what, const std::string& directory) {
  TestProgram program;
  GraphBuilder& g = program.g;
  const auto make_queue = [&g](const std::string& name) {
    return g.AddOp("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat32}}}, name);
  };
  const auto take = [&g](Output queue) {
    return g.AddOp("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat32}}});
  };
  const Output input = make_queue("input"), queue = make_queue("queue"), taken = take(queue);
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->queue_runners.push_back(
      {.enqueues = {g.AddNode("QueueEnqueueV2", {queue, std::vector<Output>{take(input)}})},
       .close = g.AddNode("QueueCloseV2", {queue}),
       .cancel = g.AddNode("QueueCloseV2", {queue}, {{"cancel_pending_enqueues", true}})});
  int num_ends = 0;
  auto session = program.Start({.checkpoint_dir = directory,
                                .hooks = {std::make_shared<SaysThatTheThirdStepBegins>(&num_ends)},
                                .scaffold = scaffold,
                                .stop_grace_period = absl::Milliseconds(1),
                                .step_grace_period = absl::Milliseconds(1)});
  if (!session.ok()) return 99;
  for (int i = 0; i < 2; ++i) {
    if (!(*session)->Run({}, {}, {program.train}).ok()) return 99;
  }
  const absl::Status status = (*session)->Run({}, {taken}).status();
  if (!absl::IsOutOfRange(status) || !(*session)->should_stop()) return 98;
  if (status.message() != "stopped by SIGTERM before the step under way was done") return 97;
  // Nothing saves what it trains now.
  if (!absl::IsOutOfRange((*session)->Run({}, {}, {program.train}).status())) return 95;
  if ((*session)->GlobalStep().value_or(0) != 2) return 94;
  if (what == kReturns) return ExitCodeFor(status);
  const absl::Status closed = (*session)->Close();
  return num_ends == 1 ? ExitCodeFor(closed) : 96;
}

int RunProgramOnABadDisk(const std::string& what, const std::string& directory) {
  HeldDisk disk;
  TestProgram program;
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->saver_options.file_system = &disk;
  HookPtr signal = std::make_shared<SaysWhenItTrains>();
  if (what == kLastStepOnAFullDisk) signal = std::make_shared<SignalsItself>();
  const bool ends = what == kEndsOnAFullDisk || what == kLastStepOnAFullDisk;
  auto session = program.Start({.checkpoint_dir = directory,
                                .hooks = {signal, StopAtStepHook({.last_step = ends ? 10 : 1 << 30})},
                                .scaffold = scaffold,
                                .step_grace_period = absl::Milliseconds(1)});
  if (!session.ok()) return 99;
  const absl::Status error = what == kFailingDisk ? absl::DataLossError("Input/output error")
                                                  : absl::ResourceExhaustedError("no space is left");
  disk.Release(error);
  const absl::Status status = TrainUntilStop(program, **session);
  return status.code() == error.code() ? ExitCodeFor(status) : 98;
}

int RunProgram(const std::string& what, const std::string& directory) {
  if (what == kWaits || what == kReturns) return RunProgramThatWaits(what, directory);
  if (what == kFullDisk || what == kFailingDisk || what == kEndsOnAFullDisk || what == kLastStepOnAFullDisk) {
    return RunProgramOnABadDisk(what, directory);
  }
  TestProgram program;
  TrainingSessionOptions options = {.checkpoint_dir = directory};
  if (what == kLoses || what == kLosesTorn) {
    options.hooks.push_back(std::make_shared<LosesAPeer>(/*are_whole=*/what == kLoses));
  } else {
    options.hooks.push_back(std::make_shared<SaysWhenItTrains>());
  }
  if (what == kHangs) options.hooks.push_back(std::make_shared<Hangs>());
  options.stops_on_sigterm = what != kIgnoreOption;
  auto session = program.Start(options);
  if (!session.ok()) return 99;
  const absl::Status status = TrainUntilStop(program, **session);
  if (what != kTwice && what != kHangsLater) return ExitCodeFor(status);
  // The system's own handler is back, and whoever begins anew is stopped at once.
  struct sigaction now;
  if (sigaction(SIGTERM, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return 98;
  TestProgram again;
  auto second = again.Start({.checkpoint_dir = directory});
  if (!second.ok() || !(*second)->should_stop()) return 97;
  if (what == kHangsLater) {
    SayReady();
    while (true) absl::SleepFor(absl::Seconds(1));
  }
  return ExitCodeFor((*second)->Close());
}

class Child {
 public:
  Child(const std::string& what, const std::string& directory) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const std::vector<std::string> words = {"/proc/self/exe", what, directory};
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  ~Child() { close(output_); }

  pid_t pid() const { return pid_; }
  void AwaitReady() {
    char byte = 0;
    ASSERT_EQ(read(output_, &byte, 1), 1) << "it ended before it was ready";
  }
  void Signal() { ASSERT_EQ(kill(pid_, SIGTERM), 0); }
  // It has ended in good order because of the signal.
  void ExpectTerminated() {
    const int status = AwaitEnd();
    ASSERT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), kExitTerminated);
  }
  void ExpectKilled() {
    const int status = AwaitEnd();
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), SIGTERM);
  }

 private:
  int AwaitEnd() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    return status;
  }

  pid_t pid_ = -1;
  int output_ = -1;
};

TEST(TerminationTest, TrainingSavesAndEndsWithItsCode) {
  const std::string directory = EmptyDirectory("terminated");
  Child child(kTrain, directory);
  child.AwaitReady();
  {
    TestProgram other;
    const absl::Status refused =
        other.Start({.checkpoint_dir = directory, .checkpoint_dir_max_wait = absl::ZeroDuration()}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(Message(refused), testing::HasSubstr(absl::StrCat("process ", child.pid(), " on ")));
  }
  child.Signal();
  child.ExpectTerminated();
  TestProgram next;
  auto session = next.Start({.checkpoint_dir = directory});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_GE((*session)->GlobalStep().value(), 10) << "the steps until the signal are saved";
}

// Of the replicas of a job that ends, each saves what it has, unless that is no state of the model.
TEST(TerminationTest, VariablesAreSavedWithoutTheLostPeerWhenTheyAreWhole) {
  for (const char* const what : {kLoses, kLosesTorn}) {
    const std::string directory = EmptyDirectory(what);
    Child child(what, directory);
    child.AwaitReady();
    child.Signal();
    child.ExpectTerminated();
    TestProgram next;
    auto session = next.Start({.checkpoint_dir = directory});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->GlobalStep().value(), what == kLoses ? 9 : 0) << what;
  }
}

TEST(TerminationTest, AStepThatWaitsForInputEndsAndTheStepsBeforeItAreSaved) {
  for (const char* const what : {kWaits, kReturns}) {
    const std::string directory = EmptyDirectory(what);
    Child child(what, directory);
    child.AwaitReady();
    child.Signal();
    child.ExpectTerminated();
    TestProgram next;
    auto session = next.Start({.checkpoint_dir = directory});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->GlobalStep().value(), 2) << what;
  }
}

// Its code would otherwise say that it is not to be started again, and nobody did the steps that were lost.
TEST(TerminationTest, WhoCannotSaveIsStartedAgain) {
  for (const char* const what : {kFullDisk, kFailingDisk, kEndsOnAFullDisk, kLastStepOnAFullDisk}) {
    const std::string directory = EmptyDirectory(what);
    Child child(what, directory);
    if (what != kLastStepOnAFullDisk) {
      child.AwaitReady();
      child.Signal();
    }
    child.ExpectTerminated();
    TestProgram next;
    auto session = next.Start({.checkpoint_dir = directory});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->GlobalStep().value(), 0) << what;
  }
}

TEST(TerminationTest, TheSignalKillsWhoOptsOut) {
  Child child(kIgnoreOption, EmptyDirectory("opted_out"));
  child.AwaitReady();
  child.Signal();
  child.ExpectKilled();
}

TEST(TerminationTest, TheSecondSignalKills) {
  const std::string directory = EmptyDirectory("hangs");
  Child child(kHangs, directory);
  child.AwaitReady();
  child.Signal();
  child.AwaitReady();
  child.Signal();
  child.ExpectKilled();
  TestProgram next;
  EXPECT_TRUE(next.Start({.checkpoint_dir = directory}).ok()) << "who was killed blocks nobody";
}

TEST(TerminationTest, ASessionThatBeginsAfterTheSignalStopsAtOnce) {
  Child child(kTwice, EmptyDirectory("twice"));
  child.AwaitReady();
  child.Signal();
  child.ExpectTerminated();
}

TEST(TerminationTest, TheSecondSignalKillsALaterSessionToo) {
  Child child(kHangsLater, EmptyDirectory("hangs_later"));
  child.AwaitReady();
  child.Signal();
  child.AwaitReady();
  child.Signal();
  child.ExpectKilled();
}

// It has the handler and the pipe, but nobody who listens.
TEST(TerminationTest, TheSignalOfAForkedChildIsItsOwn) {
  std::atomic<bool> was_told{false};
  {
    auto watch = Termination::Watch([&] { was_told = true; });
    ASSERT_TRUE(watch.ok()) << watch.status();
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(7);
    }
    ASSERT_EQ(kill(child, SIGTERM), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), SIGTERM);
  }
  EXPECT_FALSE(was_told);
}

TEST(TerminationTest, AHandlerThatIsInstalledLaterStays) {
  struct sigaction before, own = {}, now;
  own.sa_handler = [](int) {};
  {
    auto watch = Termination::Watch([] {});
    ASSERT_TRUE(watch.ok()) << watch.status();
    ASSERT_EQ(sigaction(SIGTERM, &own, &before), 0);
  }
  ASSERT_EQ(sigaction(SIGTERM, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, own.sa_handler);
  own.sa_handler = SIG_DFL;
  ASSERT_EQ(sigaction(SIGTERM, &own, nullptr), 0);
}

TEST(TerminationTest, HandlersOfTheProgramAreLeftAlone) {
  struct sigaction before, now;
  {
    auto watch = Termination::Watch([] {});
    ASSERT_TRUE(watch.ok()) << watch.status();
    auto second = Termination::Watch([] {});
    ASSERT_TRUE(second.ok()) << second.status();
    ASSERT_EQ(sigaction(SIGTERM, nullptr, &now), 0);
    EXPECT_NE(now.sa_handler, SIG_DFL);
  }
  ASSERT_EQ(sigaction(SIGTERM, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  struct sigaction own = {};
  own.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGTERM, &own, &before), 0);
  {
    auto watch = Termination::Watch([] {});
    ASSERT_TRUE(watch.ok()) << watch.status();
    ASSERT_EQ(sigaction(SIGTERM, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
  }
  ASSERT_EQ(sigaction(SIGTERM, &before, nullptr), 0);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  if (argc == 3 && argv[1][0] != '-') return weir::RunProgram(argv[1], argv[2]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
