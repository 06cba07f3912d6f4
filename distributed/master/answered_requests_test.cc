#include "distributed/master/answered_requests.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/environment.h"
#include "kernels/threads.h"

namespace weir {
namespace {

class NoThreads final : public Threads {
 public:
  void Compute(Runnable* /*work*/) override {}
  absl::Status Block(absl::AnyInvocable<void()> /*work*/) override { return absl::OkStatus(); }
  TimerId At(absl::Time /*when*/, absl::AnyInvocable<void()> /*work*/) override { return 1; }
  bool Forget(TimerId /*id*/) override { return true; }
};

class Call final : public IncomingCall {
 public:
  const std::string& method() const override { return method_; }
  Frame& request() override { return request_; }
  absl::Time deadline() const override { return absl::InfiniteFuture(); }
  std::string client() const override { return "test"; }
  void Compute(absl::AnyInvocable<void()> work) override { work(); }
  void Reply(absl::StatusOr<Frame> reply) override {
    num_bytes = reply.ok() ? static_cast<int64_t>(reply->num_wire_bytes()) : 0;
  }
  void OnCancel(std::function<void()> /*callback*/) override {}

  int64_t num_bytes = 0;  // of the answer

 private:
  const std::string method_ = "/tensorflow.MasterService/RunStep";
  Frame request_;
};

class AnsweredRequestsTest : public testing::Test {
 protected:
  ~AnsweredRequestsTest() override {
    work_.Close();
    work_.AwaitEnd();
  }

  std::shared_ptr<Call> Begin(const std::string& session, int64_t id) {
    auto call = std::make_shared<Call>();
    const auto client = std::make_shared<ClientCall>(RealEnvironment(), work_, absl::InfiniteFuture());
    EXPECT_TRUE(answered_.Begin({session, "RunStep", id}, kFingerprint, call, client));
    return call;
  }
  void Answer(const std::string& session, int64_t id, Call& call, int64_t num_bytes) {
    Frame frame;
    frame.payloads.push_back(Payload::OfString(std::string(num_bytes, 'x')));
    answered_.Answer({session, "RunStep", id}, call, std::move(frame));
    EXPECT_GE(call.num_bytes, num_bytes);
  }
  int64_t BytesKept() const { return use_.total().bytes; }

  static constexpr size_t kFingerprint = 7;
  static constexpr int64_t kLarge = AnsweredRequests::kSmallBytes * 2;
  NoThreads threads_;
  OpenWork work_{RealEnvironment(), threads_};
  PeerUse use_{PeerLimits{.bytes = 1 << 30}};
  AnsweredRequests answered_{
      [this](int64_t num_bytes) { return use_.Take({}, 1, {.bytes = num_bytes}, "an answer"); }};
};

TEST_F(AnsweredRequestsTest, ALargeAnswerIsKeptUntilItsSessionIsClosed) {
  const auto call = Begin("a", 1);
  Answer("a", 1, *call, kLarge);
  EXPECT_GE(BytesKept(), kLarge);
  answered_.Forget("b");
  EXPECT_GE(BytesKept(), kLarge);
  answered_.Forget("a");
  EXPECT_EQ(BytesKept(), 0);
}

// Nobody would have dropped it but for want of room.
TEST_F(AnsweredRequestsTest, ALargeAnswerAfterTheEndOfItsSessionIsNotKept) {
  const auto call = Begin("a", 1), other = Begin("b", 1);
  answered_.Forget("a");
  Answer("a", 1, *call, kLarge);
  EXPECT_EQ(BytesKept(), 0);
  Answer("b", 1, *other, kLarge);
  EXPECT_GE(BytesKept(), kLarge);
  EXPECT_TRUE(answered_.DropOldest());
  EXPECT_FALSE(answered_.DropOldest());
}

TEST_F(AnsweredRequestsTest, WhatIsTooOldIsNoLargeAnswerEither) {
  const auto call = Begin("a", 1);
  Answer("a", 1, *call, kLarge);
  for (int64_t id = 1; id <= static_cast<int64_t>(AnsweredRequests::kMaxRequests); ++id) {
    Answer("b", id, *Begin("b", id), 1);
  }
  EXPECT_EQ(BytesKept(), 0);
  EXPECT_FALSE(answered_.DropOldest());
}

}  // namespace
}  // namespace weir
