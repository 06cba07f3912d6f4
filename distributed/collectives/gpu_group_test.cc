// The GPUs of a process as ranks, on the recording stand-ins of CUDA and NCCL, against the host's algorithm.
#include "distributed/collectives/gpu_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "distributed/collectives/device_group.h"
#include "distributed/collectives/reduction.h"
#include "distributed/collectives/test_group.h"
#include "kernels/cancellation.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/test_cuda_backend.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What the ranks get, from whichever thread.
class Results {
 public:
  explicit Results(int count) : results_(count) {}

  Communicator::Done Into(int rank) {
    return [this, rank](absl::StatusOr<Tensor> result) {
      absl::MutexLock lock(&mutex_);
      results_[rank] = std::move(result);
      ++num_done_;
    };
  }
  std::vector<absl::StatusOr<Tensor>> Await() {
    absl::MutexLock lock(&mutex_);
    const auto is_over = [this]() { return num_done_ == static_cast<int>(results_.size()); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_over), absl::Seconds(60)));
    return results_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<absl::StatusOr<Tensor>> results_;
  int num_done_ = 0;
};

class GpuGroupTest : public ::testing::Test {
 protected:
  static constexpr int kMost = 4;
  using Ranks = std::vector<RefPtr<Communicator>>;

  void SetUp() override {
    gpus_ = MakeGpus(cuda_.backend(), kMost, "localhost", 0, threads_, 1 << 26).value();
  }

  Ranks NewGroup(int size) {
    std::vector<RefPtr<GpuLinks>> links;
    std::vector<std::string> names;
    for (int i = 0; i < size; ++i) {
      links.push_back(
          gpus_[i]->resources().Lookup<GpuLinks>(Communicator::kContainer, GpuLinks::kName).value());
      names.push_back(gpus_[i]->name().ToString());
    }
    return MakeGpuGroup(std::move(links), MakeDeviceGroup(names));
  }

  Communicator::Call CallIn(int gpu, Cancellation& step) {
    return {.name = "mean",
            .key = {Communicator::kFirstDeviceGroup, 1},
            .cancellation = &step,
            .allocator = &gpus_[gpu]->allocator()};
  }

  static Tensor Noise(int rank, int64_t count) {
    std::mt19937 random(rank + 1);
    std::normal_distribution<float> normal;
    Tensor tensor(DType::kFloat32, Shape({count}));
    for (float& value : tensor.flat<float>()) value = normal(random);
    return tensor;
  }

  static std::vector<TestGroup::Outcome> Outcomes(size_t count) {
    std::vector<TestGroup::Outcome> outcomes;
    for (size_t i = 0; i < count; ++i) {
      outcomes.push_back(std::make_shared<std::optional<absl::StatusOr<Tensor>>>());
    }
    return outcomes;
  }
  static absl::Status StatusOf(const TestGroup::Outcome& outcome) {
    return outcome->has_value() ? (*outcome)->status() : absl::UnknownError("it has not ended");
  }

  // Copies the inputs to the GPUs, reduces them there, waits for the results and copies them back.
  // `copies_`: what was copied, or waited for, for the collective alone.
  std::vector<Tensor> AllReduce(const Ranks& ranks, const std::vector<Tensor>& inputs, Reduction reduction,
                                bool divides, DType wire = DType::kInvalid) {
    const int size = static_cast<int>(ranks.size());
    std::vector<Tensor> on_gpus;
    for (int i = 0; i < size; ++i) on_gpus.push_back(gpus_[i]->FromHost(inputs[i]).value());
    Cancellation step;
    Results outcomes(size);
    api_.ClearLog();
    for (int i = 0; i < size; ++i) {
      Communicator::Call call = CallIn(i, step);
      call.wire = wire;
      ranks[i]->AllReduce(call, on_gpus[i], reduction, divides, outcomes.Into(i));
    }
    const std::vector<absl::StatusOr<Tensor>> came = outcomes.Await();
    copies_.clear();
    for (const std::string& line : api_.log()) {
      if (absl::StrContains(line, "cudaMemcpy") || absl::StrContains(line, "Synchronize")) {
        copies_.push_back(line);
      }
    }
    std::vector<Tensor> results;
    for (int i = 0; i < size; ++i) {
      EXPECT_TRUE(came[i].ok()) << came[i].status();
      if (!came[i].ok()) return {};
      results.push_back(gpus_[i]->ToHost(*came[i]).value());
    }
    return results;
  }

  static Tensor OnHost(const std::vector<Tensor>& inputs, Reduction reduction, bool divides) {
    Tensor output(inputs[0].dtype(), inputs[0].shape());
    std::vector<const char*> contributions;
    for (const Tensor& input : inputs) contributions.push_back(static_cast<const char*>(input.data()));
    ReduceContributions(inputs[0].dtype(), reduction, contributions,
                        divides ? static_cast<int64_t>(inputs.size()) : 1, inputs[0].num_elements(),
                        static_cast<char*>(output.data()));
    return output;
  }

  RecordingCudaApi api_{{.num_devices = kMost}};
  TestCudaBackend cuda_{api_};
  ThreadPool threads_{1};
  std::vector<std::unique_ptr<CudaDevice>> gpus_;
  std::vector<std::string> copies_;
};

// Two addends have one sum; of more, another order has other last bits.
TEST_F(GpuGroupTest, SumsAreTheHostsAndNothingIsCopied) {
  for (const int size : {1, 2, 4}) {
    const Ranks ranks = NewGroup(size);
    std::vector<Tensor> inputs;
    for (int i = 0; i < size; ++i) inputs.push_back(Noise(i, 1000));
    for (const bool divides : {false, true}) {
      AllReduce(ranks, inputs, Reduction::kSum, divides);  // the divisor goes to the GPUs once
      const std::vector<Tensor> results = AllReduce(ranks, inputs, Reduction::kSum, divides);
      EXPECT_THAT(copies_, IsEmpty());
      const Tensor expected = OnHost(inputs, Reduction::kSum, divides);
      ASSERT_EQ(static_cast<int>(results.size()), size);
      for (const Tensor& result : results) {
        for (int64_t k = 0; k < 1000; ++k) {
          const float found = result.flat<float>()[k], wanted = expected.flat<float>()[k];
          EXPECT_NEAR(found, wanted, size <= 2 ? 0 : 2e-6) << size << " " << k;
        }
      }
    }
  }
  EXPECT_THAT(cuda_.nccl().log(), Not(IsEmpty()));
}

TEST_F(GpuGroupTest, WholeNumbersAreAddedUpByNccl) {
  const Ranks ranks = NewGroup(4);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(Tensor::Vector<int64_t>({i, int64_t{1} << 40}));
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMin, Reduction::kMax}) {
    const std::vector<Tensor> results = AllReduce(ranks, inputs, reduction, false);
    EXPECT_THAT(copies_, IsEmpty());
    for (const Tensor& result : results) {
      EXPECT_EQ(result.ToString(10), OnHost(inputs, reduction, false).ToString(10));
    }
  }
}

// What NCCL has not, or has otherwise.
TEST_F(GpuGroupTest, TheRestGoesThroughTheHost) {
  const Ranks ranks = NewGroup(4);
  const Ranks on_host = MakeDeviceGroup({"a", "b", "c", "d"});
  std::vector<Tensor> inputs, whole;
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(Noise(i, 7));
    whole.push_back(Tensor::Vector<int32_t>({i, -7}));
  }
  struct Case {
    const std::vector<Tensor>& inputs;
    Reduction reduction;
    bool divides;
    DType wire;
  };
  for (const Case& one : {Case{inputs, Reduction::kAdasum, false, DType::kInvalid},
                          Case{inputs, Reduction::kMax, false, DType::kInvalid},
                          Case{inputs, Reduction::kSum, true, DType::kBfloat16},
                          Case{whole, Reduction::kSum, true, DType::kInvalid}}) {
    const std::vector<Tensor> results = AllReduce(ranks, one.inputs, one.reduction, one.divides, one.wire);
    EXPECT_THAT(copies_, Not(IsEmpty()));
    Cancellation step;
    const auto expected = Outcomes(4);
    for (int i = 0; i < 4; ++i) {
      on_host[i]->AllReduce({.name = "a", .key = {1, 1}, .cancellation = &step, .wire = one.wire},
                            one.inputs[i], one.reduction, one.divides, TestGroup::Into(expected[i]));
    }
    ASSERT_EQ(results.size(), 4u);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(results[i].ToString(10), (**expected[i])->ToString(10));
  }
  EXPECT_THAT(cuda_.nccl().log(), IsEmpty());
}

TEST_F(GpuGroupTest, WithoutNcclEverythingGoesThroughTheHost) {
  cuda_.nccl().SetMissing(absl::NotFoundError("NCCL cannot be opened"));
  const Ranks ranks = NewGroup(2);
  const std::vector<Tensor> inputs = {Noise(0, 5), Noise(1, 5)};
  const std::vector<Tensor> results = AllReduce(ranks, inputs, Reduction::kSum, true);
  EXPECT_THAT(copies_, Not(IsEmpty()));
  for (const Tensor& result : results) {
    EXPECT_EQ(result.ToString(10), OnHost(inputs, Reduction::kSum, true).ToString(10));
  }
  EXPECT_THAT(cuda_.nccl().log(), IsEmpty());
}

// A small /dev/shm, a transport that is not there: what trained without NCCL trains still.
TEST_F(GpuGroupTest, WhereNcclCannotConnectEverythingGoesThroughTheHost) {
  cuda_.nccl().FailCall("ncclCommInitAll");
  const Ranks ranks = NewGroup(2);
  const std::vector<Tensor> inputs = {Noise(0, 5), Noise(1, 5)};
  ::testing::internal::CaptureStderr();
  for (int step = 0; step < 3; ++step) {
    const std::vector<Tensor> results = AllReduce(ranks, inputs, Reduction::kSum, true);
    EXPECT_THAT(copies_, Not(IsEmpty()));
    ASSERT_EQ(results.size(), 2u);
    for (const Tensor& result : results) {
      EXPECT_EQ(result.ToString(10), OnHost(inputs, Reduction::kSum, true).ToString(10));
    }
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("GPU:1 go through the host's memory: the GPUs cannot be connected: "
                              "ncclCommInitAll: NCCL error 2"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << "it is said once";
  EXPECT_THAT(cuda_.nccl().log(), ElementsAre("ncclCommInitAll of 2"));
}

TEST_F(GpuGroupTest, RowsAreGatheredAndTheRootsTensorIsSent) {
  for (const bool has_nccl : {true, false}) {
    if (!has_nccl) cuda_.nccl().SetMissing(absl::NotFoundError("NCCL cannot be opened"));
    const Ranks ranks = NewGroup(3);
    Cancellation step;
    Results gathered(3), sent(3);
    for (int i = 0; i < 3; ++i) {
      const std::vector<float> rows(i, static_cast<float>(i));
      const Tensor input = gpus_[i]->FromHost(Tensor::FromSpan<float>(Shape({i}), rows)).value();
      ranks[i]->AllGather(CallIn(i, step), input, gathered.Into(i));
    }
    for (int i = 0; i < 3; ++i) {
      const Tensor input = i == 1 ? gpus_[i]->FromHost(Tensor::Vector<double>({5, 6})).value() : Tensor();
      ranks[i]->Broadcast(CallIn(i, step), 1, DType::kFloat64, input, sent.Into(i));
    }
    const auto all_rows = gathered.Await(), all_numbers = sent.Await();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(all_rows[i].ok()) << all_rows[i].status();
      ASSERT_TRUE(all_numbers[i].ok()) << all_numbers[i].status();
      const Tensor rows = gpus_[i]->ToHost(*all_rows[i]).value();
      EXPECT_THAT(std::vector<float>(rows.flat<float>().begin(), rows.flat<float>().end()),
                  ElementsAre(1, 2, 2));
      const Tensor numbers = gpus_[i]->ToHost(*all_numbers[i]).value();
      EXPECT_THAT(std::vector<double>(numbers.flat<double>().begin(), numbers.flat<double>().end()),
                  ElementsAre(5, 6));
    }
  }
}

// One device's step fails before it comes: nothing waits on the others' streams.
TEST_F(GpuGroupTest, AStepThatFailsLeavesNothingOnTheStreams) {
  const Ranks ranks = NewGroup(2);
  Cancellation step;
  const auto outcomes = Outcomes(1);
  ranks[0]->AllReduce(CallIn(0, step), gpus_[0]->FromHost(Noise(0, 3)).value(), Reduction::kSum, false,
                      TestGroup::Into(outcomes[0]));
  EXPECT_FALSE(outcomes[0]->has_value());
  step.Cancel(absl::DataLossError("bad image"));
  EXPECT_TRUE(absl::IsCancelled(StatusOf(outcomes[0])));
  EXPECT_THAT(cuda_.nccl().log(), IsEmpty());
  const std::vector<Tensor> inputs = {Noise(0, 5), Noise(1, 5)};
  EXPECT_EQ(AllReduce(ranks, inputs, Reduction::kSum, false).size(), 2u);
}

TEST_F(GpuGroupTest, DevicesThatDoNotComputeTheSameAreTold) {
  const Ranks ranks = NewGroup(2);
  Cancellation step;
  const auto outcomes = Outcomes(2);
  for (int i = 0; i < 2; ++i) {
    ranks[i]->AllReduce(CallIn(i, step), gpus_[i]->FromHost(Noise(i, 3 + i)).value(), Reduction::kSum, false,
                        TestGroup::Into(outcomes[i]));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::string(StatusOf(outcomes[i]).message()),
                HasSubstr("the devices do not compute the same: /job:localhost/replica:0/task:0/device:GPU:0 "
                          "has 'mean', all-reduce(sum) of float[3]"));
  }
}

TEST_F(GpuGroupTest, ADeviceThatIsLostIsNamed) {
  const Ranks ranks = NewGroup(2);
  const Tensor inputs[] = {gpus_[0]->FromHost(Noise(0, 3)).value(), gpus_[1]->FromHost(Noise(1, 3)).value()};
  api_.LoseDevice(1, kCudaIllegalAddress);
  Cancellation step;
  const auto outcomes = Outcomes(2);
  for (int i = 0; i < 2; ++i) {
    ranks[i]->AllReduce(CallIn(i, step), inputs[i], Reduction::kSum, false, TestGroup::Into(outcomes[i]));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(StatusOf(outcomes[i]).code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(StatusOf(outcomes[i]).message()), HasSubstr("device:GPU:1"));
  }
}

}  // namespace
}  // namespace weir
