// Damaged and hostile requests of TensorFlow's clients must be errors: never a crash, a hang, or memory
// beyond what the request has; and the server goes on.
#include "absl/strings/str_cat.h"
#include "distributed/master/step_messages.h"
#include "distributed/master/test_master.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"
#include "graph/interchange/split_message.h"
#include "gtest/gtest.h"
#include "tests/fuzz/mutator.h"

namespace weir {
namespace {

class MasterFuzzTest : public ::testing::Test {
 protected:
  static constexpr int kRounds = 3000;
  // The limit of bytes, and what threads, plans and logs of this test take. A splat alone may stand for more.
  static constexpr int64_t kMaxGrowth = int64_t{1} << 30;

  MasterFuzzTest() : client_(Limits()) {
    google::protobuf::SetLogHandler(nullptr);  // complains about each mutation that is no UTF-8
    session_ = client_.CreateSession(TestModel(client_.ops())).value();
  }
  ~MasterFuzzTest() override {
    const auto response = client_.Run(Step(session_, {"one:0"}));
    EXPECT_TRUE(response.ok()) << "the server serves no more: " << response.status();
    EXPECT_LT(PeakBytes() - peak_at_start_, kMaxGrowth) << "requests took memory that nobody had given them";
  }

  static MasterOptions Limits() {
    MasterOptions options;
    options.limits.sessions = 50;
    options.limits.bytes = 16 << 20;
    return options;
  }

  // Every call has an answer.
  void Send(absl::string_view method, const google::protobuf::MessageLite& sample, uint64_t seed,
            int rounds = kRounds) {
    Mutator mutator({sample.SerializeAsString()}, seed);
    for (int i = 0; i < rounds; ++i) {
      const auto call = client_.Start(method, mutator.Next(), RealEnvironment().Now() + absl::Seconds(20));
      ASSERT_NE(call->Await().status().message(), "the test waits for an answer that does not come") << i;
    }
  }

  tensorflow::RunStepRequest SampleStep() {
    tensorflow::RunStepRequest step = Step(session_, {"twice:0", "one:0"}, {"set"});
    AddFeed("x:0", Tensor::Vector<float>({1, 2, 3}), &step);
    step.mutable_options()->set_timeout_in_ms(10'000);
    step.set_store_errors_in_response_body(true);
    return step;
  }

  const int64_t peak_at_start_ = PeakBytes();
  TestMaster client_;
  std::string session_;
};

TEST_F(MasterFuzzTest, Steps) { Send("RunStep", SampleStep(), 1); }

TEST_F(MasterFuzzTest, StepsWithIds) {
  tensorflow::RunStepRequest step = SampleStep();
  step.set_request_id(123456789);
  Send("RunStep", step, 2, 500);
}

TEST_F(MasterFuzzTest, Sessions) {
  tensorflow::CreateSessionRequest request;
  *request.mutable_graph_def() = TestModel(client_.ops());
  request.mutable_config()->add_device_filters("/job:local/task:0");
  request.mutable_config()->set_operation_timeout_in_ms(5000);
  Mutator mutator({request.SerializeAsString()}, 3);
  for (int i = 0; i < kRounds; ++i) {
    const absl::StatusOr<std::string> answer = client_.Start("CreateSession", mutator.Next())->Await();
    tensorflow::CreateSessionResponse response;
    if (!answer.ok()) continue;
    ASSERT_TRUE(response.ParseFromString(*answer));
    tensorflow::CloseSessionRequest close;
    close.set_session_handle(response.session_handle());
    ASSERT_TRUE(client_.Call<tensorflow::CloseSessionResponse>("CloseSession", close).ok()) << i;
  }
}

// A function that two calls name, and that calls another. Where all of the message were damaged, hardly any
// would be read: a function or a node of it is.
TEST_F(MasterFuzzTest, SessionsWithFunctions) {
  tensorflow::CreateSessionRequest request;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }
      node { name: 'f1' op: 'StatefulPartitionedCall' input: 'x' attr { key: 'f' value { func { name: 'f' } } }
        attr { key: 'Tin' value { list { type: DT_FLOAT } } } attr { key: 'Tout' value { list { type: DT_FLOAT } } } }
      node { name: 'f2' op: 'f' input: 'f1' }
      library {
        function { signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }
          node_def { name: 'b' op: 'g' input: 'a' } node_def { name: 'c' op: 'g' input: 'b:r:0' }
          ret { key: 'r' value: 'c:r:0' } }
        function { signature { name: 'g' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }
          node_def { name: 'd' op: 'AddV2' input: 'a' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }
          ret { key: 'r' value: 'd:z:0' } } })",
                                                            request.mutable_graph_def()));
  tensorflow::FunctionDefLibrary whole = request.graph_def().library();
  Mutator mutator({whole.function(0).SerializeAsString(), whole.function(1).SerializeAsString()}, 15);
  int num_run = 0, num_refused = 0;
  for (int i = 0; i < kRounds; ++i) {
    *request.mutable_graph_def()->mutable_library() = whole;
    tensorflow::FunctionDef* const function =
        request.mutable_graph_def()->mutable_library()->mutable_function(static_cast<int>(mutator.Below(2)));
    google::protobuf::MessageLite* victim = function;
    if (mutator.Below(2) == 0) {
      victim = function->mutable_node_def(static_cast<int>(mutator.Below(function->node_def_size())));
    }
    if (!victim->ParseFromString(mutator.NextOf(victim->SerializeAsString()))) continue;
    const auto response = client_.Call<tensorflow::CreateSessionResponse>("CreateSession", request);
    if (!response.ok()) continue;
    tensorflow::RunStepRequest step = Step(response->session_handle(), {"f2:0"});
    AddFeed("x:0", Tensor::Scalar<float>(1), &step);
    const bool has_run = client_.Run(step).ok();
    ++(has_run ? num_run : num_refused);
    tensorflow::CloseSessionRequest close;
    close.set_session_handle(response->session_handle());
    ASSERT_TRUE(client_.Call<tensorflow::CloseSessionResponse>("CloseSession", close).ok()) << i;
  }
  EXPECT_GT(num_run, 10);
  EXPECT_GT(num_refused, 100);
}

TEST_F(MasterFuzzTest, Extensions) {
  tensorflow::ExtendSessionRequest request;
  request.set_session_handle(session_);
  tensorflow::NodeDef* node = request.mutable_graph_def()->add_node();
  node->set_name("more");
  node->set_op("Identity");
  node->add_input("one");
  (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  Send("ExtendSession", request, 4);
}

TEST_F(MasterFuzzTest, Callables) {
  tensorflow::MakeCallableRequest make;
  make.set_session_handle(session_);
  make.mutable_options()->add_feed("x:0");
  make.mutable_options()->add_fetch("twice:0");
  make.mutable_options()->add_target("set");
  ASSERT_TRUE(client_.Call<tensorflow::MakeCallableResponse>("MakeCallable", make).ok());
  Send("MakeCallable", make, 5, 1000);
  tensorflow::RunCallableRequest run;
  run.set_session_handle(session_);
  ASSERT_TRUE(TensorToProto(Tensor::Vector<float>({1, 2, 3}), run.add_feed()).ok());
  Send("RunCallable", run, 6);
  tensorflow::ReleaseCallableRequest release;
  release.set_session_handle(session_);
  release.set_handle(5);
  Send("ReleaseCallable", release, 7, 500);
}

TEST_F(MasterFuzzTest, PartialRuns) {
  tensorflow::PartialRunSetupRequest setup;
  setup.set_session_handle(session_);
  setup.add_feed("x:0");
  setup.add_fetch("twice:0");
  setup.set_request_id(3);
  Send("PartialRunSetup", setup, 8, 1000);
  setup.clear_request_id();
  const auto handle = client_.Call<tensorflow::PartialRunSetupResponse>("PartialRunSetup", setup);
  ASSERT_TRUE(handle.ok()) << handle.status();
  tensorflow::RunStepRequest step = Step(session_, {"twice:0"});
  AddFeed("x:0", Tensor::Vector<float>({1, 2, 3}), &step);
  step.set_partial_run_handle(handle->partial_run_handle());
  // Whatever begins a fetch gives it the feed too.
  Send("RunStep", step, 9, 1000);
}

TEST_F(MasterFuzzTest, TheRest) {
  tensorflow::ListDevicesRequest list;
  list.set_session_handle(session_);
  Send("ListDevices", list, 10, 500);
  tensorflow::CloseSessionRequest close;
  close.set_session_handle("0123456789abcdef");
  Send("CloseSession", close, 11, 500);
}

TEST_F(MasterFuzzTest, Resets) {
  tensorflow::ResetRequest reset;
  reset.add_container("box");
  reset.add_device_filters("/job:local");
  Send("Reset", reset, 13, 500);
  session_ = client_.CreateSession(TestModel(client_.ops())).value();  // a reset ends all sessions
}

// A few bytes of a feed that stand for many, in all ways that a mutation finds.
TEST_F(MasterFuzzTest, FeedsThatStandForMore) {
  tensorflow::RunStepRequest step = SampleStep();
  tensorflow::TensorProto* feed = step.mutable_feed(0)->mutable_tensor();
  feed->clear_tensor_content();
  feed->add_float_val(1);
  feed->mutable_tensor_shape()->mutable_dim(0)->set_size(500'000'000);
  Send("RunStep", step, 14, 1000);
}

// A message is the rest of it and its pieces, whatever the order.
TEST(SplitMessageFuzzTest, PiecesLieWithinTheMessage) {
  tensorflow::RunStepRequest step = Step("session", {"a:0"});
  AddFeed("x:0", Tensor::Vector<float>({1, 2, 3}), &step);
  AddFeed("y:0", Tensor::Vector<float>({4}), &step);
  Mutator mutator({step.SerializeAsString()}, 12);
  for (int i = 0; i < 20'000; ++i) {
    const std::string bytes = mutator.Next();
    const absl::StatusOr<SplitMessage> split =
        SplitMessageBytes(bytes, tensorflow::RunStepRequest::kFeedFieldNumber);
    if (!split.ok()) continue;
    size_t num_bytes = split->rest.size();
    for (const absl::string_view piece : split->pieces) {
      ASSERT_GE(piece.data(), bytes.data());
      ASSERT_LE(piece.data() + piece.size(), bytes.data() + bytes.size());
      num_bytes += piece.size();
    }
    EXPECT_LE(num_bytes, bytes.size());
    // Nothing is lost: put together again they are the message.
    tensorflow::RunStepRequest whole, joined;
    if (!whole.ParseFromString(bytes)) continue;
    std::string parts = split->rest;
    for (const absl::string_view piece : split->pieces) {
      AppendPieceHead(tensorflow::RunStepRequest::kFeedFieldNumber, piece.size(), &parts);
      absl::StrAppend(&parts, piece);
    }
    ASSERT_TRUE(joined.ParseFromString(parts));
    EXPECT_EQ(joined.SerializeAsString(), whole.SerializeAsString());
  }
}

}  // namespace
}  // namespace weir
