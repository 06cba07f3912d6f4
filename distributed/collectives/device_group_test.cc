#include "distributed/collectives/device_group.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "distributed/collectives/reduction.h"
#include "distributed/collectives/test_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
                HasSubstr("/device:CPU:1 has 'mean', all-reduce(sum, divided) of float[2]; /device:CPU:0 has "
                          "'mean', all-reduce(sum, divided) of float[1]"));
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
              HasSubstr("all-gather of float[?,2]; /device:CPU:1 has 'mean', all-gather of float[?,3]"));
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
  const auto means = Outcomes(4), rows = Outcomes(4), sent = Outcomes(4), products = Outcomes(4);
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
    device.AllReduce(CallIn(step, 4), Tensor::Vector<float>({2}), Reduction::kProduct, true,
                     TestGroup::Into(products[rank]));
  }
  group.DeliverAll();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(Values<int32_t>(means[rank]), ElementsAre(1));
    EXPECT_THAT(Values<float>(products[rank]), ElementsAre(16 / 4));
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

// Processes of as many devices, in a step of their own each.
class Ranks {
 public:
  Ranks(int num_processes, int num_devices) : group_(num_processes), num_devices_(num_devices) {
    group_.Form();
    for (int process = 0; process < num_processes; ++process) {
      devices_.push_back(MakeDeviceGroup(
          Names(num_devices), num_processes == 1 ? nullptr : RefPtr<Communicator>::Share(&group_[process])));
    }
    NextStep();
  }
  int size() const { return static_cast<int>(devices_.size()) * num_devices_; }
  Communicator& operator[](int rank) { return *devices_[rank / num_devices_][rank % num_devices_]; }
  Communicator::Call CallOf(int rank, int64_t instance = 1) {
    return CallIn(*steps_[rank / num_devices_], instance);
  }
  void NextStep() {
    steps_.clear();
    for (size_t i = 0; i < devices_.size(); ++i) steps_.push_back(std::make_unique<Cancellation>());
  }
  Cancellation& step(int process) { return *steps_[process]; }
  void DeliverAll() { group_.DeliverAll(); }

 private:
  TestGroup group_;
  const int num_devices_;
  std::vector<std::vector<RefPtr<Communicator>>> devices_;
  std::vector<std::unique_ptr<Cancellation>> steps_;
};

using Spread = std::pair<int, int>;  // processes and devices of each
constexpr Spread kSpreads[] = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {3, 2}, {2, 3}};

Tensor NoiseRows(int rank, int64_t rows, int64_t columns) {
  return Tensor::FromSpan<float>(Shape({rows, columns}), Noise(rank, rows * columns).flat<float>());
}

TEST(DeviceGroupTest, AReduceScatterGivesEachDeviceItsRowsOfTheSum) {
  for (const auto& [processes, num_devices] : kSpreads) {
    for (const int64_t num_rows : {0, 1, 2, 7, 12, 13}) {
      for (const bool divides : {false, true}) {
        Ranks ranks(processes, num_devices);
        const auto sums = Outcomes(ranks.size()), parts = Outcomes(ranks.size());
        for (int rank = 0; rank < ranks.size(); ++rank) {
          ranks[rank].AllReduce(ranks.CallOf(rank, 1), NoiseRows(rank, num_rows, 5), Reduction::kSum, divides,
                                TestGroup::Into(sums[rank]));
          ranks[rank].ReduceScatter(ranks.CallOf(rank, 2), NoiseRows(rank, num_rows, 5), Reduction::kSum,
                                    divides, TestGroup::Into(parts[rank]));
        }
        ranks.DeliverAll();
        std::vector<float> joined;
        for (int rank = 0; rank < ranks.size(); ++rank) {
          ASSERT_TRUE(StatusOf(parts[rank]).ok()) << StatusOf(parts[rank]);
          const std::vector<float> part = Values<float>(parts[rank]);
          EXPECT_EQ(part.size(), 5 * (num_rows / ranks.size() + (rank < num_rows % ranks.size())));
          joined.insert(joined.end(), part.begin(), part.end());
        }
        EXPECT_EQ(joined, Values<float>(sums[0])) << processes << " x " << num_devices;
      }
    }
  }
}

TEST(DeviceGroupTest, IntegersThatAreScatteredAreDividedOnce) {
  Ranks ranks(2, 2);
  const auto means = Outcomes(4);
  const int32_t inputs[] = {3, 0, 0, 1};
  for (int rank = 0; rank < 4; ++rank) {
    ranks[rank].ReduceScatter(ranks.CallOf(rank), Tensor::Vector<int32_t>({inputs[rank], 0}), Reduction::kSum,
                              true, TestGroup::Into(means[rank]));
  }
  ranks.DeliverAll();
  EXPECT_THAT(Values<int32_t>(means[0]), ElementsAre(1));
  EXPECT_THAT(Values<int32_t>(means[1]), ElementsAre(0));
  EXPECT_TRUE(StatusOf(means[3]).ok());
  EXPECT_THAT(Values<int32_t>(means[3]), IsEmpty());
}

TEST(DeviceGroupTest, AnAllToAllMovesAsManyRowsAsEachDeviceSays) {
  for (const auto& [processes, num_devices] : kSpreads) {
    Ranks ranks(processes, num_devices);
    const int size = ranks.size();
    std::vector<absl::StatusOr<Communicator::Exchanged>> exchanged(size);
    for (int rank = 0; rank < size; ++rank) {
      // Rank r sends (r + to) % 3 rows to rank `to`, all of them 100 r + to.
      std::vector<int32_t> numbers;
      std::vector<int64_t> splits;
      for (int to = 0; to < size; ++to) {
        splits.push_back((rank + to) % 3);
        numbers.insert(numbers.end(), 2 * splits.back(), 100 * rank + to);
      }
      const Tensor rows =
          Tensor::FromSpan<int32_t>(Shape({static_cast<int64_t>(numbers.size()) / 2, 2}), numbers);
      ranks[rank].AllToAll(ranks.CallOf(rank), rows, splits,
                           [&exchanged, rank](absl::StatusOr<Communicator::Exchanged> came) {
                             exchanged[rank] = std::move(came);
                           });
    }
    ranks.DeliverAll();
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_TRUE(exchanged[rank].ok()) << exchanged[rank].status();
      std::vector<int32_t> numbers;
      std::vector<int64_t> splits;
      for (int from = 0; from < size; ++from) {
        splits.push_back((rank + from) % 3);
        numbers.insert(numbers.end(), 2 * splits.back(), 100 * from + rank);
      }
      EXPECT_EQ(exchanged[rank]->splits, splits);
      EXPECT_THAT(exchanged[rank]->rows.flat<int32_t>(), testing::ElementsAreArray(numbers));
      EXPECT_EQ(exchanged[rank]->rows.shape(), Shape({static_cast<int64_t>(numbers.size()) / 2, 2}));
    }
  }
}

// They would say how much is copied here.
TEST(DeviceGroupTest, SplitsThatAnotherProcessTellsForDevicesOfThisOneAreRefused) {
  TestGroup group(2);
  group.Form();
  Cancellation step, other;
  const auto devices = MakeDeviceGroup(Names(2), RefPtr<Communicator>::Share(&group[0]));
  std::vector<absl::Status> ends(2);
  for (int device = 0; device < 2; ++device) {
    devices[device]->AllToAll(CallIn(step, 1), Tensor::Vector<int32_t>({1, 2, 3, 4}), {1, 1, 1, 1},
                              [&ends, device](const absl::StatusOr<Communicator::Exchanged>& came) {
                                ends[device] = came.status();
                              });
  }
  const auto lines = Outcomes(1);
  group[1].AllGather(CallIn(other, 1), Tensor::From<int64_t>({2, 5}, {2, 1, 1, 1, 1, 0, 1000, 0, 0, 0}),
                     TestGroup::Into(lines[0]));
  group.DeliverAll();
  for (const absl::Status& end : ends) {
    EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
    EXPECT_THAT(std::string(end.message()), testing::HasSubstr("splits of rank 0 of 4, again"));
  }
}

TEST(DeviceGroupTest, ABarrierEndsWhenAllHaveComeToIt) {
  for (const auto& [processes, num_devices] : kSpreads) {
    Ranks ranks(processes, num_devices);
    int num_through = 0;
    for (int rank = ranks.size() - 1; rank >= 0; --rank) {
      EXPECT_EQ(num_through, 0);
      ranks[rank].Barrier(ranks.CallOf(rank),
                          [&](const absl::Status& status) { num_through += status.ok(); });
      ranks.DeliverAll();
    }
    EXPECT_EQ(num_through, ranks.size());
  }
}

std::vector<double> AdasumOfTwo(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  std::vector<double> sum;
  for (size_t i = 0; i < a.size(); ++i) {
    sum.push_back((1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i]);
  }
  return sum;
}

// Of four ranks the tree is the same however they are spread.
TEST(DeviceGroupTest, AdasumFollowsTheFormulaAndIsTheSameOnAllDevices) {
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < 4; ++rank) {
    const Tensor noise = Noise(rank, 1000);
    inputs.emplace_back(noise.flat<float>().begin(), noise.flat<float>().end());
  }
  const std::vector<double> expected =
      AdasumOfTwo(AdasumOfTwo(inputs[0], inputs[1]), AdasumOfTwo(inputs[2], inputs[3]));
  for (const auto& [processes, num_devices] : {Spread(1, 4), Spread(2, 2), Spread(4, 1)}) {
    Ranks ranks(processes, num_devices);
    const auto outcomes = Outcomes(4);
    for (int rank = 0; rank < 4; ++rank) {
      ranks[rank].AllReduce(ranks.CallOf(rank), Noise(rank, 1000), Reduction::kAdasum, false,
                            TestGroup::Into(outcomes[rank]));
    }
    ranks.DeliverAll();
    const std::vector<float> first = Values<float>(outcomes[0]);
    ASSERT_EQ(first.size(), expected.size()) << StatusOf(outcomes[0]);
    for (size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(first[i], expected[i], 1e-5);
    for (const TestGroup::Outcome& outcome : outcomes) EXPECT_EQ(Values<float>(outcome), first);
  }
}

// The bits are those of a cast before the all-reduce and one after it.
TEST(DeviceGroupTest, TensorsThatTravelInSixteenBitsAreAddedUpInFloat) {
  for (const auto& [processes, num_devices] : {Spread(1, 3), Spread(2, 2)}) {
    Ranks ranks(processes, num_devices);
    const auto wired = Outcomes(ranks.size()), cast = Outcomes(ranks.size());
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const Tensor input = Noise(rank, 100);
      Communicator::Call call = ranks.CallOf(rank, 1);
      call.wire = DType::kBfloat16;
      ranks[rank].AllReduce(call, input, Reduction::kSum, true, TestGroup::Into(wired[rank]));
      Tensor rounded(DType::kBfloat16, Shape({100}));
      ToWire(DType::kFloat32, input.data(), DType::kBfloat16, 100, rounded.data());
      ranks[rank].AllReduce(ranks.CallOf(rank, 2), rounded, Reduction::kSum, true,
                            TestGroup::Into(cast[rank]));
    }
    ranks.DeliverAll();
    ASSERT_TRUE(StatusOf(cast[0]).ok()) << StatusOf(cast[0]);
    std::vector<float> expected(100);
    FromWire(DType::kBfloat16, (**cast[0])->data(), DType::kFloat32, 100, expected.data());
    for (const TestGroup::Outcome& outcome : wired) EXPECT_EQ(Values<float>(outcome), expected);
  }
}

TEST(DeviceGroupTest, WhatIsNoCollectiveIsRefusedBeforeAnythingBegins) {
  Ranks ranks(1, 2);
  const auto reduce = [&](const Tensor& input, Reduction reduction, bool divides, bool scatters) {
    const auto outcome = Outcomes(1)[0];
    if (scatters) {
      ranks[0].ReduceScatter(ranks.CallOf(0), input, reduction, divides, TestGroup::Into(outcome));
    } else {
      ranks[0].AllReduce(ranks.CallOf(0), input, reduction, divides, TestGroup::Into(outcome));
    }
    EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(outcome))) << StatusOf(outcome);
    return std::string(StatusOf(outcome).message());
  };
  const Tensor integers = Tensor::Vector<int32_t>({1}), floats = Noise(0, 4);
  EXPECT_THAT(reduce(integers, Reduction::kAdasum, false, false), HasSubstr("of floating-point types"));
  EXPECT_THAT(reduce(floats, Reduction::kAdasum, true, false), HasSubstr("is not divided"));
  EXPECT_THAT(reduce(floats, Reduction::kAdasum, false, true), HasSubstr("cannot be scattered"));
  EXPECT_THAT(reduce(Tensor::Scalar(1.0f), Reduction::kSum, false, true), HasSubstr("this is a scalar"));
  const auto exchange = [&](std::vector<int64_t> splits, int64_t rows) {
    absl::Status status;
    ranks[0].AllToAll(ranks.CallOf(0), Tensor(DType::kInt32, Shape({rows})), std::move(splits),
                      [&](const absl::StatusOr<Communicator::Exchanged>& came) { status = came.status(); });
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(exchange({}, 3), HasSubstr("3 rows cannot be divided evenly among 2 ranks"));
  EXPECT_THAT(exchange({1}, 1), HasSubstr("of 2 ranks is given 1 splits"));
  EXPECT_THAT(exchange({-1, 2}, 1), HasSubstr("a split of -1 rows"));
}

// Device 1 is out of data; the others go on, in steps of their own.
TEST(DeviceGroupTest, ADeviceThatHasJoinedContributesZerosUntilAllHave) {
  for (const auto& [processes, num_devices] : {Spread(1, 3), Spread(2, 2), Spread(2, 1)}) {
    Ranks ranks(processes, num_devices);
    const int size = ranks.size();
    std::vector<int> last(size, -1);
    std::vector<std::unique_ptr<Cancellation>> joins;
    const auto join = [&](int rank) {
      joins.push_back(std::make_unique<Cancellation>());
      ranks[rank].Join(CallIn(*joins.back(), 99), [&last, rank](absl::StatusOr<int> one) {
        ASSERT_TRUE(one.ok()) << one.status();
        last[rank] = *one;
      });
      ranks.DeliverAll();
    };
    for (int turn = 0; turn < 2; ++turn) {
      std::fill(last.begin(), last.end(), -1);
      join(1);
      for (int step = 0; step < 2; ++step) {
        ranks.NextStep();
        const auto sums = Outcomes(size), rows = Outcomes(size), parts = Outcomes(size),
                   ones = Outcomes(size);
        std::vector<std::vector<int64_t>> splits(size);
        int num_through = 0;
        for (int rank = 0; rank < size; ++rank) {
          if (rank == 1) continue;
          Communicator& device = ranks[rank];
          device.AllReduce(ranks.CallOf(rank, 1), Tensor::Vector<float>({1, 2}), Reduction::kSum, true,
                           TestGroup::Into(sums[rank]));
          device.AllGather(ranks.CallOf(rank, 2), Tensor::Vector<int32_t>({rank}),
                           TestGroup::Into(rows[rank]));
          device.ReduceScatter(ranks.CallOf(rank, 3), Tensor::Vector<float>({1}), Reduction::kSum, false,
                               TestGroup::Into(parts[rank]));
          device.Broadcast(ranks.CallOf(rank, 4), 0, DType::kInt32, Tensor::Vector<int32_t>({7}),
                           TestGroup::Into(ones[rank]));
          device.Barrier(ranks.CallOf(rank, 5),
                         [&](const absl::Status& status) { num_through += status.ok(); });
          device.AllToAll(ranks.CallOf(rank, 6), Tensor(DType::kInt32, Shape({size})), {},
                          [&splits, rank](const absl::StatusOr<Communicator::Exchanged>& came) {
                            if (came.ok()) splits[rank] = came->splits;
                          });
        }
        ranks.DeliverAll();
        const auto count = static_cast<float>(size - 1);
        EXPECT_THAT(Values<float>(sums[0]), ElementsAre(count / size, 2 * count / size)) << StatusOf(sums[0]);
        EXPECT_EQ(Values<int32_t>(rows[0]).size(), size_t(size - 1));
        EXPECT_THAT(Values<float>(parts[0]), ElementsAre(count)) << StatusOf(parts[0]);
        EXPECT_THAT(Values<int32_t>(ones[size - 1]).size(), size == 2 ? 0u : 1u);
        EXPECT_EQ(num_through, size - 1);
        std::vector<int64_t> expected(size, 1);
        expected[1] = 0;
        EXPECT_EQ(splits[0], expected);
      }
      for (int rank = size - 1; rank > 1; --rank) join(rank);
      EXPECT_THAT(last, testing::Each(-1));
      join(0);
      EXPECT_THAT(last, testing::Each(processes == 1 ? size - 1 : last[0]));
      EXPECT_NE(last[0], -1);
      // All are there again.
      ranks.NextStep();
      const auto sums = Outcomes(size);
      for (int rank = 0; rank < size; ++rank) {
        ranks[rank].AllReduce(ranks.CallOf(rank), Tensor::Vector<int64_t>({1}), Reduction::kSum, false,
                              TestGroup::Into(sums[rank]));
      }
      ranks.DeliverAll();
      EXPECT_THAT(Values<int64_t>(sums[0]), ElementsAre(size)) << StatusOf(sums[0]);
    }
  }
}

TEST(DeviceGroupTest, WhatNeedsADeviceThatHasJoinedIsAnErrorThatNamesIt) {
  const auto error = [](const std::function<void(Ranks&, Communicator::Done)>& begin) {
    Ranks ranks(1, 2);
    ranks[1].Join(ranks.CallOf(1, 9), [](const absl::StatusOr<int>&) {});
    const auto outcome = Outcomes(1)[0];
    begin(ranks, TestGroup::Into(outcome));
    EXPECT_FALSE(StatusOf(outcome).ok());
    const std::string message(StatusOf(outcome).message());
    ranks.step(0).Cancel(absl::CancelledError("the test is over"));
    return message;
  };
  EXPECT_THAT(error([](Ranks& ranks, Communicator::Done done) {
                ranks[0].AllReduce(ranks.CallOf(0), Noise(0, 3), Reduction::kMax, false, std::move(done));
              }),
              HasSubstr("/device:CPU:1 has joined, but 'mean', all-reduce(max) of float[3]"));
  EXPECT_THAT(error([](Ranks& ranks, Communicator::Done done) {
                ranks[0].Broadcast(ranks.CallOf(0), 1, DType::kFloat32, Tensor(), std::move(done));
              }),
              HasSubstr("rank 1 has joined: it has nothing to send"));
  EXPECT_THAT(error([](Ranks& ranks, Communicator::Done done) {
                ranks[1].AllReduce(ranks.CallOf(1), Noise(0, 3), Reduction::kSum, false, std::move(done));
              }),
              HasSubstr("/device:CPU:1 has joined, and others have not"));
  EXPECT_THAT(error([](Ranks& ranks, Communicator::Done done) {
                ranks[0].Join(ranks.CallOf(0, 8),
                              [done](const absl::StatusOr<int>& last) { done(last.status()); });
              }),
              HasSubstr("the devices join in different nodes"));
  EXPECT_THAT(error([](Ranks& ranks, Communicator::Done done) {
                ranks[1].Join(ranks.CallOf(1, 9),
                              [done](const absl::StatusOr<int>& last) { done(last.status()); });
              }),
              HasSubstr("/device:CPU:1 has joined already"));
}

TEST(DeviceGroupTest, ADeviceJoinsWhenItHasNothingElseToDoAndIsBackWhenItsStepIsCancelled) {
  Ranks ranks(1, 2);
  const auto busy = Outcomes(2);
  absl::Status joined;
  const auto join = [&](Cancellation& step) {
    ranks[0].Join(CallIn(step, 9), [&](const absl::StatusOr<int>& last) { joined = last.status(); });
  };
  ranks[0].AllReduce(ranks.CallOf(0), Tensor::Scalar(1.0f), Reduction::kSum, false, TestGroup::Into(busy[0]));
  Cancellation refused, step;
  join(refused);
  EXPECT_TRUE(absl::IsFailedPrecondition(joined)) << joined;
  EXPECT_THAT(std::string(joined.message()), HasSubstr("'mean' is under way"));
  ranks[1].AllReduce(ranks.CallOf(1), Tensor::Scalar(1.0f), Reduction::kSum, false, TestGroup::Into(busy[1]));
  EXPECT_THAT(Values<float>(busy[0]), ElementsAre(2));
  // One that waits for it does not wait any longer.
  const auto waits = Outcomes(1)[0];
  ranks.NextStep();
  ranks[1].AllReduce(ranks.CallOf(1), Tensor::Scalar(1.0f), Reduction::kSum, false, TestGroup::Into(waits));
  EXPECT_FALSE(waits->has_value());
  join(step);
  EXPECT_THAT(Values<float>(waits), ElementsAre(1));
  step.Cancel(absl::CancelledError("by its user"));
  EXPECT_TRUE(absl::IsCancelled(joined)) << joined;
  const auto sums = Outcomes(2);
  for (const int rank : {0, 1}) {
    ranks[rank].AllReduce(ranks.CallOf(rank), Tensor::Scalar(1.0f), Reduction::kSum, false,
                          TestGroup::Into(sums[rank]));
  }
  EXPECT_THAT(Values<float>(sums[0]), ElementsAre(2));
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

// A step that the others have done already: the processes add up one tensor, which is that of all devices.
TEST(DeviceGroupTest, AMeanWhileAloneIsThatOfTheDevices) {
  TestGroup group(2);
  group.Form();
  group[0].SetAlone(1);
  const auto devices = MakeDeviceGroup(Names(2), RefPtr<Communicator>::Share(&group[0]));
  Cancellation step;
  const auto whole = Outcomes(2), real = Outcomes(2);
  for (int i = 0; i < 2; ++i) {
    devices[i]->AllReduce(CallIn(step, 1), Tensor::Vector<int32_t>({10 + 10 * i}), Reduction::kSum, true,
                          TestGroup::Into(whole[i]));
    devices[i]->AllReduce(CallIn(step, 2), Tensor::Vector<float>({10.0f + 10 * i}), Reduction::kSum, true,
                          TestGroup::Into(real[i]));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Values<int32_t>(whole[i]), ElementsAre(15));
    EXPECT_THAT(Values<float>(real[i]), ElementsAre(15));
  }
}

}  // namespace
}  // namespace weir
