// Threads that hooks start with the session's coordinator.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_hook.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

TEST(HookThreadsTest, ThreadsOfHooksStopWithTheSession) {
  TestProgram program;
  auto hook = std::make_shared<TestHook>();
  absl::Notification started;
  std::atomic<bool> has_ended{false};
  hook->after_create_session = [&](Session&, Coordinator& coordinator) {
    coordinator.Start("watches", [&](Coordinator& coordinator) {
      started.Notify();
      coordinator.WaitForStop(absl::InfiniteDuration());
      has_ended = true;
      return absl::OkStatus();
    });
    return absl::OkStatus();
  };
  hook->end = [&](Session&) {
    EXPECT_FALSE(has_ended) << "threads go on until all hooks have ended";
    return absl::OkStatus();
  };
  auto session = program.Start({.hooks = {hook, StopAtStepHook({.last_step = 1})}});
  ASSERT_TRUE(session.ok()) << session.status();
  started.WaitForNotification();
  ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  EXPECT_TRUE(has_ended);
}

TEST(HookThreadsTest, AThreadThatFailsEndsTraining) {
  TestProgram program;
  auto hook = std::make_shared<TestHook>();
  hook->after_create_session = [](Session&, Coordinator& coordinator) {
    coordinator.Start("fails", [](Coordinator&) { return absl::DataLossError("a bad record"); });
    return absl::OkStatus();
  };
  auto session = program.Start({.hooks = {hook}});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(TrainUntilStop(program, **session), absl::DataLossError("a bad record"));
}

// As in TensorFlow: what the model has learned until then is saved.
TEST(HookThreadsTest, AThreadThatFailsLosesNoStep) {
  const std::string directory = EmptyDirectory("thread_failed");
  TestProgram program;
  auto hook = std::make_shared<TestHook>();
  absl::Notification may_fail;
  hook->after_create_session = [&](Session&, Coordinator& coordinator) {
    coordinator.Start("fails", [&](Coordinator&) {
      may_fail.WaitForNotification();
      return absl::DataLossError("a bad record");
    });
    return absl::OkStatus();
  };
  auto session = program.Start({.checkpoint_dir = directory, .hooks = {hook}});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  may_fail.Notify();
  while (!(*session)->should_stop()) ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  const int64_t step = (*session)->GlobalStep().value();
  EXPECT_EQ((*session)->Close(), absl::DataLossError("a bad record"));
  EXPECT_EQ(CheckpointsIn(directory).value()[0], absl::StrCat(directory, "/model.ckpt-", step));
}

// A hook whose thread loses a peer in the first session, when it is told to.
struct LosesAPeerOnce {
  LosesAPeerOnce() {
    hook->after_create_session = [this](Session&, Coordinator& given) {
      coordinator = given;
      if (++num_sessions > 1) return absl::OkStatus();
      given.Start("loses a peer", [this](Coordinator&) {
        may_fail.WaitForNotification();
        return absl::UnavailableError("ps:0 was lost");
      });
      return absl::OkStatus();
    };
  }
  std::shared_ptr<TestHook> hook = std::make_shared<TestHook>();
  Coordinator coordinator;
  int num_sessions = 0;
  absl::Notification may_fail;
};

TEST(HookThreadsTest, APeerThatAThreadLosesCostsASession) {
  LosesAPeerOnce lost;
  TestProgram program;
  auto session = program.Start({.hooks = {lost.hook}});
  ASSERT_TRUE(session.ok()) << session.status();
  lost.may_fail.Notify();
  EXPECT_TRUE(lost.coordinator.WaitForStop(absl::InfiniteDuration()));
  EXPECT_FALSE((*session)->should_stop()) << "training goes on in another session";
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_EQ(lost.num_sessions, 2);
  EXPECT_FALSE(lost.coordinator.should_stop()) << "threads of the new session run";
  EXPECT_EQ((*session)->GlobalStep().value(), 1);
  EXPECT_TRUE((*session)->Close().ok());
}

// The step fails because the thread that it needs has ended: the thread's error is the reason.
TEST(HookThreadsTest, AStepThatFailsAfterALostPeerRunsAgain) {
  LosesAPeerOnce lost;
  lost.may_fail.Notify();
  lost.hook->before_run = [&](RunContext&) -> absl::StatusOr<RunArgs> {
    if (lost.num_sessions > 1) return RunArgs();
    lost.coordinator.WaitForStop(absl::InfiniteDuration());
    return absl::InternalError("no input");
  };
  TestProgram program;
  auto session = program.Start({.hooks = {lost.hook}});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status trained = (*session)->Run({}, {}, {program.train}).status();
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(lost.num_sessions, 2);
}

TEST(HookThreadsTest, ASingularSessionEndsWhenAThreadLosesAPeer) {
  LosesAPeerOnce lost;
  lost.may_fail.Notify();
  TestProgram program;
  auto session = SingularMonitoredSession(program.g, {.target = program.target}, {lost.hook});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(lost.coordinator.WaitForStop(absl::InfiniteDuration()));
  EXPECT_TRUE((*session)->should_stop());
  EXPECT_EQ((*session)->Close(), absl::UnavailableError("ps:0 was lost"));
}

// A hook whose thread in the first session does not end when it is told to.
struct StubbornThread {
  struct Findings {
    absl::Notification may_go_on, has_ended;
    bool saw_stop = false;
    absl::Status step;
  };
  explicit StubbornThread(const ModelVariable& variable) {
    hook->after_create_session = [this, read = variable.value](Session& session, Coordinator& coordinator) {
      if (std::exchange(has_started, true)) return absl::OkStatus();
      coordinator.Start("stubborn", [found = found, &session, read](Coordinator& coordinator) {
        found->may_go_on.WaitForNotification();
        found->saw_stop = coordinator.should_stop();
        found->step = session.Run({}, {read}).status();
        found->has_ended.Notify();
        return absl::OkStatus();
      });
      return absl::OkStatus();
    };
  }
  void ExpectThatItWasStopped() {
    found->may_go_on.Notify();
    found->has_ended.WaitForNotification();
    EXPECT_TRUE(found->saw_stop);
    EXPECT_TRUE(absl::IsCancelled(found->step)) << found->step;
  }
  std::shared_ptr<TestHook> hook = std::make_shared<TestHook>();
  std::shared_ptr<Findings> found = std::make_shared<Findings>();
  bool has_started = false;
};

TEST(HookThreadsTest, AThreadOfALostSessionStaysStopped) {
  TestProgram program;
  StubbornThread thread(program.w);
  thread.hook->after_run = [lost = false](RunContext&, const RunValues&) mutable {
    return std::exchange(lost, true) ? absl::OkStatus() : absl::UnavailableError("lost under a hook");
  };
  auto session = program.Start({.hooks = {thread.hook}, .stop_grace_period = absl::Milliseconds(1)});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
  EXPECT_FALSE((*session)->should_stop());
  thread.ExpectThatItWasStopped();
  EXPECT_TRUE((*session)->Close().ok());
}

TEST(HookThreadsTest, AThreadMayOutliveItsSession) {
  for (const bool is_closed : {true, false}) {
    TestProgram program;
    StubbornThread thread(program.w);
    auto session = program.Start({.hooks = {thread.hook}, .stop_grace_period = absl::Milliseconds(1)});
    ASSERT_TRUE(session.ok()) << session.status();
    if (is_closed) {
      EXPECT_TRUE((*session)->Close().ok());
    }
    session->reset();
    thread.ExpectThatItWasStopped();
  }
}

}  // namespace
}  // namespace weir
