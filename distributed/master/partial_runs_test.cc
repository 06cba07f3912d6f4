// Partial runs as TensorFlow's clients ask for them.
#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/master/open_work.h"
#include "distributed/master/test_master.h"
#include "gmock/gmock.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/shape_inference.h"
#include "ops/control_flow.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PartialRunsTest : public ::testing::Test {
 protected:
  explicit PartialRunsTest(MasterOptions options = {},
                           RuntimeOptions runtime = {.job = "local", .num_threads = 1})
      : client_(options, runtime), session_(client_.CreateSession(TestModel(client_.ops())).value()) {}

  absl::StatusOr<std::string> Setup(std::vector<std::string> fetches, std::vector<std::string> feeds,
                                    int64_t request_id = 0) {
    tensorflow::PartialRunSetupRequest setup;
    setup.set_session_handle(session_);
    setup.set_request_id(request_id);
    for (std::string& feed : feeds) setup.add_feed(std::move(feed));
    for (std::string& fetch : fetches) setup.add_fetch(std::move(fetch));
    const auto response = client_.Call<tensorflow::PartialRunSetupResponse>("PartialRunSetup", setup);
    if (!response.ok()) return response.status();
    return response->partial_run_handle();
  }

  tensorflow::RunStepRequest Part(const std::string& handle, std::vector<std::string> fetches) {
    tensorflow::RunStepRequest part = Step(session_, std::move(fetches));
    part.set_partial_run_handle(handle);
    return part;
  }

  TestMaster client_;
  const std::string session_;
};

TEST_F(PartialRunsTest, IsFedStepByStep) {
  const std::string handle = Setup({"twice:0", "one:0"}, {"x:0"}).value();
  EXPECT_THAT(Floats(client_.Run(Part(handle, {"one:0"})).value()), ElementsAre(1));
  tensorflow::RunStepRequest second = Part(handle, {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(5.0f), &second);
  EXPECT_THAT(Floats(client_.Run(second).value()), ElementsAre(10));
  for (const std::string& over : {handle, std::string("nope")}) {
    EXPECT_THAT(client_.Run(Part(over, {"one:0"})).status().message(),
                HasSubstr("Must run PartialRunSetup before performing partial runs"));
  }
}

// Its client gets a handle, with which it can wait for the rest, or not.
TEST(ComputingPartialRunTest, WhatNeedsNoFeedComputesAfterTheSetup) {
  TestMaster client;
  GraphBuilder g(client.ops());
  const auto number = [&](int32_t value) {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar<int32_t>(value)}, {"dtype", DType::kInt32}});
  };
  const Output x = g.AddOp("Placeholder", {}, {{"dtype", DType::kInt32}}, "x");
  const Output last = While(
      g, {number(0)},
      [&](const std::vector<Output>& i) {
        return g.AddOp("GreaterEqual", {i[0], number(0)});
      },
      [&](const std::vector<Output>& i) {
        return std::vector{g.AddOp("FloorMod", {g.AddOp("AddV2", {i[0], number(1)}), number(100)})};
      })[0];
  g.AddOp("AddV2", {last, x}, {}, "sum");
  ASSERT_TRUE(g.status().ok()) << g.status();
  const std::string session = client.CreateSession(GraphDefOf(g.graph())).value();
  tensorflow::PartialRunSetupRequest setup;
  setup.set_session_handle(session);
  setup.add_feed("x:0");
  setup.add_fetch("sum:0");
  // More than there are threads for.
  std::vector<std::shared_ptr<TestClientCall>> calls;
  for (int i = 0; i < 2 * OpenWork::kMaxComputing; ++i) {
    calls.push_back(client.Start("PartialRunSetup", setup.SerializeAsString()));
    if (i < OpenWork::kMaxComputing) EXPECT_TRUE(calls.back()->Await().ok());
  }
  EXPECT_TRUE(client.CreateSession(TestModel(client.ops())).ok());
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(session);
  EXPECT_TRUE(client.Call<tensorflow::CloseSessionResponse>("CloseSession", close).ok());
  for (const auto& call : calls) call->Await().IgnoreError();
  while (client.worker().num_running_steps() > 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(PartialRunsTest, FetchesAreTakenAfterTheLastFeed) {
  const std::string handle = Setup({"twice:0", "one:0"}, {"x:0"}).value();
  tensorflow::RunStepRequest first = Part(handle, {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(5.0f), &first);
  EXPECT_THAT(Floats(client_.Run(first).value()), ElementsAre(10));
  const auto second = client_.Run(Part(handle, {"one:0"}));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Floats(*second), ElementsAre(1));
}

TEST_F(PartialRunsTest, ARunNeedsNoFeeds) {
  const std::string handle = Setup({"one:0", "seven:0"}, {}).value();
  for (const char* fetch : {"one:0", "seven:0"}) {
    const auto part = client_.Run(Part(handle, {fetch}));
    ASSERT_TRUE(part.ok()) << part.status();
  }
}

TEST_F(PartialRunsTest, AllPartsGetTheErrorThatEndedTheRun) {
  const std::string handle = Setup({"read:0", "twice:0", "one:0"}, {"x:0"}).value();  // nobody has set v
  EXPECT_EQ(client_.Run(Part(handle, {"read:0"})).status().code(), absl::StatusCode::kFailedPrecondition);
  for (int i = 0; i < 2; ++i) {
    const absl::Status later = client_.Run(Part(handle, {"one:0"})).status();
    EXPECT_EQ(later.code(), absl::StatusCode::kFailedPrecondition) << later;
    EXPECT_THAT(later.message(), HasSubstr("{{node read}}"));
  }
}

TEST_F(PartialRunsTest, APartEndsInTime) {
  const std::string one = Setup({"take:0", "twice:0"}, {"x:0"}).value();
  const absl::Time deadline = absl::Now() + absl::Milliseconds(400);
  const auto call = client_.Start("RunStep", Part(one, {"take:0"}).SerializeAsString(), deadline);
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(call->Await().status().message(), HasSubstr("take:0, was not over after"));
  EXPECT_LT(absl::Now(), deadline + absl::Minutes(1));
  tensorflow::RunStepRequest part = Part(Setup({"take:0", "twice:0"}, {"x:0"}).value(), {"take:0"});
  part.mutable_options()->set_timeout_in_ms(100);
  EXPECT_THAT(client_.Run(part).status().message(), HasSubstr("was not over after 100ms"));
}

// A shutdown calls what was to come later, the end of the part's time, at once.
TEST_F(PartialRunsTest, APartThatAShutdownEndsHasNotRunOutOfTime) {
  const std::string handle = Setup({"take:0", "twice:0"}, {"x:0"}).value();
  tensorflow::RunStepRequest part = Part(handle, {"take:0"});
  part.mutable_options()->set_timeout_in_ms(60000);
  const auto call = client_.Start("RunStep", part.SerializeAsString());
  client_.master().Shutdown();
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kUnavailable) << call->Await().status();
}

TEST_F(PartialRunsTest, ARunEndsWithTheClientThatWaitsForAPart) {
  const std::string handle = Setup({"take:0", "twice:0"}, {"x:0"}).value();
  const auto call = client_.Start("RunStep", Part(handle, {"take:0"}).SerializeAsString());
  call->Cancel();
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kAborted);
  // A part that was answered is nobody's any more: its client may go.
  const std::string other = Setup({"one:0", "twice:0"}, {"x:0"}).value();
  const auto answered = client_.Start("RunStep", Part(other, {"one:0"}).SerializeAsString());
  ASSERT_TRUE(answered->Await().ok());
  answered->Cancel();
  tensorflow::RunStepRequest last = Part(other, {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(1.0f), &last);
  EXPECT_TRUE(client_.Run(last).ok());
}

TEST_F(PartialRunsTest, RunsThatAreLeftMakeRoomForNewOnes) {
  const std::string first = Setup({"twice:0"}, {"x:0"}).value();
  for (int i = 0; i < 1'100; ++i) {
    const auto handle = Setup({"twice:0"}, {"x:0"});
    ASSERT_TRUE(handle.ok()) << i << " " << handle.status();
  }
  EXPECT_THAT(client_.Run(Part(first, {"twice:0"})).status().message(),
              HasSubstr("Must run PartialRunSetup"));
}

TEST_F(PartialRunsTest, ASetupThatComesTwiceIsOneRun) {
  const std::string handle = Setup({"twice:0"}, {"x:0"}, 17).value();
  EXPECT_EQ(Setup({"twice:0"}, {"x:0"}, 17).value(), handle);
  EXPECT_NE(Setup({"twice:0"}, {"x:0"}, 18).value(), handle);
}

TEST_F(PartialRunsTest, AReferenceToAVariableIsFetchedByItsName) {
  tensorflow::GraphDef graph;
  const auto add_node = [&graph](const char* name, const char* op, std::vector<std::string> inputs) {
    tensorflow::NodeDef* node = graph.add_node();
    node->set_name(name);
    node->set_op(op);
    for (std::string& input : inputs) node->add_input(std::move(input));
    (*node->mutable_attr())[node->op() == "Assign" ? "T" : "dtype"].set_type(tensorflow::DT_FLOAT);
    return node;
  };
  (*add_node("r", "VariableV2", {})->mutable_attr())["shape"].mutable_shape();
  add_node("start", "Placeholder", {});
  add_node("begin", "Assign", {"r", "start"});
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session_);
  *extend.mutable_graph_def() = graph;
  const auto extended = client_.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend);
  ASSERT_TRUE(extended.ok()) << extended.status();
  tensorflow::RunStepRequest begin = Step(session_, {}, {"begin"});
  AddFeed("start:0", Tensor::Scalar<float>(3.0f), &begin);
  ASSERT_TRUE(client_.Run(begin).ok());
  for (const char* fetch : {"r:0", "r"}) {
    const std::string handle = Setup({fetch, "one:0"}, {}).value();
    const auto part = client_.Run(Part(handle, {fetch}));
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_THAT(Floats(*part), ElementsAre(3));
  }
}

// An op whose shapes are not known before the test opens the gate. One at a time.
class SlowImport {
 public:
  SlowImport() {
    that_ = this;
    EXPECT_TRUE(RegisterStandardOps(ops_).ok());
    EXPECT_TRUE(ops_.Register({.name = "Slow",
                               .summary = "Takes its time when it is imported.",
                               .outputs = {"y: float"},
                               .infer_shapes = &InferShapes,
                               .gradient = NotDifferentiable})
                    .ok());
  }
  const OpRegistry& ops() const { return ops_; }
  void AwaitBegin() { has_begun_.WaitForNotification(); }
  void Open() { gate_.Notify(); }
  bool was_too_slow() const { return was_too_slow_; }

 private:
  static absl::Status InferShapes(ShapeInference& inference) {
    if (!that_->has_begun_.HasBeenNotified()) that_->has_begun_.Notify();
    if (!that_->gate_.WaitForNotificationWithTimeout(absl::Seconds(30))) that_->was_too_slow_ = true;
    return UnknownShape(inference);
  }

  static SlowImport* that_;
  OpRegistry ops_;
  absl::Notification has_begun_, gate_;
  std::atomic<bool> was_too_slow_{false};
};

SlowImport* SlowImport::that_ = nullptr;

class SlowExtensionTest : private SlowImport, public PartialRunsTest {
 protected:
  SlowExtensionTest() : PartialRunsTest({}, {.job = "local", .num_threads = 1, .ops = &SlowImport::ops()}) {}
  SlowImport& slow() { return *this; }
};

// It comes in on a thread that all clients share.
TEST_F(SlowExtensionTest, APartDoesNotWaitForIt) {
  const std::string handle = Setup({"one:0", "seven:0"}, {}).value();
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session_);
  tensorflow::NodeDef* node = extend.mutable_graph_def()->add_node();
  node->set_name("slow");
  node->set_op("Slow");
  const auto extension = client_.Start("ExtendSession", extend.SerializeAsString());
  slow().AwaitBegin();
  const auto part = client_.Run(Part(handle, {"one:0"}));
  EXPECT_FALSE(slow().was_too_slow()) << "the part has waited for the extension";
  EXPECT_TRUE(part.ok()) << part.status();
  slow().Open();
  EXPECT_TRUE(extension->Await().ok()) << extension->Await().status();
}

class PartialRunLimitsTest : public PartialRunsTest {
 protected:
  PartialRunLimitsTest() : PartialRunsTest(Limits()) {}
  static MasterOptions Limits() {
    MasterOptions options;
    options.limits.bytes = 1 << 20;
    return options;
  }
};

TEST_F(PartialRunLimitsTest, WhatAnOpenRunWasFedCounts) {
  const std::string handle = Setup({"twice:0", "one:0"}, {"x:0"}).value();
  const Tensor large(DType::kFloat32, Shape({90'000}));  // once in the message, once as the tensor
  tensorflow::RunStepRequest part = Part(handle, {"twice:0"});
  AddFeed("x:0", large, &part);
  ASSERT_TRUE(client_.Run(part).ok());
  tensorflow::RunStepRequest step = Step(session_, {"twice:0"});
  AddFeed("x:0", large, &step);
  EXPECT_EQ(client_.Run(step).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(client_.Run(Part(handle, {"one:0"})).ok());  // the run is over
  EXPECT_TRUE(client_.Run(step).ok()) << client_.Run(step).status();
}

TEST_F(PartialRunLimitsTest, WhatARefusedPartBroughtDoesNotCount) {
  const std::string handle = Setup({"twice:0", "one:0", "seven:0"}, {"x:0"}).value();
  const Tensor large(DType::kFloat32, Shape({60'000}));
  tensorflow::RunStepRequest part = Part(handle, {"twice:0"});
  AddFeed("x:0", large, &part);
  ASSERT_TRUE(client_.Run(part).ok());
  part = Part(handle, {"one:0"});
  AddFeed("x:0", large, &part);
  for (int i = 0; i < 20; ++i) {
    const absl::Status refused = client_.Run(part).status();
    ASSERT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << i << " " << refused;
    ASSERT_THAT(refused.message(), HasSubstr("has already been fed"));
  }
  EXPECT_TRUE(client_.Run(Part(handle, {"one:0"})).ok()) << "the run goes on";
}

}  // namespace
}  // namespace weir
