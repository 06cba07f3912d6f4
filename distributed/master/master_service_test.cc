#include "distributed/master/master_service.h"

#include <atomic>
#include <functional>
#include <memory>

#include "distributed/master/test_master.h"
#include "gmock/gmock.h"
#include "kernels/real_threads.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class MasterServiceTest : public ::testing::Test {
 protected:
  MasterServiceTest() : session_(client_.CreateSession(TestModel(client_.ops())).value()) {}

  TestMaster client_;
  const std::string session_;
};

TEST_F(MasterServiceTest, AStepIsFedAndFetched) {
  tensorflow::RunStepRequest step = Step(session_, {"twice:0"});
  AddFeed("x:0", Tensor::Vector<float>({1, 2}), &step);
  const auto response = client_.Run(step);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->tensor(0).name(), "twice:0");
  EXPECT_THAT(Floats(*response), ElementsAre(2, 4));
}

TEST_F(MasterServiceTest, AFetchNeedsNoIndex) {
  EXPECT_THAT(Floats(client_.Run(Step(session_, {"one"})).value()), ElementsAre(1));
}

TEST_F(MasterServiceTest, WhatIsFetchedTwiceIsAnsweredOnce) {
  EXPECT_THAT(Floats(client_.Run(Step(session_, {"one:0", "one:0"})).value()), ElementsAre(1));
}

TEST_F(MasterServiceTest, ARepeatedRequestRunsOnce) {
  ASSERT_TRUE(client_.Run(Step(session_, {}, {"set"})).ok());
  tensorflow::RunStepRequest step = Step(session_, {"read:0"}, {"add"});
  step.set_request_id(77);
  const auto first = client_.Run(step), second = client_.Run(step);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->SerializeAsString(), second->SerializeAsString());
  EXPECT_THAT(Floats(client_.Run(Step(session_, {"read:0"})).value()), ElementsAre(2));
  // Without an id it is another step.
  ASSERT_TRUE(client_.Run(Step(session_, {}, {"add"})).ok());
  ASSERT_TRUE(client_.Run(Step(session_, {}, {"add"})).ok());
  EXPECT_THAT(Floats(client_.Run(Step(session_, {"read:0"})).value()), ElementsAre(4));
}

// Each method counts for itself.
TEST_F(MasterServiceTest, RequestsOfTwoMethodsAreNotTheSame) {
  constexpr int64_t kId = 78;
  tensorflow::MakeCallableRequest make;
  make.set_session_handle(session_);
  make.mutable_options()->add_fetch("one:0");
  make.set_request_id(kId);
  const auto callable = client_.Call<tensorflow::MakeCallableResponse>("MakeCallable", make);
  ASSERT_TRUE(callable.ok()) << callable.status();
  tensorflow::RunStepRequest step = Step(session_, {"one:0", "one:0"});
  step.set_request_id(kId);
  const auto answer = client_.Run(step);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(Floats(*answer), ElementsAre(1));
  tensorflow::RunCallableRequest run;
  run.set_session_handle(session_);
  run.set_handle(callable->handle());
  run.set_request_id(kId);
  const auto ran = client_.Call<tensorflow::RunCallableResponse>("RunCallable", run);
  ASSERT_TRUE(ran.ok()) << ran.status();
  ASSERT_EQ(ran->fetch_size(), 1);
}

// It must not get the numbers that another request has asked for.
TEST_F(MasterServiceTest, AnIdThatWasUsedForAnotherRequestIsRefused) {
  tensorflow::RunStepRequest step = Step(session_, {"one:0"});
  step.set_request_id(79);
  ASSERT_TRUE(client_.Run(step).ok());
  tensorflow::RunStepRequest other = Step(session_, {"one:0", "one:0"});
  other.set_request_id(79);
  const absl::Status refused = client_.Run(other).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(refused.message(), HasSubstr("The request id 79 was received twice, with different requests"));
  EXPECT_TRUE(client_.Run(step).ok()) << "the first one's answer is still there";
}

TEST_F(MasterServiceTest, ErrorsStandInTheBodyWhereTheClientWantsThem) {
  tensorflow::RunStepRequest step = Step(session_, {"nowhere:0"});
  const absl::Status status = client_.Run(step).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("FetchOutputs node nowhere:0: not found"));
  step.set_store_errors_in_response_body(true);
  const auto response = client_.Run(step);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->status_code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_EQ(response->status_error_message(), status.message());
}

TEST_F(MasterServiceTest, AnErrorNamesTheNode) {
  const absl::Status status = client_.Run(Step(session_, {"twice:0"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("[[{{node x}}]]"));
  const absl::Status unset = client_.Run(Step(session_, {"read:0"})).status();
  EXPECT_EQ(unset.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(unset.message(), HasSubstr("From /job:local/replica:0/task:0:\n"));
  EXPECT_THAT(unset.message(), HasSubstr("[[{{node read}}]]"));
}

// A client looks for the op by the name that it has in its own graph.
TEST_F(MasterServiceTest, AnErrorOfFusedNodesNamesTheLastOfThem) {
  GraphBuilder g(client_.ops());
  const auto input = [&](const char* name) {
    return g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}}, name);
  };
  const Output product = g.AddOp("MatMul", {input("a"), input("b")}, {}, "product");
  const Output sum = g.AddOp("BiasAdd", {product, input("bias")}, {}, "sum");
  g.AddOp("Relu", {sum}, {}, "dense");
  const std::string session = client_.CreateSession(GraphDefOf(g.graph())).value();
  tensorflow::RunStepRequest step = Step(session, {"dense:0"});
  AddFeed("a:0", Tensor(DType::kFloat32, {2, 3}), &step);
  AddFeed("b:0", Tensor(DType::kFloat32, {4, 2}), &step);
  AddFeed("bias:0", Tensor(DType::kFloat32, {2}), &step);
  const absl::Status refused = client_.Run(step).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("_FusedMatMul 'dense/fused'"));
  EXPECT_THAT(refused.message(), HasSubstr("[[{{node dense}}]]"));
}

TEST_F(MasterServiceTest, WhatCannotBeInOneStepIsRefused) {
  tensorflow::RunStepRequest both = Step(session_, {"x:0"});
  AddFeed("x:0", Tensor::Scalar<float>(1.0f), &both);
  EXPECT_THAT(client_.Run(both).status().message(), HasSubstr("x:0 is both fed and fetched."));
  tensorflow::RunStepRequest twice = Step(session_, {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(1.0f), &twice);
  AddFeed("x", Tensor::Scalar<float>(1.0f), &twice);
  EXPECT_THAT(client_.Run(twice).status().message(), HasSubstr("fed more than once"));
  EXPECT_THAT(client_.Run(Step(session_, {})).status().message(),
              HasSubstr("Must specify at least one target to fetch or execute."));
  EXPECT_THAT(client_.Run(Step(session_, {"one:5"})).status().message(), HasSubstr("output index too large"));
  EXPECT_THAT(client_.Run(Step(session_, {"set:0"})).status().message(), HasSubstr("produces no output"));
  EXPECT_THAT(client_.Run(Step(session_, {}, {"nowhere"})).status().message(),
              HasSubstr("Some target nodes not found: nowhere"));
  EXPECT_TRUE(client_.Run(Step(session_, {}, {"one:0"})).ok());
}

TEST_F(MasterServiceTest, AClientThatGoesAwayEndsItsStep) {
  const auto call = client_.Start("RunStep", Step(session_, {"take:0"}).SerializeAsString());
  call->Cancel();
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Floats(client_.Run(Step(session_, {"one:0"})).value()), ElementsAre(1));
}

TEST_F(MasterServiceTest, AStepEndsByTheDeadlineOfItsCall) {
  const auto call = client_.Start("RunStep", Step(session_, {"take:0"}).SerializeAsString(),
                                  RealEnvironment().Now() + absl::Milliseconds(300));
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kDeadlineExceeded);
  tensorflow::RunStepRequest step = Step(session_, {"take:0"});
  step.mutable_options()->set_timeout_in_ms(100);
  EXPECT_EQ(client_.Run(step).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(MasterServiceTest, AGraphGrowsByItsVersion) {
  GraphBuilder more(client_.ops());
  more.AddOp("Const", {}, {{"value", Tensor::Scalar<float>(3.0f)}, {"dtype", DType::kFloat32}}, "three");
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session_);
  *extend.mutable_graph_def() = GraphDefOf(more.graph());
  tensorflow::NodeDef* sum = extend.mutable_graph_def()->add_node();
  sum->set_name("sum");
  sum->set_op("AddV2");
  sum->add_input("three");
  sum->add_input("one");
  (*sum->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  const auto extended = client_.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend);
  ASSERT_TRUE(extended.ok()) << extended.status();
  EXPECT_EQ(extended->new_graph_version(), 1);
  EXPECT_THAT(Floats(client_.Run(Step(session_, {"sum:0"})).value()), ElementsAre(4));

  const auto late = client_.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend);
  EXPECT_EQ(late.status(), absl::AbortedError("Current version is 1 but caller expected 0."));
  extend.set_current_graph_version(1);
  const auto again = client_.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(again.status().message(), HasSubstr("includes node 'three', which was created"));
  // An extension that is refused leaves the session its graph.
  EXPECT_THAT(Floats(client_.Run(Step(session_, {"sum:0"})).value()), ElementsAre(4));
}

TEST_F(MasterServiceTest, AnUnknownOpMattersOnlyToWhoNeedsIt) {
  tensorflow::GraphDef graph = TestModel(client_.ops());
  graph.add_node()->set_name("strange");
  graph.mutable_node(graph.node_size() - 1)->set_op("NoSuchOp");
  tensorflow::NodeDef* next = graph.add_node();
  next->set_name("next");
  next->set_op("Identity");
  next->add_input("strange");
  (*next->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  const std::string session = client_.CreateSession(graph).value();
  EXPECT_THAT(Floats(client_.Run(Step(session, {"one:0"})).value()), ElementsAre(1));
  const absl::Status status = client_.Run(Step(session, {"next:0"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(),
              HasSubstr("Op type not registered 'NoSuchOp' in binary running on test host"));
  EXPECT_THAT(status.message(), HasSubstr("{{node strange}}"));
}

// As TensorFlow's server, whose client's program has the function.
TEST_F(MasterServiceTest, APythonFunctionIsNotHere) {
  for (const char* op : {"PyFunc", "PyFuncStateless", "EagerPyFunc"}) {
    tensorflow::GraphDef graph = TestModel(client_.ops());
    graph.add_node()->set_name("python");
    graph.mutable_node(graph.node_size() - 1)->set_op(op);
    const std::string session = client_.CreateSession(graph).value();
    const absl::Status status = client_.Run(Step(session, {"python:0"})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(),
                HasSubstr(absl::StrCat("Could not find callback of '", op, "' in the registry")));
    EXPECT_THAT(status.message(), HasSubstr("{{node python}}"));
  }
}

TEST_F(MasterServiceTest, WhatNeedsAnUnknownOpOfAnEarlierAdditionNamesIt) {
  tensorflow::GraphDef graph;
  graph.add_node()->set_name("strange");
  graph.mutable_node(0)->set_op("NoSuchOp");
  const std::string session = client_.CreateSession(graph).value();
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session);
  for (const char* name : {"next", "last"}) {
    tensorflow::NodeDef* node = extend.mutable_graph_def()->add_node();
    node->set_name(name);
    node->set_op("NoOp");
    node->add_input(std::string(name) == "next" ? "^strange" : "^next");
  }
  ASSERT_TRUE(client_.Call<tensorflow::ExtendSessionResponse>("ExtendSession", extend).ok());
  for (const char* name : {"next", "last"}) {
    EXPECT_THAT(client_.Run(Step(session, {}, {name})).status().message(),
                HasSubstr("Op type not registered 'NoSuchOp'"));
  }
}

TEST_F(MasterServiceTest, AnUnknownAttrMattersOnlyToWhoNeedsIt) {
  tensorflow::GraphDef graph = TestModel(client_.ops());
  tensorflow::NodeDef* const node = graph.add_node();
  node->set_name("strange");
  node->set_op("NoOp");
  (*node->mutable_attr())["unheard_of"].set_i(1);
  const std::string session = client_.CreateSession(graph).value();
  EXPECT_TRUE(client_.Run(Step(session, {"one:0"})).ok());
  const absl::Status refused = client_.Run(Step(session, {}, {"strange"})).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("NoOp 'strange': has no attr 'unheard_of'"));
}

TEST_F(MasterServiceTest, AnUnknownDeviceMattersOnlyToWhoNeedsIt) {
  tensorflow::GraphDef graph = TestModel(client_.ops());
  for (tensorflow::NodeDef& node : *graph.mutable_node()) {
    if (node.name() == "twice") node.set_device("/job:elsewhere/task:7");
  }
  const std::string session = client_.CreateSession(graph).value();
  EXPECT_THAT(Floats(client_.Run(Step(session, {"one:0"})).value()), ElementsAre(1));
  tensorflow::RunStepRequest step = Step(session, {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(1.0f), &step);
  EXPECT_EQ(client_.Run(step).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MasterServiceTest, ADeviceFilterThatDoesNotParseIsAnError) {
  tensorflow::ConfigProto config;
  config.add_device_filters("/job:///task:x");
  const absl::Status status = client_.CreateSession({}, config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("device filter '/job:///task:x'"));
}

TEST_F(MasterServiceTest, CallablesCheckTheirFeeds) {
  tensorflow::MakeCallableRequest make;
  make.set_session_handle(session_);
  make.mutable_options()->add_feed("x:0");
  make.mutable_options()->add_fetch("twice:0");
  ASSERT_EQ(client_.Call<tensorflow::MakeCallableResponse>("MakeCallable", make).value().handle(), 0);
  tensorflow::RunCallableRequest run;
  run.set_session_handle(session_);
  const auto call = [&] { return client_.Call<tensorflow::RunCallableResponse>("RunCallable", run); };
  EXPECT_THAT(call().status().message(), HasSubstr("takes 1 feeds, got 0"));
  ASSERT_TRUE(TensorToProto(Tensor::Scalar<float>(4.0f), run.add_feed()).ok());
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(TensorFromProto(call()->fetch(0)).value().flat<float>()[0], 8);
  tensorflow::ReleaseCallableRequest release;
  release.set_session_handle(session_);
  ASSERT_TRUE(client_.Call<tensorflow::ReleaseCallableResponse>("ReleaseCallable", release).ok());
  EXPECT_THAT(call().status().message(), HasSubstr("after handle was released: 0"));
  run.set_handle(77);
  EXPECT_THAT(call().status().message(), HasSubstr("No such callable handle: 77"));
}

TEST_F(MasterServiceTest, ATracedStepSaysWhenItsNodesRan) {
  tensorflow::RunStepRequest step = Step(session_, {"twice:0"});
  AddFeed("x:0", Tensor::Scalar<float>(1.0f), &step);
  step.mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
  const auto response = client_.Run(step);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(Floats(*response), ElementsAre(2));
  EXPECT_THAT(response->metadata().step_stats().ShortDebugString(), HasSubstr("\"twice\""));
}

TEST_F(MasterServiceTest, HandlesThatNobodyHasAreAborted) {
  EXPECT_EQ(client_.Run(Step("nope", {"one:0"})).status(), absl::AbortedError("Session nope is not found."));
  tensorflow::CloseSessionRequest close;
  close.set_session_handle("nope");
  EXPECT_EQ(client_.Call<tensorflow::CloseSessionResponse>("CloseSession", close).status(),
            absl::AbortedError("Session nope is not found. Possibly, this master has restarted."));
  tensorflow::ListDevicesRequest list;
  list.set_session_handle("nope");
  EXPECT_EQ(client_.Call<tensorflow::ListDevicesResponse>("ListDevices", list).status().code(),
            absl::StatusCode::kInvalidArgument);
  list.clear_session_handle();
  const auto devices = client_.Call<tensorflow::ListDevicesResponse>("ListDevices", list);
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(devices->local_device(0).name(), "/job:local/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(client_.Start("NoSuchMethod", "")->Await().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(client_.Start("RunStep", "\x0a\xff\xff")->Await().status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Handles that a client makes up, or has from another server.
TEST_F(MasterServiceTest, HandlesOfResourcesFromElsewhereAreErrors) {
  ASSERT_TRUE(client_.Run(Step(session_, {}, {"set"})).ok());
  const auto fetched = client_.Run(Step(session_, {"v:0"}));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  const auto read = [&](const std::function<void(tensorflow::ResourceHandleProto*)>& change) {
    tensorflow::RunStepRequest step = Step(session_, {"read:0"});
    tensorflow::NamedTensorProto* const feed = step.add_feed();
    feed->set_name("v:0");
    *feed->mutable_tensor() = fetched->tensor(0).tensor();
    change(feed->mutable_tensor()->mutable_resource_handle_val(0));
    return client_.Run(step).status();
  };
  EXPECT_TRUE(read([](auto*) {}).ok()) << read([](auto*) {});
  const absl::Status elsewhere =
      read([](auto* handle) { handle->set_device("/job:other/replica:0/task:7/device:CPU:0"); });
  EXPECT_EQ(elsewhere.code(), absl::StatusCode::kFailedPrecondition) << elsewhere;
  EXPECT_THAT(elsewhere.message(), HasSubstr("located in device /job:other/replica:0/task:7/device:CPU:0"));
  const absl::Status unknown = read([](auto* handle) { handle->set_name("nobody's"); });
  EXPECT_EQ(unknown.code(), absl::StatusCode::kFailedPrecondition) << unknown;
  const absl::Status other_container = read([](auto* handle) { handle->set_container("a box"); });
  EXPECT_EQ(other_container.code(), absl::StatusCode::kFailedPrecondition) << other_container;
  const absl::Status queue = client_
                                 .Run([&] {
                                   tensorflow::RunStepRequest step = Step(session_, {"size:0"});
                                   tensorflow::NamedTensorProto* const feed = step.add_feed();
                                   feed->set_name("queue:0");
                                   *feed->mutable_tensor() = fetched->tensor(0).tensor();
                                   return step;
                                 }())
                                 .status();
  EXPECT_EQ(queue.code(), absl::StatusCode::kNotFound) << queue;
}

TEST_F(MasterServiceTest, ResetForgetsVariablesAndSessions) {
  ASSERT_TRUE(client_.Run(Step(session_, {}, {"set"})).ok());
  ASSERT_TRUE(client_.Call<tensorflow::ResetResponse>("Reset", tensorflow::ResetRequest()).ok());
  EXPECT_EQ(client_.Run(Step(session_, {"read:0"})).status().code(), absl::StatusCode::kAborted);
  const std::string session = client_.CreateSession(TestModel(client_.ops())).value();
  EXPECT_EQ(client_.Run(Step(session, {"read:0"})).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(MasterServiceTest, GraphsThatCannotBeAreRefusedWhole) {
  tensorflow::GraphDef graph;
  tensorflow::NodeDef* node = graph.add_node();
  node->set_name("a");
  node->set_op("Identity");
  node->add_input("nowhere");
  (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  EXPECT_THAT(client_.CreateSession(graph).status().message(),
              HasSubstr("Node 'a': Unknown input node 'nowhere'"));
  node->set_input(0, "b");
  *graph.add_node() = *node;
  graph.mutable_node(1)->set_name("b");
  graph.mutable_node(1)->set_input(0, "a");
  EXPECT_EQ(client_.CreateSession(graph).status().code(), absl::StatusCode::kInvalidArgument);
  graph.Clear();
  graph.mutable_versions()->set_min_consumer(999999);
  EXPECT_EQ(client_.CreateSession(graph).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client_.CreateSession({}).ok());
}

TEST(MasterLimitsTest, ClientsTakeSoMuchAndNoMore) {
  MasterOptions options;
  options.limits.sessions = 3;
  options.limits.bytes = 1 << 20;
  TestMaster client(options);
  std::vector<std::string> sessions;
  for (int i = 0; i < 3; ++i) sessions.push_back(client.CreateSession({}).value());
  EXPECT_EQ(client.CreateSession({}).status().code(), absl::StatusCode::kResourceExhausted);
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(sessions[0]);
  ASSERT_TRUE(client.Call<tensorflow::CloseSessionResponse>("CloseSession", close).ok());
  // A few bytes that stand for a gigabyte.
  GraphBuilder g(client.ops());
  g.AddOp("Const", {}, {{"value", Tensor::Scalar<float>(1.0f)}, {"dtype", DType::kFloat32}}, "big");
  tensorflow::GraphDef graph = GraphDefOf(g.graph());
  auto* tensor = (*graph.mutable_node(0)->mutable_attr())["value"].mutable_tensor();
  tensor->mutable_tensor_shape()->add_dim()->set_size(1 << 28);
  const absl::Status big = client.CreateSession(graph).status();
  EXPECT_EQ(big.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(big.message(), HasSubstr("bytes"));
  EXPECT_TRUE(client.CreateSession({}).ok());
}

TEST(MasterLimitsTest, TenThousandSessionsFitAndTheNextIsRefused) {
  const int64_t before = PeakBytes();
  TestMaster client;
  GraphBuilder g(client.ops());
  g.AddOp("Const", {}, {{"value", Tensor::Scalar<float>(1)}, {"dtype", DType::kFloat32}}, "one");
  const tensorflow::GraphDef graph = GraphDefOf(g.graph());
  std::string first;
  for (int i = 0; i < 10'000; ++i) {
    const absl::StatusOr<std::string> session = client.CreateSession(graph);
    ASSERT_TRUE(session.ok()) << i << ": " << session.status();
    if (i == 0) first = *session;
  }
  EXPECT_EQ(client.CreateSession(graph).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(PeakBytes() - before, int64_t{1} << 30);
  EXPECT_THAT(Floats(client.Run(Step(first, {"one:0"})).value()), ElementsAre(1));
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(first);
  ASSERT_TRUE(client.Call<tensorflow::CloseSessionResponse>("CloseSession", close).ok());
  const absl::Status after = client.CreateSession(graph).status();
  EXPECT_TRUE(after.ok()) << after;
}

// A few bytes of a feed stand for a gigabyte.
TEST(MasterLimitsTest, FeedsTakeNoMoreThanThereIs) {
  MasterOptions options;
  options.limits.bytes = 1 << 20;
  TestMaster client(options);
  const std::string session = client.CreateSession(TestModel(client.ops())).value();
  const auto run = [&](const std::string& handle, int64_t num_elements) {
    tensorflow::RunStepRequest request = Step(handle, {"twice:0"});
    AddFeed("x:0", Tensor::Scalar<float>(1.0f), &request);
    tensorflow::TensorProto* feed = request.mutable_feed(0)->mutable_tensor();
    feed->clear_tensor_content();
    feed->add_float_val(1);
    feed->mutable_tensor_shape()->add_dim()->set_size(num_elements);
    return client.Run(request).status();
  };
  EXPECT_TRUE(run(session, 1 << 10).ok()) << run(session, 1 << 10);
  EXPECT_EQ(run(session, 1 << 26).code(), absl::StatusCode::kResourceExhausted) << run(session, 1 << 26);
  EXPECT_EQ(run("another", 1 << 26).code(), absl::StatusCode::kAborted) << "before any tensor is made";
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(run(session, 1 << 10).ok()) << "what a call took is given back";
}

TEST(MasterLimitsTest, ASessionThatNobodyUsesIsClosed) {
  MasterOptions options;
  options.abandoned_after = absl::Milliseconds(50);
  TestMaster client(options);
  const std::string session = client.CreateSession(TestModel(client.ops())).value();
  const absl::Time end = RealEnvironment().Now() + absl::Minutes(2);
  while (client.master().num_sessions() > 0 && RealEnvironment().Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(client.Run(Step(session, {"one:0"})).status().code(), absl::StatusCode::kAborted);
}

// Real ones that refuse one work when they are told to.
class RefusingThreads final : public Threads {
 public:
  void RefuseOne() { refuses_ = true; }

  void Compute(Runnable* work) override { threads_->Compute(work); }
  absl::Status Block(absl::AnyInvocable<void()> work) override {
    if (refuses_.exchange(false)) return absl::ResourceExhaustedError("no thread");
    return threads_->Block(std::move(work));
  }
  TimerId At(absl::Time when, absl::AnyInvocable<void()> work) override {
    return threads_->At(when, std::move(work));
  }
  bool Forget(TimerId id) override { return threads_->Forget(id); }

 private:
  const std::unique_ptr<RealThreads> threads_ = RealThreads::Create({}).value();
  std::atomic<bool> refuses_ = false;
};

TEST(MasterLimitsTest, SessionsThatNobodyUsesAreLookedForAgainWhenThereWasNoThread) {
  RefusingThreads threads;
  MasterOptions options;
  options.abandoned_after = absl::Milliseconds(200);
  options.threads = &threads;
  TestMaster client(options);
  ASSERT_TRUE(client.CreateSession(TestModel(client.ops())).ok());
  threads.RefuseOne();
  const absl::Time end = RealEnvironment().Now() + absl::Minutes(1);
  while (client.master().num_sessions() > 0 && RealEnvironment().Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(client.master().num_sessions(), 0);
}

TEST(MasterLimitsTest, ASessionWhoseStepWaitsIsNotAbandoned) {
  MasterOptions options;
  options.abandoned_after = absl::Seconds(1);
  TestMaster client(options);
  const std::string session = client.CreateSession(TestModel(client.ops())).value();
  const auto call = client.Start("RunStep", Step(session, {"take:0"}).SerializeAsString());
  const std::string other = client.CreateSession({}).value();
  const absl::Time end = RealEnvironment().Now() + absl::Minutes(2);
  while (client.master().num_sessions() > 1 && RealEnvironment().Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(client.master().num_sessions(), 1) << "that nobody uses is closed";
  EXPECT_FALSE(call->has_reply());
  ASSERT_TRUE(client.Run(Step(session, {}, {"put"})).ok());
  EXPECT_TRUE(call->Await().ok()) << call->Await().status();
}

TEST(MasterLimitsTest, AMasterThatGoesEndsItsSteps) {
  auto client = std::make_unique<TestMaster>();
  const std::string session = client->CreateSession(TestModel(client->ops())).value();
  const auto call = client->Start("RunStep", Step(session, {"take:0"}).SerializeAsString());
  client.reset();
  EXPECT_EQ(call->Await().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace weir
