#include "session/monitored/queue_runner.h"

#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "session/monitored/test_hook.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// A queue of numbers that a runner fills from another queue, the input.
class QueueRunnerTest : public testing::Test {
 protected:
  struct Queue {
    Queue(GraphBuilder& g, const std::string& name, int64_t capacity)
        : handle(g.AddOp("FIFOQueueV2", {},
                         {{"component_types", std::vector<DType>{DType::kFloat32}},
                          {"shapes", std::vector<PartialShape>{Shape()}},
                          {"capacity", capacity}},
                         name)),
          taken(g.AddOp("QueueDequeueV2", {handle},
                        {{"component_types", std::vector<DType>{DType::kFloat32}}}, name + "/dequeue")),
          close(g.AddNode("QueueCloseV2", {handle}, {}, name + "/close")),
          cancel(g.AddNode("QueueCloseV2", {handle}, {{"cancel_pending_enqueues", true}}, name + "/cancel")) {
    }
    Output handle, taken;
    Node *close, *cancel;
  };

  QueueRunnerTest() : input_(program_.g, "input", 100), queue_(program_.g, "queue", 4) {
    GraphBuilder& g = program_.g;
    numbers_ = Placeholder(g, DType::kFloat32, PartialShape({10}));
    put_ = g.AddNode("QueueEnqueueManyV2", {input_.handle, std::vector<Output>{numbers_}});
    enqueue_ = g.AddNode("QueueEnqueueV2", {queue_.handle, std::vector<Output>{input_.taken}});
  }

  std::unique_ptr<MonitoredSession> Start(int num_threads, TrainingSessionOptions options = {}) {
    auto scaffold = std::make_shared<Scaffold>();
    scaffold->queue_runners.push_back({.enqueues = std::vector<Node*>(num_threads, enqueue_),
                                       .close = queue_.close,
                                       .cancel = queue_.cancel});
    options.scaffold = scaffold;
    auto session = program_.Start(std::move(options));
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  // The sum of all that comes out of the queue, and how it ended.
  std::pair<float, absl::Status> TakeAll(MonitoredSession& session) {
    float sum = 0;
    while (true) {
      auto taken = session.Run({}, {queue_.taken});
      if (!taken.ok()) return {sum, taken.status()};
      sum += (*taken)[0].scalar<float>();
    }
  }

  absl::Status PutTenOnes(MonitoredSession& session) {
    Tensor ones(DType::kFloat32, {10});
    for (float& one : ones.flat<float>()) one = 1;
    return session.session().Run({{numbers_, ones}}, {}, {put_}).status();
  }

  TestProgram program_;
  Queue input_, queue_;
  Output numbers_;
  Node* put_ = nullptr;
  Node* enqueue_ = nullptr;
};

TEST_F(QueueRunnerTest, ThreadsFillTheQueueUntilTheInputEnds) {
  auto session = Start(/*num_threads=*/3);
  ASSERT_TRUE(PutTenOnes(*session).ok());
  ASSERT_TRUE(PutTenOnes(*session).ok());
  ASSERT_TRUE(session->session().Run({}, {}, {input_.close}).ok());
  const auto [sum, status] = TakeAll(*session);
  EXPECT_EQ(sum, 20);
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_TRUE(session->should_stop());
  EXPECT_TRUE(session->Close().ok());
}

// The runner waits for room, or for input, when the session is closed.
TEST_F(QueueRunnerTest, WaitingThreadsEndWithTheSession) {
  auto session = Start(/*num_threads=*/2);
  ASSERT_TRUE(PutTenOnes(*session).ok());
  ASSERT_TRUE(session->Run({}, {queue_.taken}).ok());
  ASSERT_TRUE(session->session().Run({}, {}, {input_.cancel}).ok());
  const absl::Status closed = session->Close();
  EXPECT_TRUE(closed.ok()) << closed;
}

// The step that runs when a stop is requested needs what the runner brings.
TEST_F(QueueRunnerTest, AfterAStopTheRunningStepGetsItsInput) {
  auto session = Start(/*num_threads=*/1, {.step_grace_period = absl::InfiniteDuration()});
  absl::StatusOr<std::vector<Tensor>> taken;
  std::thread step([&] { taken = session->Run({}, {queue_.taken}); });
  session->RequestStop();
  EXPECT_TRUE(session->should_stop());
  ASSERT_TRUE(PutTenOnes(*session).ok());
  step.join();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ((*taken)[0].scalar<float>(), 1);
  ASSERT_TRUE(session->session().Run({}, {}, {input_.cancel}).ok());
  EXPECT_TRUE(session->Close().ok());
}

TEST_F(QueueRunnerTest, AfterAStopAStepWithoutInputEnds) {
  auto session = Start(/*num_threads=*/1, {.step_grace_period = absl::Milliseconds(1)});
  session->RequestStop();
  const absl::Status status = TakeAll(*session).second;
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  ASSERT_TRUE(session->session().Run({}, {}, {input_.cancel}).ok());
  EXPECT_TRUE(session->Close().ok());
}

// The queue is not closed with the session that was lost: it would stay closed for the next one.
TEST_F(QueueRunnerTest, AfterARecoveryTheQueueIsFilledOn) {
  auto hook = std::make_shared<TestHook>();
  hook->after_run = [lost = false](RunContext&, const RunValues&) mutable {
    return std::exchange(lost, true) ? absl::OkStatus() : absl::UnavailableError("lost under a hook");
  };
  auto session = Start(/*num_threads=*/2, {.hooks = {hook}});
  ASSERT_TRUE(PutTenOnes(*session).ok());
  ASSERT_TRUE(session->Run({}, {queue_.taken}).ok());
  ASSERT_TRUE(PutTenOnes(*session).ok());
  for (int i = 0; i < 6; ++i) {
    const absl::Status taken = session->Run({}, {queue_.taken}).status();
    ASSERT_TRUE(taken.ok()) << taken;
  }
  ASSERT_TRUE(session->session().Run({}, {}, {input_.cancel}).ok());
  EXPECT_TRUE(session->Close().ok());
}

TEST_F(QueueRunnerTest, AnErrorOfAThreadIsWhatTheModelsStepReturns) {
  GraphBuilder& g = program_.g;
  const Output checked = CheckNumerics(g, input_.taken, "bad input");
  enqueue_ = g.AddNode("QueueEnqueueV2", {queue_.handle, std::vector<Output>{checked}});
  auto session = Start(/*num_threads=*/1);
  Tensor numbers(DType::kFloat32, {10});
  for (float& number : numbers.flat<float>()) number = 1;
  numbers.flat<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(session->session().Run({{numbers_, numbers}}, {}, {put_}).ok());
  const auto [sum, status] = TakeAll(*session);
  EXPECT_EQ(sum, 3);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("bad input"));
  EXPECT_TRUE(session->should_stop());
  EXPECT_TRUE(absl::IsInvalidArgument(session->Close()));
}

TEST_F(QueueRunnerTest, ARunnerWithoutItsOpsIsRefused) {
  auto session = Start(/*num_threads=*/1);
  Coordinator coordinator;
  const auto start = [&](QueueRunner runner) {
    return Message(StartQueueRunners({runner}, session->session(), coordinator));
  };
  EXPECT_THAT(start({.close = queue_.close, .cancel = queue_.cancel}), HasSubstr("has 0 enqueue ops"));
  EXPECT_THAT(start({.enqueues = {enqueue_, nullptr}, .close = queue_.close, .cancel = queue_.cancel}),
              HasSubstr("with a null one among them"));
  EXPECT_THAT(start({.enqueues = {enqueue_}, .cancel = queue_.cancel}), HasSubstr("no close op"));
  EXPECT_THAT(start({.enqueues = {enqueue_}, .close = queue_.close}), HasSubstr("no cancel op"));
  ASSERT_TRUE(session->session().Run({}, {}, {input_.cancel}).ok());
  EXPECT_TRUE(session->Close().ok());
}

}  // namespace
}  // namespace weir
