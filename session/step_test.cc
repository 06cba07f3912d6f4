// How steps run, wait, end and overlap.
#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "gtest/gtest.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/test_acts.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class StepTest : public ActsTest {
 protected:
  StepTest() : ActsTest(/*is_stateful=*/true) {
    runtime_ = Runtime::Create({.num_cpus = 2,
                                .num_fake_gpus = 2,
                                .num_threads = 4,
                                .max_blocked_threads = 4,
                                .register_kernels = RegisterAct})
                   .value();
    worker_ = std::make_unique<LocalWorker>(*runtime_, runtime_->task());
  }

  Session& session() {
    EXPECT_TRUE(g_.ok()) << g_.status();
    if (!session_) session_ = Session::Create(g_.graph(), {worker_.get()}, runtime_->kernels()).value();
    return *session_;
  }

  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LocalWorker> worker_;
  std::unique_ptr<Session> session_;
};

TEST_F(StepTest, DevicesOfOneTaskOverlap) {
  absl::Notification begun[2];
  std::atomic<int> num_met{0};
  std::vector<TensorRef> fetches;
  for (int i = 0; i < 2; ++i) {
    auto device = g_.DeviceScope(absl::StrCat("/gpu:", i));
    fetches.push_back(AddAct(Constant(1), [&, i](KernelContext&) {
      begun[i].Notify();
      num_met += begun[1 - i].WaitForNotificationWithTimeout(kPatience);
      return absl::OkStatus();
    }));
  }
  const auto out = session().Run({}, fetches);
  EXPECT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(num_met, 2);
}

// A tensor that is sent wakes its receiver, which must not run inside of the kernel that sends.
TEST_F(StepTest, NothingRunsOnTheStackOfASend) {
  static thread_local int depth = 0;
  int deepest = 0;
  const auto act = [&](KernelContext&) {
    deepest = std::max(deepest, ++depth);
    --depth;
    return absl::OkStatus();
  };
  Output x = Constant(1);
  for (int i = 0; i < 400; ++i) {
    auto device = g_.DeviceScope(absl::StrCat("/cpu:", i % 2));
    x = AddAct(x, act);
  }
  char* lowest = nullptr;
  std::thread::id runner;
  char here = 0;
  {
    auto device = g_.DeviceScope("/cpu:0");
    x = AddAct(x, [&](KernelContext&) {
      char local = 0;
      lowest = &local;
      runner = std::this_thread::get_id();
      return absl::OkStatus();
    });
  }
  for (int i = 0; i < 3; ++i) {
    const auto out = session().Run({}, {x});
    ASSERT_TRUE(out.ok()) << out.status();
  }
  EXPECT_EQ(deepest, 1);
  // A step that is known to be light runs on this thread; 400 sends deep it would need 400 frames. On a busy
  // machine it may measure as heavy, and runs elsewhere.
  if (runner == std::this_thread::get_id()) {
    EXPECT_LT(std::abs(&here - lowest), 16 << 10);
  }
}

// A step is kept for the next one; the tensors of one that failed are not.
TEST_F(StepTest, AFailedStepHoldsNothing) {
  for (const bool may_block : {false, true}) {  // a program of one thread, and one that waits
    may_block_ = may_block;
    const Output x = g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}});
    const Output passed = AddAct(x, [](KernelContext&) { return absl::OkStatus(); });
    const Output failed = AddAct(passed, [](KernelContext&) { return absl::AbortedError("broken"); });
    const Output both = g_.AddOp("AddV2", {passed, failed});
    const Tensor fed = Tensor::Scalar(1.0f);
    session_ = nullptr;
    EXPECT_EQ(session().Run({{x, fed}}, {both}).status().code(), absl::StatusCode::kAborted);
    while (worker_->num_running_steps() > 0) std::this_thread::yield();
    session_->Prepare({x}, {both}).value();  // the plan and its step are kept
    EXPECT_EQ(worker_->num_plans(), 1);
    EXPECT_TRUE(fed.has_exclusive_buffer()) << may_block;
  }
}

TEST_F(StepTest, AStartedStepNeedsNoThreadThatWaits) {
  Output x = Constant(1);
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = AddAct(x, [](KernelContext&) { return absl::OkStatus(); });
  }
  const Output y = g_.AddOp("AddV2", {x, Constant(2)});
  auto prepared = session().Prepare({}, {y}).value();
  absl::Notification done;
  float value = 0;
  const std::shared_ptr<Step> step = prepared->Start({});
  step->OnDone([&](const Step::Results& results) {
    if (results.ok()) value = (*results)[0].scalar<float>();
    done.Notify();
  });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(value, 3);
  EXPECT_EQ(step->Await().value()[0].scalar<float>(), 3) << "may be asked again";
}

TEST_F(StepTest, StepsThatStartOneAnotherDoNotNest) {
  const Output x = AddAct(Constant(1), [](KernelContext&) { return absl::OkStatus(); });
  auto prepared = session().Prepare({}, {x}).value();
  constexpr int kSteps = 20000;
  std::atomic<int> left{kSteps};
  absl::Notification all_done;
  std::function<void(const Step::Results&)> next = [&](const Step::Results& results) {
    if (!results.ok() || --left == 0) return all_done.Notify();
    prepared->Start({})->OnDone(next);
  };
  prepared->Start({})->OnDone(next);
  ASSERT_TRUE(all_done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(left, 0);
}

TEST_F(StepTest, AStepMayBeCancelled) {
  may_block_ = true;
  const Output x = AddAct(Constant(1), [](KernelContext& context) {
    absl::Notification cancelled;
    const uint64_t id = context.cancellation().OnCancel([&](const absl::Status&) { cancelled.Notify(); });
    cancelled.WaitForNotification();
    context.cancellation().Remove(id);
    return context.cancellation().reason();
  });
  const std::shared_ptr<Step> step = session().Prepare({}, {x}).value()->Start({});
  step->Cancel(absl::AbortedError("no longer wanted"));
  EXPECT_THAT(Message(step->Await().status()), HasSubstr("no longer wanted"));

  // A reason that is none cancels as well.
  const std::shared_ptr<Step> other = session().Prepare({}, {x}).value()->Start({}, {.timeout = kPatience});
  other->Cancel(absl::OkStatus());
  EXPECT_EQ(other->Await().status().code(), absl::StatusCode::kCancelled) << other->Await().status();

  // The same by the step's deadline, which the worker must see to: nobody waits here.
  absl::Notification done;
  absl::Status status;
  session()
      .Prepare({}, {x})
      .value()
      ->Start({}, {.timeout = absl::Milliseconds(20)})
      ->OnDone([&](const auto& results) {
        status = results.status();
        done.Notify();
      });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST_F(StepTest, KernelsThatBlockAllRunAtOnce) {
  may_block_ = true;
  std::atomic<int> num_begun{0};
  absl::Notification all_begun;
  std::vector<TensorRef> fetches;
  const auto meet = [&](KernelContext&) {
    if (++num_begun == 4) all_begun.Notify();
    return all_begun.WaitForNotificationWithTimeout(kPatience)
               ? absl::OkStatus()
               : absl::InternalError("the others did not come");
  };
  auto device = g_.DeviceScope("/cpu:0");
  for (int i = 0; i < 4; ++i) fetches.push_back(AddAct(Constant(1), meet));
  const auto out = session().Run({}, fetches);
  EXPECT_TRUE(out.ok()) << out.status();
}

// A test of its own: a thread counts for a moment after the step that it served has ended.
TEST_F(StepTest, AKernelThatBlocksBeyondTheLimitIsRefused) {
  may_block_ = true;
  auto device = g_.DeviceScope("/cpu:0");
  std::vector<TensorRef> more;
  for (int i = 0; i < 4; ++i) {
    more.push_back(AddAct(Constant(1), [](KernelContext& context) {
      absl::Notification cancelled;
      const uint64_t id = context.cancellation().OnCancel([&](const absl::Status&) { cancelled.Notify(); });
      cancelled.WaitForNotification();
      context.cancellation().Remove(id);
      return absl::OkStatus();
    }));
  }
  more.push_back(AddAct(
      Constant(1), [](KernelContext&) { return absl::OkStatus(); }, "last"));
  const auto out = session().Run({}, more);
  EXPECT_EQ(out.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(out.status()), AllOf(HasSubstr("'last'"), HasSubstr("all 4 threads")));
}

TEST_F(StepTest, AThreadThatRunsAStepMustNotWaitForAnother) {
  const Output inner = Constant(1);
  absl::Status refused;
  const Output outer = AddAct(Constant(1), [&](KernelContext&) {
    refused = session().Run({}, {inner}).status();
    return absl::OkStatus();
  });
  Output crossing;
  {
    auto device = g_.DeviceScope("/gpu:1");
    crossing = g_.AddOp("Neg", {outer});
  }
  ASSERT_TRUE(session().Run({}, {inner}).ok());
  ASSERT_TRUE(session().Run({}, {crossing}).ok());
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
}

}  // namespace
}  // namespace weir
