#include "session/executor/applied_updates.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using Updates = AppliedUpdates::Updates;

std::string Numbers(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t number : numbers) {
    for (int i = 0; i < 8; ++i) text.push_back(static_cast<char>(number >> (8 * i)));
  }
  return text;
}

TEST(AppliedUpdatesTest, AText) {
  AppliedUpdates applied;
  applied.Add(8, 1, {{3, 2}});
  applied.Add(7, 5, {{3, 1}, {4, 1}});
  applied.Add(9, -6, {{3, 2}});
  applied.Add(9, 7, {});
  const std::string text = applied.Encode(100);
  EXPECT_EQ(text, Numbers({2, 3, 1, 4, 1, 1, 7, 5,  //
                           1, 3, 2, 2, 8, 1, 9, static_cast<uint64_t>(-6)}));
  absl::StatusOr<AppliedUpdates> again = AppliedUpdates::Decode(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Encode(100), text);
  EXPECT_EQ(again->Take(7, 5), (Updates{{3, 1}, {4, 1}}));
  EXPECT_EQ(again->Take(7, 5), Updates());
  EXPECT_EQ(again->num_steps(), 2u);
  again->Settle(9, -6);
  EXPECT_EQ(again->num_steps(), 2u);
  again->Settle(9, -5);
  EXPECT_EQ(again->Take(9, -6), Updates());
  EXPECT_EQ(again->Encode(100), Numbers({1, 3, 2, 1, 8, 1}));
  EXPECT_EQ(again->Encode(0), "");
}

// Several workers say what they know: each its own updates of a step, or, since a restore, the same.
TEST(AppliedUpdatesTest, TextsOneAfterTheOther) {
  AppliedUpdates first, second;
  first.Add(7, 5, {{3, 1}, {4, 2}});
  second.Add(7, 5, {{5, 1}});
  const std::string text = first.Encode(100) + second.Encode(100);
  absl::StatusOr<AppliedUpdates> all = AppliedUpdates::Decode(text + text + first.Encode(100));
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->Encode(100), text);
  EXPECT_EQ(all->Take(7, 5), (Updates{{3, 1}, {4, 2}, {5, 1}}));
}

TEST(AppliedUpdatesTest, WhatNoWorkerWritesIsRefused) {
  const std::string text = Numbers({1, 3, 2, 1, 8, 1});
  ASSERT_TRUE(AppliedUpdates::Decode(text).ok());
  for (size_t size = 1; size < text.size(); ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(AppliedUpdates::Decode(text.substr(0, size)).status())) << size;
  }
  for (const std::vector<uint64_t>& wrong :
       std::vector<std::vector<uint64_t>>{{0, 1, 8, 1},
                                          {1, 3, 2, 0},
                                          {UINT64_MAX, 3, 2, 1, 8, 1},
                                          {uint64_t{1} << 63, 3, 2, 1, 8, 1},
                                          {1, 3, 2, UINT64_MAX, 8, 1},
                                          {1, 0, 2, 1, 8, 1},
                                          {1, 3, 0, 1, 8, 1},
                                          {1, 3, uint64_t{INT32_MAX} + 1, 1, 8, 1},
                                          {1, 3, 2, 1, 0, 1}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(AppliedUpdates::Decode(Numbers(wrong)).status()));
  }
}

TEST(AppliedUpdatesTest, StepsOfOneWriterBecomeThoseOfAnother) {
  AppliedUpdates applied;
  applied.Add(7, 4, {{1, 1}});  // before the first one
  applied.Add(7, 5, {{3, 1}});
  applied.Add(7, 7, {{3, 2}, {5, 1}});
  applied.Add(8, 5, {{9, 1}});
  AppliedUpdates other = applied.Renumbered(7, 5, 11, 100);
  EXPECT_EQ(other.num_steps(), 2);
  EXPECT_EQ(other.Take(11, 100), (AppliedUpdates::Updates{{3, 1}}));
  EXPECT_EQ(other.Take(11, 102), (AppliedUpdates::Updates{{3, 2}, {5, 1}}));
  // A text may have any numbers.
  applied.Add(7, INT64_MAX, {{3, 1}});
  EXPECT_EQ(applied.Renumbered(7, 5, 11, 100).num_steps(), 3);
}

}  // namespace
}  // namespace weir
