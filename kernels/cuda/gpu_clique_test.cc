// Collectives between GPUs of the recording stand-in.
#include "kernels/cuda/gpu_clique.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "graph/types/float16.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/pinned_slab.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/test_cuda_backend.h"
#include "kernels/lost_device.h"
#include "kernels/thread_pool.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class GpuCliqueTest : public ::testing::Test {
 protected:
  static constexpr int kMost = 4;

  void SetUp() override {
    gpus_ = MakeGpus(cuda_.backend(), kMost, "localhost", 0, threads_, 1 << 26).value();
  }

  std::unique_ptr<GpuClique> NewClique(int size) {
    std::vector<RefPtr<GpuLinks>> links;
    for (int i = 0; i < size; ++i) {
      links.push_back(
          gpus_[i]->resources().Lookup<GpuLinks>(Communicator::kContainer, GpuLinks::kName).value());
    }
    return std::make_unique<GpuClique>(std::move(links));
  }

  Tensor OnGpu(int gpu, const Tensor& tensor) { return gpus_[gpu]->FromHost(tensor).value(); }
  Tensor OnHost(int gpu, const Tensor& tensor) { return gpus_[gpu]->ToHost(tensor).value(); }
  template <typename T>
  std::vector<T> Values(int gpu, const Tensor& tensor) {
    const Tensor host = OnHost(gpu, tensor);
    return {host.flat<T>().begin(), host.flat<T>().end()};
  }

  // What is asked of CUDA by `f`.
  template <typename F>
  std::vector<std::string> LogOf(const F& f) {
    api_.ClearLog();
    f();
    return api_.log();
  }

  // Until the clique's own thread has seen it.
  bool IsLogged(const std::string& line) {
    const absl::Time limit = absl::Now() + absl::Seconds(60);
    while (absl::Now() < limit) {
      const std::vector<std::string> log = cuda_.nccl().log();
      if (std::find(log.begin(), log.end(), line) != log.end()) return true;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return false;
  }

  RecordingCudaApi api_{{.num_devices = kMost}};
  TestCudaBackend cuda_{api_};
  ThreadPool threads_{1};
  std::vector<std::unique_ptr<CudaDevice>> gpus_;
};

// Each GPU's stream hands over its tensor and gets the sum; the host is not asked for anything.
TEST_F(GpuCliqueTest, AllReduceStaysOnTheGpus) {
  for (const int size : {2, 4}) {
    const auto clique = NewClique(size);
    std::vector<Tensor> inputs;
    std::vector<float> expected(3);
    for (int i = 0; i < size; ++i) {
      const float x = static_cast<float>(i + 1);
      inputs.push_back(OnGpu(i, Tensor::From<float>({3}, {x, 10 * x, -x})));
      expected[0] += x;
      expected[1] += 10 * x;
      expected[2] -= x;
    }
    std::vector<Tensor> sums;
    const std::vector<std::string> log = LogOf([&] {
      auto reduced = clique->AllReduce(inputs, NcclReduction::kSum, false);
      ASSERT_TRUE(reduced.ok()) << reduced.status();
      sums = *std::move(reduced);
    });
    for (const std::string& line : log) {
      EXPECT_THAT(line, Not(HasSubstr("cudaMemcpy")));
      EXPECT_THAT(line, Not(HasSubstr("Synchronize")));
    }
    EXPECT_EQ(std::count_if(log.begin(), log.end(),
                            [](const std::string& line) {
                              return absl::StartsWith(line, "cudaLaunchKernel ncclAllReduce");
                            }),
              size);
    ASSERT_EQ(static_cast<int>(sums.size()), size);
    for (int i = 0; i < size; ++i) EXPECT_EQ(Values<float>(i, sums[i]), expected) << i;
  }
}

TEST_F(GpuCliqueTest, AMeanIsDividedOnTheGpus) {
  const auto clique = NewClique(4);
  for (int round = 0; round < 2; ++round) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < 4; ++i) inputs.push_back(OnGpu(i, Tensor::Vector<double>({1.0 * i, 2})));
    std::vector<Tensor> means;
    const std::vector<std::string> log =
        LogOf([&] { means = clique->AllReduce(inputs, NcclReduction::kSum, true).value(); });
    // The divisor goes there once.
    if (round == 1) {
      for (const std::string& line : log) EXPECT_THAT(line, Not(HasSubstr("cudaMemcpy")));
    }
    for (int i = 0; i < 4; ++i) EXPECT_THAT(Values<double>(i, means[i]), ElementsAre(1.5, 2));
  }
}

// 2048 + 1 is 2048 in half: added up in half, the ones would all be lost.
TEST_F(GpuCliqueTest, NumbersOf16BitsAreAddedUpInFloat) {
  const auto clique = NewClique(4);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 4; ++i) {
    Tensor tensor(DType::kHalf, Shape({1}));
    tensor.flat<Half>()[0] = Half(i == 0 ? 2048.0f : 1.0f);
    inputs.push_back(OnGpu(i, tensor));
  }
  const std::vector<Tensor> sums = clique->AllReduce(inputs, NcclReduction::kSum, false).value();
  for (int i = 0; i < 4; ++i) {
    const Tensor sum = OnHost(i, sums[i]);
    ASSERT_EQ(sum.dtype(), DType::kHalf);
    EXPECT_EQ(static_cast<float>(sum.flat<Half>()[0]), 2052.0f);
  }
}

TEST_F(GpuCliqueTest, OneGpuAloneGetsItsInput) {
  const auto clique = NewClique(1);
  const Tensor input = OnGpu(0, Tensor::Vector<float>({1, 2}));
  const std::vector<std::string> log = LogOf([&] {
    const std::vector<Tensor> results[] = {clique->AllReduce({input}, NcclReduction::kSum, true).value(),
                                           clique->AllGather({input}).value(),
                                           clique->Broadcast(0, input).value()};
    for (const std::vector<Tensor>& result : results) {
      ASSERT_EQ(result.size(), 1u);
      EXPECT_EQ(std::as_const(result[0]).data(), input.data());
    }
  });
  EXPECT_THAT(log, IsEmpty());
  EXPECT_THAT(cuda_.nccl().log(), IsEmpty());
}

TEST_F(GpuCliqueTest, RowsAreGatheredInTheOrderOfRanks) {
  const auto clique = NewClique(3);
  for (const bool are_alike : {true, false}) {
    std::vector<Tensor> inputs;
    std::vector<float> expected;
    for (int i = 0; i < 3; ++i) {
      std::vector<float> rows;
      const int num_rows = are_alike ? 2 : i;  // none of the first one
      for (int k = 0; k < num_rows * 2; ++k) rows.push_back(static_cast<float>(10 * i + k));
      expected.insert(expected.end(), rows.begin(), rows.end());
      inputs.push_back(OnGpu(i, Tensor::FromSpan<float>(Shape({num_rows, 2}), rows)));
    }
    std::vector<Tensor> all;
    const std::vector<std::string> log = LogOf([&] { all = clique->AllGather(inputs).value(); });
    for (const std::string& line : log) EXPECT_THAT(line, Not(HasSubstr("cudaMemcpy")));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(all[i].shape(), Shape({static_cast<int64_t>(expected.size()) / 2, 2}));
      EXPECT_EQ(Values<float>(i, all[i]), expected);
    }
  }
}

TEST_F(GpuCliqueTest, ABroadcastGivesTheRootsTensor) {
  const auto clique = NewClique(3);
  const Tensor input = OnGpu(1, Tensor::Vector<int64_t>({5, -7}));
  std::vector<Tensor> all;
  const std::vector<std::string> log = LogOf([&] { all = clique->Broadcast(1, input).value(); });
  for (const std::string& line : log) EXPECT_THAT(line, Not(HasSubstr("cudaMemcpy")));
  EXPECT_EQ(std::as_const(all[1]).data(), input.data());
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Values<int64_t>(i, all[i]), ElementsAre(5, -7));
}

TEST_F(GpuCliqueTest, ItConnectsOnceAndEndsItsRanks) {
  {
    const auto clique = NewClique(2);
    for (int round = 0; round < 2; ++round) {
      const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                          OnGpu(1, Tensor::Vector<float>({2}))};
      ASSERT_TRUE(clique->AllReduce(inputs, NcclReduction::kProduct, false).ok());
    }
    api_.RunAll();
  }
  EXPECT_THAT(
      cuda_.nccl().log(),
      ElementsAre("ncclCommInitAll of 2", "ncclGroupStart", "ncclAllReduce 1 float product, rank 0 of 2",
                  "ncclAllReduce 1 float product, rank 1 of 2", "ncclGroupEnd", "ncclGroupStart",
                  "ncclAllReduce 1 float product, rank 0 of 2", "ncclAllReduce 1 float product, rank 1 of 2",
                  "ncclGroupEnd", "ncclCommDestroy rank 0 of 2", "ncclCommDestroy rank 1 of 2"));
}

// What one stream may have got already must not stand there for ever.
TEST_F(GpuCliqueTest, ACallThatFailsEndsTheCliqueAndNamesTheGpu) {
  const auto clique = NewClique(2);
  const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                      OnGpu(1, Tensor::Vector<float>({2}))};
  cuda_.nccl().FailCall("ncclAllReduce", 2);
  for (int round = 0; round < 2; ++round) {
    const absl::Status status = clique->AllReduce(inputs, NcclReduction::kSum, false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              "the collectives between /job:localhost/replica:0/task:0/device:GPU:0, "
              "/job:localhost/replica:0/task:0/device:GPU:1 were ended: "
              "/job:localhost/replica:0/task:0/device:GPU:1: ncclAllReduce: NCCL error 2 (unhandled system "
              "error): the test wants it");
  }
  EXPECT_THAT(cuda_.nccl().log(), Contains("ncclCommAbort rank 0 of 2"));
  EXPECT_THAT(cuda_.nccl().log(), Contains("ncclCommAbort rank 1 of 2"));
}

TEST_F(GpuCliqueTest, WhereNcclCannotConnectItStaysSo) {
  const auto clique = NewClique(2);
  cuda_.nccl().FailCall("ncclCommInitAll");
  const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                      OnGpu(1, Tensor::Vector<float>({2}))};
  const absl::Status status = clique->AllReduce(inputs, NcclReduction::kSum, false).status();
  EXPECT_THAT(std::string(status.message()), StartsWith("the GPUs cannot be connected: ncclCommInitAll"));
  // All have to do the same, so it is not tried again.
  EXPECT_EQ(clique->Connect(), status);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(gpus_[i]->health().ok());
}

// Its stream never comes to the collective, so the other one would wait for ever.
TEST_F(GpuCliqueTest, WhenAGpuIsLostInTheMiddleTheOthersAreLetGo) {
  const auto clique = NewClique(2);
  const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                      OnGpu(1, Tensor::Vector<float>({2}))};
  ASSERT_TRUE(clique->AllReduce(inputs, NcclReduction::kSum, false).ok());
  api_.LoseDevice(1, kCudaIllegalAddress);
  EXPECT_TRUE(IsLogged("ncclCommAbort rank 0 of 2"));
  EXPECT_TRUE(IsLogged("ncclCommAbort rank 1 of 2"));
  const absl::Status status = clique->AllReduce(inputs, NcclReduction::kSum, false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("GPU:1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
}

TEST_F(GpuCliqueTest, WhenNcclSaysThatALinkIsBrokenTheStreamsAreLetGo) {
  const auto clique = NewClique(2);
  const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                      OnGpu(1, Tensor::Vector<float>({2}))};
  ASSERT_TRUE(clique->AllReduce(inputs, NcclReduction::kSum, false).ok());
  cuda_.nccl().SetAsyncError(0, absl::InternalError("a collective of NCCL: NCCL error 6 (remote error)"));
  EXPECT_TRUE(IsLogged("ncclCommAbort rank 1 of 2"));
  const absl::Status status = clique->AllReduce(inputs, NcclReduction::kSum, false).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("GPU:0: a collective of NCCL: NCCL error 6"));
}

// The streams of the GPUs that are well go on with the garbage that an abort leaves.
TEST_F(GpuCliqueTest, NothingComesFromTheMemoryBehindAnAbort) {
  for (const bool is_before : {false, true}) {
    SetUp();
    cuda_.nccl().SetAsyncError(0, absl::OkStatus());
    {
      const auto clique = NewClique(2);
      cuda_.nccl().ClearLog();
      cuda_.nccl().BreakLinks();
      const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                          OnGpu(1, Tensor::Vector<float>({2}))};
      const std::vector<Tensor> sums =
          clique->AllReduce(inputs, NcclReduction::kSum, false, "train/mean").value();
      absl::Notification over[2];
      absl::Status copied[2];
      const auto copy = [&](int gpu) {
        const absl::StatusOr<Tensor> begun =
            gpus_[gpu]->CopyOut(sums[gpu], [&, gpu](const absl::Status& end) {
              copied[gpu] = end;
              over[gpu].Notify();
            });
        if (begun.ok()) return over[gpu].WaitForNotification();
        copied[gpu] = begun.status();
      };
      std::vector<std::thread> copies;
      if (is_before) {
        for (int gpu = 0; gpu < 2; ++gpu) copies.emplace_back([&, gpu] { copy(gpu); });
        while (api_.num_calls("cudaEventSynchronize") < 2) absl::SleepFor(absl::Milliseconds(1));
      }
      cuda_.nccl().SetAsyncError(0, absl::InternalError("NCCL error 6 (remote error)"));
      EXPECT_TRUE(IsLogged("ncclCommAbort rank 1 of 2"));
      if (!is_before) {
        for (int gpu = 0; gpu < 2; ++gpu) copy(gpu);
      }
      for (std::thread& thread : copies) thread.join();
      for (int gpu = 0; gpu < 2; ++gpu) {
        for (const absl::Status& status : {copied[gpu], gpus_[gpu]->health()}) {
          EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
          EXPECT_TRUE(IsOfLostDevice(status));
          EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("GPU:", gpu, " (")));
          EXPECT_THAT(
              std::string(status.message()),
              HasSubstr("is lost: the collectives between /job:localhost/replica:0/task:0/device:GPU:0, "
                        "/job:localhost/replica:0/task:0/device:GPU:1 were ended: "));
          EXPECT_THAT(std::string(status.message()),
                      EndsWith("GPU:0: NCCL error 6 (remote error); the newest is 'train/mean'"));
        }
      }
      api_.RunAll();
      const std::vector<std::byte> there = api_.Peek(std::as_const(sums[1]).data(), 1);
      EXPECT_EQ(there, std::vector<std::byte>{std::byte{RecordingNcclApi::kGarbage}});
    }
    EXPECT_TRUE(gpus_[2]->health().ok()) << "it is in no collective";
    gpus_.clear();
  }
}

// A copy to a GPU may wait for its stream, and only the abort lets that go.
TEST_F(GpuCliqueTest, WhoWaitsForAStreamKeepsNobodyFromLettingItGo) {
  const auto clique = NewClique(2);
  cuda_.nccl().BreakLinks();
  const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                      OnGpu(1, Tensor::Vector<float>({2}))};
  ASSERT_TRUE(clique->AllReduce(inputs, NcclReduction::kSum, false).ok());
  // As much is on its way as there is room for; the next copy waits for the first one of these.
  const Tensor piece(DType::kFloat32, Shape({static_cast<int64_t>(PinnedSlab::kPieceBytes / sizeof(float))}));
  std::vector<Tensor> on_their_way;
  for (int i = 0; i < PinnedSlab::kNumPieces; ++i) on_their_way.push_back(OnGpu(0, piece));
  const int64_t num_waits = api_.num_calls("cudaEventSynchronize");
  std::thread mean([&] { clique->AllReduce(inputs, NcclReduction::kSum, true).status().IgnoreError(); });
  while (api_.num_calls("cudaEventSynchronize") == num_waits) absl::SleepFor(absl::Milliseconds(1));
  cuda_.nccl().SetAsyncError(0, absl::InternalError("NCCL error 6 (remote error)"));
  mean.join();
  EXPECT_THAT(api_.TakeProblems(), Not(Contains(HasSubstr("nobody lets the stream go"))));
  EXPECT_TRUE(IsLogged("ncclCommAbort rank 1 of 2"));
}

// Without anybody to look after it, too.
TEST_F(GpuCliqueTest, ACliqueThatEndsWithWorkUnderWayAbortsIt) {
  auto clique = NewClique(2);
  const std::vector<Tensor> inputs = {OnGpu(0, Tensor::Vector<float>({1})),
                                      OnGpu(1, Tensor::Vector<float>({2}))};
  ASSERT_TRUE(clique->AllReduce(inputs, NcclReduction::kSum, false).ok());
  clique = nullptr;
  EXPECT_THAT(cuda_.nccl().log(), Contains("ncclCommAbort rank 0 of 2"));
  EXPECT_THAT(cuda_.nccl().log(), Not(Contains("ncclCommDestroy rank 0 of 2")));
}

TEST_F(GpuCliqueTest, WithoutTheLibraryItSaysSo) {
  cuda_.nccl().SetMissing(absl::NotFoundError("NCCL, needed for collectives on GPUs, cannot be opened"));
  EXPECT_TRUE(absl::IsNotFound(NewClique(2)->Connect()));
  EXPECT_TRUE(NewClique(1)->Connect().ok());
}

}  // namespace
}  // namespace weir
