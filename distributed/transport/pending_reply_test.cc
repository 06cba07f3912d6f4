#include "distributed/transport/pending_reply.h"

#include <memory>

#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(PendingReplyTest, OnlyTheFirstReplyCounts) {
  PendingReply reply;
  EXPECT_TRUE(reply.BeginReply());
  EXPECT_FALSE(reply.BeginReply());
}

TEST(PendingReplyTest, TheCallbackRunsOnceWhenTheCallIsGivenUp) {
  PendingReply reply;
  int count = 0;
  reply.OnGivenUp([&] { ++count; });
  EXPECT_EQ(count, 0);
  reply.GiveUp();
  reply.GiveUp();
  EXPECT_EQ(count, 1);
  EXPECT_TRUE(reply.BeginReply()) << "the answer may still be wanted by the transport";
}

TEST(PendingReplyTest, ACallbackThatComesLateRunsAtOnce) {
  PendingReply reply;
  reply.GiveUp();
  int count = 0;
  reply.OnGivenUp([&] { ++count; });
  EXPECT_EQ(count, 1);
}

TEST(PendingReplyTest, AfterTheReplyNobodyIsTold) {
  PendingReply reply;
  int count = 0;
  reply.OnGivenUp([&] { ++count; });
  EXPECT_TRUE(reply.BeginReply());
  reply.GiveUp();
  reply.OnGivenUp([&] { ++count; });
  EXPECT_EQ(count, 0);
}

// A handler's callback often holds its call.
TEST(PendingReplyTest, TheReplyDropsTheCallback) {
  const auto held = std::make_shared<int>();
  PendingReply reply;
  reply.OnGivenUp([held] {});
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_TRUE(reply.BeginReply());
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace weir
