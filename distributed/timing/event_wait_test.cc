#include "distributed/timing/event_wait.h"

#include <thread>

#include "gtest/gtest.h"

namespace weir {
namespace {

class EventWaitTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "with one core nobody polls";
  }

  EventWait wait_;
  Patience patient_{absl::Hours(1)};
  int num_polls_ = 0;
  int num_sleeps_ = 0;
};

TEST_F(EventWaitTest, AnEventThatPollingFindsNeedsNoSleep) {
  wait_.Await(
      &patient_, [&] { return ++num_polls_ == 3; }, [&] { ++num_sleeps_; });
  EXPECT_EQ(num_polls_, 3);
  EXPECT_EQ(num_sleeps_, 0);
}

TEST_F(EventWaitTest, WithoutPatienceItSleepsAtOnce) {
  Patience impatient(absl::ZeroDuration());
  wait_.Await(
      &impatient, [&] { return ++num_polls_ > 0; }, [&] { ++num_sleeps_; });
  EXPECT_EQ(num_polls_, 0);
  EXPECT_EQ(num_sleeps_, 1);
}

TEST_F(EventWaitTest, PollingEndsWhenPatienceDoes) {
  Patience short_lived(absl::Nanoseconds(1));
  wait_.Await(
      &short_lived,
      [&] {
        ++num_polls_;
        return false;
      },
      [&] { ++num_sleeps_; });
  EXPECT_GE(num_polls_, 1);
  EXPECT_EQ(num_sleeps_, 1);
}

// Another thread would call while the first one polls.
TEST_F(EventWaitTest, OnlyOneThreadPolls) {
  Patience others(absl::Hours(1));
  int polls_of_others = 0;
  const auto poll_of_others = [&] { return ++polls_of_others > 0; };
  wait_.Await(
      &patient_,
      [&] {
        wait_.Await(&others, poll_of_others, [&] { ++num_sleeps_; });
        return true;
      },
      [] {});
  EXPECT_EQ(polls_of_others, 0);
  EXPECT_EQ(num_sleeps_, 1);
  wait_.Await(&others, poll_of_others, [] {});
  EXPECT_EQ(polls_of_others, 1);
}

}  // namespace
}  // namespace weir
