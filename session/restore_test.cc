// Restores that are tried again, with two workers of which one may fail (Session::Restore).
#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "session/forwarding_worker.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

// A task that may start anew, and may lose the end of a restore on its way.
class Task final : public ForwardingWorker {
 public:
  explicit Task(int index) : ForwardingWorker(nullptr), index_(index) { StartAnew(); }
  void StartAnew() {
    local_worker_ = nullptr;
    runtime_ = Runtime::Create({.job = "ps", .task = index_, .num_threads = 1}).value();
    local_worker_ = std::make_unique<LocalWorker>(*runtime_, runtime_->task());
    worker_ = local_worker_.get();
  }
  Runtime& runtime() { return *runtime_; }
  StepOwners* owners() override { return nullptr; }

  absl::Status EndRestore(uint64_t id, absl::string_view applied_updates, absl::Time deadline) override {
    if (loses_end) return absl::UnavailableError("contact was lost");
    if (deadline < absl::Now()) return absl::DeadlineExceededError("there was no time for it");
    return worker_->EndRestore(id, applied_updates, deadline);
  }

  bool loses_end = false;

 private:
  const int index_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LocalWorker> local_worker_;
};

// A variable on each task.
class RestoreTest : public testing::Test {
 protected:
  RestoreTest() : g_(tasks_[0].runtime().ops()) {
    for (int i = 0; i < 2; ++i) {
      const auto device = g_.DeviceScope(absl::StrCat("/job:ps/task:", i));
      const auto value = [&](float value) {
        return g_.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}});
      };
      const Output handle = g_.AddOp("VarHandleOp", {},
                                     {{"dtype", DType::kFloat32},
                                      {"shape", PartialShape(Shape())},
                                      {"shared_name", absl::StrCat("v", i)}});
      read_.push_back(g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}));
      set_.push_back(g_.AddNode("AssignVariableOp", {handle, value(10)}));
      add_.push_back(g_.AddNode("AssignAddVariableOp", {handle, value(1)}));
    }
    EXPECT_TRUE(g_.ok()) << g_.status();
  }

  // Asks the first task first.
  std::unique_ptr<Session> MakeSession(SessionOptions options = {}) {
    options.default_task = tasks_[1].task();
    return Session::Create(g_.graph(), {&tasks_[0], &tasks_[1]}, tasks_[0].runtime().kernels(), options)
        .value();
  }
  absl::Status Restore(Session& session) {
    return session.Restore(progress_, [&] {
      ++num_sets_;
      return session.Run({}, {}, {set_[0], set_[1]}).status();
    });
  }
  // A step of a training loop.
  absl::Status Train(Session& session, int64_t number, const std::vector<TargetRef>& updates) {
    RunOptions options;
    options.logical_step = {.writer = 5, .number = number, .settled_below = number};
    return session.Run({}, {}, updates, options).status();
  }
  std::pair<float, float> Values(Session& session) {
    const std::vector<Tensor> values = session.Run({}, {read_[0], read_[1]}).value();
    return {values[0].scalar<float>(), values[1].scalar<float>()};
  }

  std::array<Task, 2> tasks_ = {Task(0), Task(1)};
  GraphBuilder g_;
  std::vector<Output> read_;
  std::vector<Node*> set_, add_;
  Session::RestoreProgress progress_;
  int num_sets_ = 0;
};

TEST_F(RestoreTest, WhatIsSetIsNotSetAgainWhenItsEndWasLost) {
  tasks_[1].loses_end = true;
  auto first = MakeSession();
  EXPECT_TRUE(absl::IsUnavailable(Restore(*first)));
  // The first task is open, and somebody trains.
  EXPECT_TRUE(Train(*first, 1, {add_[0]}).ok());
  EXPECT_TRUE(absl::IsAborted(Train(*first, 2, {add_[1]})));
  tasks_[1].loses_end = false;
  auto second = MakeSession();
  EXPECT_TRUE(Restore(*second).ok());
  EXPECT_EQ(num_sets_, 1);
  EXPECT_TRUE(Train(*second, 2, {add_[1]}).ok());
  EXPECT_EQ(Values(*second), std::make_pair(11.0f, 11.0f));
  // Another restore is one.
  EXPECT_TRUE(Restore(*second).ok());
  EXPECT_EQ(num_sets_, 2);
  EXPECT_EQ(Values(*second), std::make_pair(10.0f, 10.0f));
}

TEST_F(RestoreTest, ATaskThatStartsAnewHasAllSetAgainEverywhere) {
  tasks_[1].loses_end = true;
  auto first = MakeSession();
  EXPECT_TRUE(absl::IsUnavailable(Restore(*first)));
  ASSERT_TRUE(Train(*first, 1, {add_[0]}).ok());
  first = nullptr;
  tasks_[1].loses_end = false;
  tasks_[1].StartAnew();
  auto second = MakeSession();
  ASSERT_TRUE(Restore(*second).ok());
  EXPECT_EQ(num_sets_, 2);
  EXPECT_EQ(Values(*second), std::make_pair(10.0f, 10.0f));
  // The step is tried again: what it had applied is gone, and counts as not applied.
  EXPECT_TRUE(Train(*second, 1, {add_[0], add_[1]}).ok());
  EXPECT_EQ(Values(*second), std::make_pair(11.0f, 11.0f));
}

// An attempt that has begun to set and failed leaves nothing that another one relies on.
TEST_F(RestoreTest, ARestoreThatFailsHalfWayIsDoneWholly) {
  auto session = MakeSession();
  const absl::Status failed = session->Restore(progress_, [&] {
    EXPECT_TRUE(session->Run({}, {}, {set_[0]}).ok());
    return absl::UnavailableError("contact was lost");
  });
  EXPECT_TRUE(absl::IsUnavailable(failed));
  EXPECT_TRUE(absl::IsAborted(Train(*session, 1, {add_[0]}))) << "not all is set";
  EXPECT_TRUE(Restore(*session).ok());
  EXPECT_EQ(num_sets_, 1);
  EXPECT_EQ(Values(*session), std::make_pair(10.0f, 10.0f));
}

TEST_F(RestoreTest, MayTakeLongerThanAStepMay) {
  auto trainer = MakeSession();
  auto chief = MakeSession({.operation_timeout = absl::Milliseconds(5)});
  const absl::Status restored = chief->Restore(progress_, [&] {
    EXPECT_TRUE(trainer->Run({}, {}, {set_[0], set_[1]}).ok());
    for (const absl::Time end = absl::Now() + absl::Milliseconds(10); absl::Now() < end;) {
    }
    EXPECT_TRUE(absl::IsAborted(Train(*trainer, 1, {add_[0]})));
    return absl::OkStatus();
  });
  EXPECT_TRUE(restored.ok()) << restored;
  EXPECT_TRUE(Train(*trainer, 1, {add_[0]}).ok());
}

}  // namespace
}  // namespace weir
