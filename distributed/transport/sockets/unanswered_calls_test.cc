#include "distributed/transport/sockets/unanswered_calls.h"

#include <memory>

#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(UnansweredCallsTest, ANumberIsRefusedUntilItsCallHasBeenAnswered) {
  UnansweredCalls calls(/*max_calls=*/10);
  ASSERT_TRUE(calls.Admit(7).ok());
  EXPECT_EQ(calls.Admit(7),
            absl::AlreadyExistsError(
                "call 7 came again before it was answered: a number is used for one call at a time"));
  EXPECT_TRUE(calls.Admit(8).ok());
  calls.Remove(7);
  EXPECT_TRUE(calls.Admit(7).ok());
}

TEST(UnansweredCallsTest, CallsAboveTheLimitAreRefused) {
  UnansweredCalls calls(/*max_calls=*/2);
  ASSERT_TRUE(calls.Admit(1).ok());
  ASSERT_TRUE(calls.Admit(2).ok());
  EXPECT_EQ(calls.Admit(3),
            absl::ResourceExhaustedError(
                "call 3 came when 2 calls of its connection had no answer yet, the limit is 2"));
  calls.Remove(1);
  EXPECT_TRUE(calls.Admit(3).ok());
}

TEST(UnansweredCallsTest, NothingIsAdmittedAfterClose) {
  UnansweredCalls calls(/*max_calls=*/10);
  ASSERT_TRUE(calls.Admit(1).ok());
  const auto reply = std::make_shared<PendingReply>();
  EXPECT_TRUE(calls.Begin(1, reply));
  int num_given_up = 0;
  reply->OnGivenUp([&] { ++num_given_up; });
  calls.Close();
  EXPECT_EQ(num_given_up, 1);
  EXPECT_EQ(calls.Admit(2), absl::CancelledError("call 2 came when the connection had been closed"));
  EXPECT_FALSE(calls.Begin(1, reply));
}

// The cancellation may overtake the request that is still being handed on.
TEST(UnansweredCallsTest, ACallThatWasGivenUpBeforeItBeganIsTold) {
  UnansweredCalls calls(/*max_calls=*/10);
  ASSERT_TRUE(calls.Admit(1).ok());
  calls.GiveUp(1);
  calls.GiveUp(99);
  const auto reply = std::make_shared<PendingReply>();
  EXPECT_TRUE(calls.Begin(1, reply));
  bool is_given_up = false;
  reply->OnGivenUp([&] { is_given_up = true; });
  EXPECT_TRUE(is_given_up);
}

}  // namespace
}  // namespace weir
