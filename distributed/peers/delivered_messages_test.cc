#include "distributed/peers/delivered_messages.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using State = DeliveredMessages::State;

TEST(DeliveredMessagesTest, ARepetitionIsKnownHoweverManyOthersSendMeanwhile) {
  DeliveredMessages messages;
  EXPECT_EQ(*messages.Begin(7, {1, 1}), State::kNew);
  EXPECT_EQ(*messages.Begin(7, {1, 1}), State::kUnderWay);
  messages.End(7, 1, true);
  for (Incarnation other = 100; other < 1100; ++other) {
    for (uint64_t number = 1; number <= 100; ++number) {
      ASSERT_EQ(*messages.Begin(other, {number, number}), State::kNew);
      messages.End(other, number, true);
    }
  }
  EXPECT_EQ(*messages.Begin(7, {1, 1}), State::kDelivered);
}

TEST(DeliveredMessagesTest, WhatHasBeenAnsweredIsNotRememberedAndNotDeliveredAgain) {
  DeliveredMessages messages;
  for (uint64_t number = 1; number <= 4 * DeliveredMessages::kMaxUnanswered; ++number) {
    const uint64_t answered_below = number > 5 ? number - 5 : 0;
    ASSERT_EQ(*messages.Begin(7, {number, answered_below}), State::kNew) << number;
    messages.End(7, number, true);
  }
  EXPECT_EQ(*messages.Begin(7, {3, 0}), State::kDelivered);
}

TEST(DeliveredMessagesTest, ADeliveryThatFailedMayBeTriedAgain) {
  DeliveredMessages messages;
  EXPECT_EQ(*messages.Begin(7, {1, 1}), State::kNew);
  messages.End(7, 1, false);
  EXPECT_EQ(*messages.Begin(7, {1, 1}), State::kNew);
}

TEST(DeliveredMessagesTest, WhatIsRememberedIsBounded) {
  DeliveredMessages messages;
  for (uint64_t number = 1; number <= DeliveredMessages::kMaxUnanswered; ++number) {
    ASSERT_TRUE(messages.Begin(7, {number, 1}).ok());
  }
  const absl::Status full = messages.Begin(7, {DeliveredMessages::kMaxUnanswered + 1, 1}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("8192 earlier ones of its sender are not answered"));
  EXPECT_EQ(*messages.Begin(8, {1, 1}), State::kNew) << "of another sender";
  messages.Forget(7);
  EXPECT_EQ(*messages.Begin(7, {1, 1}), State::kNew);
  // Lives that began earliest are forgotten first.
  for (Incarnation life = 100; life < 100 + DeliveredMessages::kMaxSenders; ++life) {
    ASSERT_TRUE(messages.Begin(life, {1, 1}).ok());
  }
  EXPECT_EQ(*messages.Begin(8, {1, 1}), State::kNew);
  EXPECT_EQ(*messages.Begin(100 + DeliveredMessages::kMaxSenders - 1, {1, 1}), State::kUnderWay);
}

}  // namespace
}  // namespace weir
