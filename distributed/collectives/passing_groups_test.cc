#include "distributed/collectives/passing_groups.h"

#include <optional>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "graph/types/tensor.h"
#include "gtest/gtest.h"
#include "kernels/cancellation.h"
#include "kernels/environment.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

class PassingGroupsTest : public testing::Test {
 protected:
  // What a device computes: the sum of a number for each; nullopt while it waits.
  using Sum = std::shared_ptr<std::optional<absl::StatusOr<float>>>;

  Sum Add(const std::string& device, int64_t size, float value, int64_t instance = 1) {
    const Communicator::Call call = {"sum", {7, instance}, &step_};
    Sum sum = std::make_shared<std::optional<absl::StatusOr<float>>>();
    groups_->Come(device, size, call, [call, value, sum](absl::StatusOr<RefPtr<Communicator>> found) {
      if (!found.ok()) return void(*sum = found.status());
      (*found)->AllReduce(call, Tensor::Scalar(value), Reduction::kSum, false,
                          [sum, held = *found](absl::StatusOr<Tensor> result) {
                            *sum = result.ok() ? absl::StatusOr<float>(result->scalar<float>())
                                               : absl::StatusOr<float>(result.status());
                          });
    });
    return sum;
  }

  Cancellation step_;
  RefPtr<PassingGroups> groups_ = MakePassingGroups({"CPU:0", "CPU:1", "CPU:2"}, RealEnvironment());
};

TEST_F(PassingGroupsTest, DevicesThatComeToTheSameCollectiveAreAGroup) {
  const Sum second = Add("CPU:2", 2, 1), other = Add("CPU:2", 2, 10, /*instance=*/2);
  EXPECT_FALSE(second->has_value());
  const Sum first = Add("CPU:0", 2, 2);
  ASSERT_TRUE(first->has_value() && second->has_value());
  EXPECT_EQ(first->value().value(), 3);
  EXPECT_EQ(second->value().value(), 3);
  EXPECT_FALSE(other->has_value());
  const Sum others = Add("CPU:1", 2, 20, 2);  // another device than that of the first collective
  EXPECT_EQ(other->value().value(), 30);
  EXPECT_EQ(others->value().value(), 30);
  const Sum again = Add("CPU:0", 2, 4);
  EXPECT_EQ(Add("CPU:1", 2, 5)->value().value(), 9) << "the same collective once more, as in a loop";
  EXPECT_EQ(again->value().value(), 9);
}

TEST_F(PassingGroupsTest, RanksAreInTheOrderOfTheDevices) {
  std::vector<int> ranks;
  const Communicator::Call call = {"ranks", {7, 1}, &step_};
  for (const char* device : {"CPU:2", "CPU:0", "CPU:1"}) {
    groups_->Come(device, 3, call, [&ranks](absl::StatusOr<RefPtr<Communicator>> found) {
      ranks.push_back((*found)->rank());
      EXPECT_EQ((*found)->size(), 3);
    });
  }
  EXPECT_THAT(ranks, testing::ElementsAre(0, 1, 2));
}

TEST_F(PassingGroupsTest, WhatCannotBeAGroupEndsForAllThatHaveCome) {
  const Sum waits = Add("CPU:0", 2, 1);
  const Sum twice = Add("CPU:0", 2, 1);
  EXPECT_THAT(std::string(twice->value().status().message()), HasSubstr("CPU:0 comes twice in one step"));
  EXPECT_EQ(waits->value().status(), twice->value().status());
  const Sum two = Add("CPU:0", 2, 1), three = Add("CPU:1", 3, 1);
  EXPECT_THAT(std::string(three->value().status().message()),
              HasSubstr("group with size 3, but that group has size 2"));
  EXPECT_FALSE(two->value().ok());
  EXPECT_THAT(std::string(Add("CPU:0", 4, 1)->value().status().message()),
              HasSubstr("this task has 3 devices"));
  EXPECT_THAT(std::string(Add("GPU:0", 1, 1)->value().status().message()), HasSubstr("GPU:0 is none"));
}

// A client may reset any container.
TEST_F(PassingGroupsTest, WhoWaitsIsToldWhenTheGroupsAreDropped) {
  const Sum waits = Add("CPU:0", 2, 1), other = Add("CPU:1", 2, 1, /*instance=*/2);
  groups_ = RefPtr<PassingGroups>();
  ASSERT_TRUE(waits->has_value() && other->has_value());
  EXPECT_TRUE(absl::IsCancelled(waits->value().status()));
  step_.Cancel(absl::CancelledError("nobody listens any more"));
}

TEST_F(PassingGroupsTest, NobodyWaitsLongerThanItsNodeSays) {
  absl::Mutex mutex;
  std::optional<absl::Status> status;
  const Communicator::Call call = {
      .name = "sum", .key = {7, 1}, .cancellation = &step_, .timeout = absl::Milliseconds(10)};
  groups_->Come("CPU:0", 2, call, [&](absl::StatusOr<RefPtr<Communicator>> found) {
    absl::MutexLock lock(&mutex);
    status = found.status();
  });
  {
    absl::MutexLock lock(&mutex);
    const auto is_over = [&] { return status.has_value(); };
    ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&is_over), absl::Seconds(60)));
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(*status)) << *status;
  const Sum next = Add("CPU:0", 2, 1);  // the group that has been given up is no part of it
  EXPECT_EQ(Add("CPU:1", 2, 2)->value().value(), 3);
}

TEST_F(PassingGroupsTest, AStepThatIsOverWaitsForNobody) {
  const Sum waits = Add("CPU:0", 2, 1);
  step_.Cancel(absl::CancelledError("enough"));
  EXPECT_TRUE(absl::IsCancelled(waits->value().status()));
  EXPECT_TRUE(absl::IsCancelled(Add("CPU:1", 2, 1)->value().status()));
}

}  // namespace
}  // namespace weir
