// How a step asks the workers that have a part in it, when one of them fails meanwhile.
#include "session/step_plan.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
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
    return std::vector<DeviceAttributes>{device_};
  }
  absl::Status RegisterPartition(PartitionSpec, absl::Time) override { return absl::OkStatus(); }
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
  absl::Status answer;           // not OK: at once
  std::function<void()> on_run;  // before the call is taken

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

}  // namespace
}  // namespace weir
