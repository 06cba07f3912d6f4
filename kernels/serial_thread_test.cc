#include "kernels/serial_thread.h"

#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

TEST(SerialThread, WorkRunsInItsOrderAndIsAwaited) {
  SerialThread thread;
  absl::Notification begin;
  std::vector<int> order;
  ASSERT_TRUE(thread.Add([&] { begin.WaitForNotification(); }).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(thread.Add([&order, i] { order.push_back(i); }).ok());
  begin.Notify();
  thread.AwaitAll();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(SerialThread, WhatItKeepsIsGoneWhenItCountsAsRun) {
  SerialThread thread;
  auto kept = std::make_shared<int>(1);
  ASSERT_TRUE(thread.Add([kept] {}).ok());
  thread.AwaitAll();
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(SerialThread, EverythingRunsBeforeItEnds) {
  std::vector<int> order;
  {
    SerialThread thread;
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(thread.Add([&order, i] { order.push_back(i); }).ok());
  }
  EXPECT_EQ(order.size(), 100u);
}

TEST(SerialThread, WithoutWorkThereIsNothingToAwait) {
  SerialThread thread;
  thread.AwaitAll();
}

}  // namespace
}  // namespace weir
