// Partial runs as TensorFlow's clients ask for them.
#include "absl/time/clock.h"
#include "distributed/master/test_master.h"
#include "gmock/gmock.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PartialRunsTest : public ::testing::Test {
 protected:
  explicit PartialRunsTest(MasterOptions options = {})
      : client_(options), session_(client_.CreateSession(TestModel(client_.ops())).value()) {}

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

}  // namespace
}  // namespace weir
