#include "distributed/collectives/device_group.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "distributed/collectives/test_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("/device:CPU:", i));
  return names;
}

// What a node is given in a step.
Communicator::Call CallIn(Cancellation& step, int64_t instance = 1) {
  return {.name = "mean", .key = {Communicator::kFirstDeviceGroup, instance}, .cancellation = &step};
}

template <typename T>
std::vector<T> Values(const TestGroup::Outcome& outcome) {
  if (!outcome->has_value() || !(*outcome)->ok()) return {};
  const Tensor& tensor = ***outcome;
  return {tensor.flat<T>().begin(), tensor.flat<T>().end()};
}

absl::Status StatusOf(const TestGroup::Outcome& outcome) {
  return outcome->has_value() ? (*outcome)->status() : absl::UnknownError("it has not ended");
}

std::vector<TestGroup::Outcome> Outcomes(size_t count) {
  std::vector<TestGroup::Outcome> outcomes;
  for (size_t i = 0; i < count; ++i) {
    outcomes.push_back(std::make_shared<std::optional<absl::StatusOr<Tensor>>>());
  }
  return outcomes;
}

Tensor Noise(int rank, int64_t count) {
  std::mt19937 random(rank + 1);
  std::normal_distribution<float> normal;
  Tensor tensor(DType::kFloat32, Shape({count}));
  for (float& value : tensor.flat<float>()) value = normal(random);
  return tensor;
}

TEST(DeviceGroupTest, AllDevicesGetTheResultWhenTheLastHasCome) {
  const auto devices = MakeDeviceGroup(Names(3));
  Cancellation step;
  const auto sums = Outcomes(3), gathered = Outcomes(3), sent = Outcomes(3);
  for (const int i : {2, 0, 1}) {
    EXPECT_EQ(devices[i]->rank(), i);
    EXPECT_EQ(devices[i]->size(), 3);
    EXPECT_FALSE(sums[0]->has_value());
    const auto value = static_cast<float>(1 << i);
    devices[i]->AllReduce(CallIn(step, 1), Tensor::Vector<float>({value, 3}), Reduction::kSum, true,
                          TestGroup::Into(sums[i]));
    devices[i]->AllGather(CallIn(step, 2),
                          i == 1 ? Tensor::Vector<float>({}) : Tensor::Vector<float>({value}),
                          TestGroup::Into(gathered[i]));
    devices[i]->Broadcast(CallIn(step, 3), 1, DType::kInt64, i == 1 ? Tensor::Vector<int64_t>({5}) : Tensor(),
                          TestGroup::Into(sent[i]));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Values<float>(sums[i]), ElementsAre(7.0f / 3, 3));
    EXPECT_THAT(Values<float>(gathered[i]), ElementsAre(1, 4));
    EXPECT_THAT(Values<int64_t>(sent[i]), ElementsAre(5));
  }
}

// Steps of several sessions, whose graphs have the same keys.
TEST(DeviceGroupTest, StepsAreKeptApart) {
  const auto devices = MakeDeviceGroup(Names(2));
  Cancellation a, b;
  const auto of_a = Outcomes(2), of_b = Outcomes(2);
  const auto add = [&](int device, Cancellation& step, float value, const TestGroup::Outcome& outcome) {
    devices[device]->AllReduce(CallIn(step), Tensor::Scalar(value), Reduction::kSum, false,
                               TestGroup::Into(outcome));
  };
  add(0, a, 1, of_a[0]);
  add(1, b, 20, of_b[1]);
  add(0, b, 10, of_b[0]);
  add(1, a, 2, of_a[1]);
  EXPECT_THAT(Values<float>(of_a[0]), ElementsAre(3));
  EXPECT_THAT(Values<float>(of_b[0]), ElementsAre(30));
}

TEST(DeviceGroupTest, AStepThatFailsLeavesNothingBehind) {
  const auto devices = MakeDeviceGroup(Names(2));
  for (const bool is_cancelled_before : {false, true}) {
    Cancellation step;
    const auto failed = Outcomes(1);
    if (is_cancelled_before) step.Cancel(absl::DataLossError("bad image"));
    devices[0]->AllReduce(CallIn(step), Tensor::Scalar(1.0f), Reduction::kSum, false,
                          TestGroup::Into(failed[0]));
    if (!is_cancelled_before) {
      EXPECT_FALSE(failed[0]->has_value());
      step.Cancel(absl::DataLossError("bad image"));
    }
    EXPECT_TRUE(absl::IsCancelled(StatusOf(failed[0]))) << StatusOf(failed[0]);
    // The next step may have its cancellation at the same place.
    step.Reset();
    const auto good = Outcomes(2);
    for (const int i : {0, 1}) {
      devices[i]->AllReduce(CallIn(step), Tensor::Scalar(2.0f), Reduction::kSum, false,
                            TestGroup::Into(good[i]));
    }
    EXPECT_THAT(Values<float>(good[1]), ElementsAre(4));
  }
}

TEST(DeviceGroupTest, DevicesThatDifferAreNamed) {
  const auto devices = MakeDeviceGroup(Names(2));
  Cancellation step;
  const auto outcomes = Outcomes(2);
  devices[1]->AllReduce(CallIn(step), Tensor::Vector<float>({1, 2}), Reduction::kSum, true,
                        TestGroup::Into(outcomes[1]));
  devices[0]->AllReduce(CallIn(step), Tensor::Vector<float>({1}), Reduction::kSum, true,
                        TestGroup::Into(outcomes[0]));
  for (const TestGroup::Outcome& outcome : outcomes) {
    EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(outcome))) << StatusOf(outcome);
    EXPECT_THAT(std::string(StatusOf(outcome).message()),
                HasSubstr("/device:CPU:1 has 'mean', all-reduce(0, divided) of float[2]; /device:CPU:0 has "
                          "'mean', all-reduce(0, divided) of float[1]"));
  }
  const auto twice = Outcomes(2);
  for (const int i : {0, 1}) {
    devices[0]->AllReduce(CallIn(step), Tensor::Scalar(1.0f), Reduction::kSum, true,
                          TestGroup::Into(twice[i]));
  }
  EXPECT_THAT(std::string(StatusOf(twice[0]).message()), HasSubstr("/device:CPU:0 has begun the collective"));
  EXPECT_FALSE(StatusOf(twice[1]).ok());
  const auto unlike = Outcomes(2);
  for (const int i : {0, 1}) {
    devices[i]->AllGather(CallIn(step), Tensor(DType::kFloat32, Shape({1, 2 + i})),
                          TestGroup::Into(unlike[i]));
  }
  EXPECT_THAT(std::string(StatusOf(unlike[0]).message()),
              HasSubstr("one device has [1,2] and another [1,3]"));
  const auto refused = Outcomes(3);
  devices[0]->AllReduce(CallIn(step), Tensor::Scalar("text"), Reduction::kSum, true,
                        TestGroup::Into(refused[0]));
  devices[0]->AllGather(CallIn(step), Tensor::Scalar(1.0f), TestGroup::Into(refused[1]));
  devices[0]->Broadcast(CallIn(step), 2, DType::kFloat32, Tensor::Scalar(1.0f), TestGroup::Into(refused[2]));
  for (const TestGroup::Outcome& outcome : refused) {
    EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(outcome))) << StatusOf(outcome);
  }
}

// The reduction of `size` ranks as that many processes.
std::vector<float> OfProcesses(int size, int64_t count, bool divides) {
  TestGroup group(size);
  group.Form();
  const auto outcomes = Outcomes(size);
  for (int rank = 0; rank < size; ++rank) {
    group[rank].AllReduce({.name = "mean", .key = {1, 1}}, Noise(rank, count), Reduction::kSum, divides,
                          TestGroup::Into(outcomes[rank]));
  }
  group.DeliverAll();
  return Values<float>(outcomes[0]);
}

TEST(DeviceGroupTest, RanksHaveTheSameBitsHoweverTheyAreSpread) {
  for (const auto& [processes, num_devices] : {std::pair(1, 2), std::pair(1, 3), std::pair(1, 5),
                                               std::pair(2, 2), std::pair(3, 2), std::pair(3, 4)}) {
    for (const bool divides : {false, true}) {
      const int64_t count = 40000;  // several segments
      TestGroup group(processes);
      group.Form();
      const auto outcomes = Outcomes(processes * num_devices);
      std::vector<Cancellation> steps(processes);
      for (int process = 0; process < processes; ++process) {
        const auto devices = MakeDeviceGroup(
            Names(num_devices), processes == 1 ? nullptr : RefPtr<Communicator>::Share(&group[process]));
        for (int device = 0; device < num_devices; ++device) {
          const int rank = process * num_devices + device;
          EXPECT_EQ(devices[device]->rank(), rank);
          EXPECT_EQ(devices[device]->size(), processes * num_devices);
          devices[device]->AllReduce(CallIn(steps[process]), Noise(rank, count), Reduction::kSum, divides,
                                     TestGroup::Into(outcomes[rank]));
        }
      }
      group.DeliverAll();
      const std::vector<float> expected = OfProcesses(processes * num_devices, count, divides);
      ASSERT_EQ(expected.size(), count);
      for (const TestGroup::Outcome& outcome : outcomes) EXPECT_EQ(Values<float>(outcome), expected);
    }
  }
}

TEST(DeviceGroupTest, BehindProcessesIntegersAreDividedOnceAndRowsAreInOrder) {
  TestGroup group(2);
  group.Form();
  const auto means = Outcomes(4), rows = Outcomes(4), sent = Outcomes(4);
  std::vector<Cancellation> steps(2);
  std::vector<std::vector<RefPtr<Communicator>>> devices;
  for (int process = 0; process < 2; ++process) {
    devices.push_back(MakeDeviceGroup(Names(2), RefPtr<Communicator>::Share(&group[process])));
  }
  const int32_t inputs[] = {3, 0, 0, 1};  // the halves of (3 + 0) / 2 and (0 + 1) / 2 would be lost
  for (int rank = 0; rank < 4; ++rank) {
    Communicator& device = *devices[rank / 2][rank % 2];
    Cancellation& step = steps[rank / 2];
    device.AllReduce(CallIn(step, 1), Tensor::Vector<int32_t>({inputs[rank]}), Reduction::kSum, true,
                     TestGroup::Into(means[rank]));
    device.AllGather(CallIn(step, 2), Tensor::Vector<int32_t>({rank}), TestGroup::Into(rows[rank]));
    device.Broadcast(CallIn(step, 3), 3, DType::kInt32, rank == 3 ? Tensor::Vector<int32_t>({7}) : Tensor(),
                     TestGroup::Into(sent[rank]));
  }
  group.DeliverAll();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(Values<int32_t>(means[rank]), ElementsAre(1));
    EXPECT_THAT(Values<int32_t>(rows[rank]), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(Values<int32_t>(sent[rank]), ElementsAre(7));
  }
}

// A process that gives up ends the step of the devices of all.
TEST(DeviceGroupTest, TheEndOfTheProcessesReachesTheDevices) {
  TestGroup group(2);
  group.Form();
  const auto devices = MakeDeviceGroup(Names(2), RefPtr<Communicator>::Share(&group[0]));
  Cancellation step;
  const auto outcomes = Outcomes(2);
  for (const int i : {0, 1}) {
    devices[i]->AllReduce(CallIn(step), Tensor::Scalar(1.0f), Reduction::kSum, false,
                          TestGroup::Into(outcomes[i]));
  }
  EXPECT_FALSE(outcomes[0]->has_value());
  group[0].End(absl::AbortedError("rank 1 (worker:1) is lost"));
  for (const TestGroup::Outcome& outcome : outcomes) {
    EXPECT_TRUE(absl::IsAborted(StatusOf(outcome))) << StatusOf(outcome);
    EXPECT_THAT(std::string(StatusOf(outcome).message()), HasSubstr("worker:1"));
  }
}

// Threads that come, and are cancelled, in any order: each call ends once.
TEST(DeviceGroupTest, CancelledAmidArrivals) {
  const auto devices = MakeDeviceGroup(Names(2));
  for (int turn = 0; turn < 300; ++turn) {
    Cancellation step;
    std::atomic<int> num_ended{0};
    std::vector<std::thread> threads;
    for (const int i : {0, 1}) {
      threads.emplace_back([&, i] {
        devices[i]->AllReduce(CallIn(step), Tensor::Scalar(1.0f), Reduction::kSum, false,
                              [&num_ended](const absl::StatusOr<Tensor>& result) {
                                EXPECT_TRUE(!result.ok() || result->scalar<float>() == 2);
                                ++num_ended;
                              });
      });
    }
    threads.emplace_back([&step] { step.Cancel(absl::CancelledError("by its user")); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(num_ended, 2);
  }
}

}  // namespace
}  // namespace weir
