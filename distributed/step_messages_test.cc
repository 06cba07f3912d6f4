// How many messages a small step takes between two tasks: one call, with all that it brings and all that it
// gives.
#include <cmath>
#include <string>
#include <vector>

#include "distributed/test_server.h"
#include "gmock/gmock.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, ServerTest, ::testing::Values(false), [](const auto&) { return "Inproc"; });

// Counts the calls of a method, from all tasks.
class Counted {
 public:
  Counted(FaultTransport& faults, const std::string& method) : faults_(faults) {
    faults_.Clear();
    faults_.Add({.action = Fault::Action::kDelay, .method = method});
    begin_ = faults_.num_hits();
  }
  ~Counted() { faults_.Clear(); }
  int num_calls() const { return faults_.num_hits() - begin_; }

 private:
  FaultTransport& faults_;
  int begin_ = 0;
};

// v[2] += 2 x, where 2 x is computed on the worker; and 2 v, computed there too.
struct Model : CounterModel {
  explicit Model(Server& server) : CounterModel(server) {
    {
      auto worker = g.DeviceScope(server.task().task().ToDevicePrefix());
      x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({2})}});
      twice = g.AddOp("CheckNumerics", {g.AddOp("AddV2", {x, x})}, {{"message", std::string("2 x")}});
    }
    auto ps = g.DeviceScope("/job:ps/task:0");
    add_twice = g.AddNode("AssignAddVariableOp", {handle, twice});
  }
  Output x, twice;
  Node* add_twice = nullptr;
};

TEST_P(ServerTest, ASmallStepIsOneCall) {
  auto ps = Start({"ps", 0}), worker = Start({"worker", 0});
  Model model(*worker);
  ASSERT_TRUE(model.g.ok()) << model.g.status();
  auto session = worker->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  auto push = session->Prepare({model.x}, {}, {model.add_twice}).value();
  auto pull = session->Prepare({}, {model.doubled}, {}).value();
  const auto run = [](PreparedStep& step, std::vector<Tensor> feeds, size_t num_fetches) {
    std::vector<Tensor> fetches(num_fetches);
    const absl::Status status = step.Run(feeds, absl::MakeSpan(fetches));
    EXPECT_TRUE(status.ok()) << status;
    return fetches;
  };
  constexpr int kSteps = 10;
  {
    const Counted calls(faults_, "/weir.Worker/RunPartition");
    for (int i = 0; i < kSteps; ++i) run(*push, {Tensor::Vector<float>({1, 2})}, 0);
    for (int i = 0; i < kSteps; ++i) run(*pull, {}, 1);
    EXPECT_EQ(calls.num_calls(), 2 * kSteps);
  }
  {
    const Counted calls(faults_, "/weir.Worker/Push");
    for (int i = 0; i < kSteps; ++i) run(*push, {Tensor::Vector<float>({1, 2})}, 0);
    for (int i = 0; i < kSteps; ++i) run(*pull, {}, 1);
    EXPECT_EQ(calls.num_calls(), 0);
  }
  EXPECT_THAT(Values(run(*pull, {}, 1)[0]), ElementsAre(2 * (1 + 4 * kSteps), 2 * (2 + 8 * kSteps)));
}

// The part on the ps begins with tensors of the worker's part, which never come.
TEST_P(ServerTest, AStepWhoseOwnPartFailsEndsEverywhere) {
  auto ps = Start({"ps", 0}), worker = Start({"worker", 0});
  Model model(*worker);
  auto session = worker->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  for (int i = 0; i < 3; ++i) {
    const absl::Status failed =
        session->Run({{model.x, Tensor::Vector<float>({1, NAN})}}, {}, {model.add_twice}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(failed)) << failed;
    EXPECT_THAT(std::string(failed.message()), HasSubstr("2 x"));
  }
  ASSERT_TRUE(session->Run({{model.x, Tensor::Vector<float>({1, 2})}}, {}, {model.add_twice}).ok());
  EXPECT_THAT(Values((*session->Run({}, {model.read}))[0]), ElementsAre(3, 6));
  EXPECT_EQ(ps->local_worker().num_early_bytes(), 0);
}

// A tensor that came with an answer whose connection broke comes with its repetition.
TEST_P(ServerTest, WhatALostAnswerBroughtComesWithTheNext) {
  auto ps = Start({"ps", 0}), worker = Start({"worker", 0});
  Model model(*worker);
  auto session = worker->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {model.init}).ok());
  ASSERT_TRUE(session->Run({}, {model.doubled}).ok());
  faults_.Add({.action = Fault::Action::kDropReply, .method = "/weir.Worker/RunPartition", .count = 1});
  const auto doubled = session->Run({}, {model.doubled});
  ASSERT_TRUE(doubled.ok()) << doubled.status();
  EXPECT_THAT(Values((*doubled)[0]), ElementsAre(2, 4));
  EXPECT_EQ(faults_.num_hits(), 1);
}

}  // namespace
}  // namespace weir
