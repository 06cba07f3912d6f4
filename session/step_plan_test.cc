// How a step asks the workers that have a part in it, when one of them fails meanwhile.
#include "session/step_plan.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "session/call_together.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

// A worker whose answers the test gives.
class FakeWorker final : public Worker {
 public:
  explicit FakeWorker(int index) {
    device_.name.job = "worker";
    device_.name.replica = 0;
    device_.name.task = index;
    task_ = device_.name;
    device_.name.type = "CPU";
    device_.name.index = 0;
  }

  const DeviceName& task() const override { return task_; }
  absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time) override {
    if (on_question) on_question();
    return std::vector<DeviceAttributes>{device_};
  }
  absl::Status RegisterPartition(PartitionSpec, absl::Time) override {
    if (on_question) on_question();
    return registered;
  }
  void RunPartition(const RunPartitionCall&, Done done) override {
    ++num_runs;
    if (on_run) on_run();
    if (!answer.ok()) return done(answer);
    running_ = std::move(done);
  }
  // As one that is out of reach: ends what it has been asked for, and knows nothing of what comes later.
  void CancelStep(PlanId, int64_t, const absl::Status& reason) override { End(reason); }
  void End(const absl::Status& status) {
    if (Done done = std::exchange(running_, nullptr)) done(status);
  }
  void DeregisterPartition(PlanId) override {}
  void EndSession(SessionId) override {}
  absl::Status ResetContainers(absl::Span<const std::string>, absl::Time) override {
    return absl::OkStatus();
  }

  int num_runs = 0;
  absl::Status answer;                // not OK: at once
  absl::Status registered;            // the answer to RegisterPartition
  std::function<void()> on_run;       // before the call is taken
  std::function<void()> on_question;  // when it is asked for its devices, or to register a partition

 private:
  DeviceAttributes device_;
  DeviceName task_;
  Done running_;
};

class StepPlanTest : public testing::Test {
 protected:
  StepPlanTest() : runtime_(Runtime::Create({.num_threads = 1}).value()), g_(runtime_->ops()) {
    std::vector<TargetRef> parts;
    for (const char* task : {"/job:worker/task:0", "/job:worker/task:1"}) {
      const auto device = g_.DeviceScope(task);
      parts.push_back(g_.AddNode("NoOp", {}));
    }
    session_ = Session::Create(g_.graph(), {&own_, &other_}, runtime_->kernels(), {}).value();
    step_ = session_->Prepare({}, {}, parts).value();
  }

  absl::Status Run() { return step_->Start({})->Await().status(); }

  const std::unique_ptr<Runtime> runtime_;
  FakeWorker own_{0}, other_{1};  // the own one is asked last
  GraphBuilder g_;
  std::unique_ptr<Session> session_;
  std::shared_ptr<PreparedStep> step_;
};

TEST_F(StepPlanTest, NobodyIsAskedAfterTheFirstHasFailed) {
  other_.answer = absl::UnavailableError("it is out of reach");
  EXPECT_TRUE(absl::IsUnavailable(Run()));
  EXPECT_EQ(other_.num_runs, 1);
  EXPECT_EQ(own_.num_runs, 0);
}

// Its cancellation came before the call, so it ended nothing.
TEST_F(StepPlanTest, WhoIsAskedWhileAnotherFailsIsCancelledAgain) {
  own_.on_run = [this] { other_.End(absl::UnavailableError("it was lost")); };
  EXPECT_TRUE(absl::IsUnavailable(Run()));
  EXPECT_EQ(own_.num_runs, 1);
}

// Counts who is asked, and answers nobody before `expected` are: those that are asked one after the other
// wait for one another in vain.
class Meeting {
 public:
  explicit Meeting(int expected) : expected_(expected) {}

  void Come() {
    absl::MutexLock lock(&mutex_);
    ++num_here_;
    const auto all_are_here = [this] { return num_here_ % expected_ == 0 || is_in_vain_; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&all_are_here), absl::Seconds(20))) is_in_vain_ = true;
  }
  bool is_in_vain() {
    absl::MutexLock lock(&mutex_);
    return is_in_vain_;
  }

 private:
  const int expected_;
  absl::Mutex mutex_;
  int num_here_ = 0;
  bool is_in_vain_ = false;
};

// Of several that are silent none is asked after another: they are waited for together.
TEST_F(StepPlanTest, WorkersAreAskedTogether) {
  FakeWorker own(0), silent(1), silent_too(2);
  Meeting meeting(2);
  silent.on_question = silent_too.on_question = [&meeting] { meeting.Come(); };
  GraphBuilder g(runtime_->ops());
  std::vector<TargetRef> parts;
  for (const char* task : {"/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"}) {
    const auto device = g.DeviceScope(task);
    parts.push_back(g.AddNode("NoOp", {}));
  }
  auto session = Session::Create(g.graph(), {&own, &silent, &silent_too}, runtime_->kernels(), {});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_FALSE(meeting.is_in_vain()) << "who has which devices";
  EXPECT_TRUE((*session)->Prepare({}, {}, parts).ok());
  EXPECT_FALSE(meeting.is_in_vain()) << "who has which part";
}

TEST_F(StepPlanTest, TheFirstWorkerThatRefusesItsPartIsNamed) {
  FakeWorker own(0), second(1), third(2);
  second.registered = absl::NotFoundError("no such kernel");
  third.registered = absl::UnavailableError("it is out of reach");
  GraphBuilder g(runtime_->ops());
  std::vector<TargetRef> parts;
  for (const char* task : {"/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"}) {
    const auto device = g.DeviceScope(task);
    parts.push_back(g.AddNode("NoOp", {}));
  }
  auto session = Session::Create(g.graph(), {&own, &second, &third}, runtime_->kernels(), {}).value();
  const absl::Status refused = session->Prepare({}, {}, parts).status();
  EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("/job:worker/replica:0/task:1: no such"));
}

TEST(CallTogetherTest, MakesEveryCallOnce) {
  std::vector<std::atomic<int>> calls(3 * kMaxCallsAtOnce);
  const absl::Status status = CallTogether(RealEnvironment(), calls.size(), [&](size_t i) {
    ++calls[i];
    return i % 50 == 7 ? absl::NotFoundError(absl::StrCat(i)) : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::NotFoundError("7"));
  for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
  EXPECT_TRUE(CallTogether(RealEnvironment(), 0, [](size_t) { return absl::InternalError(""); }).ok());
}

}  // namespace
}  // namespace weir
