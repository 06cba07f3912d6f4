// Collectives by NCCL: one GPU alone, which a machine with one can run, and two where there are two.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/gpu_clique.h"
#include "kernels/cuda/gpu_links.h"
#include "kernels/cuda/nccl_api.h"
#include "tests/gpu/gpu_place.h"

namespace weir::gpu_check {
namespace {

constexpr int64_t kCount = 1 << 20;

class CollectivesTest : public ::testing::Test {
 protected:
  // An empty text where there are as many GPUs, and NCCL.
  std::string Begin(int num_gpus) {
    place_ = std::make_unique<GpuPlace>(RuntimeOptions{.num_threads = 2}, num_gpus);
    if (!place_->why_not().empty()) return place_->why_not();
    return std::string(nccl().Open().message());
  }

  NcclApi& nccl() { return *place_->cuda().backend().nccl; }
  CudaDevice& gpu(int number) { return static_cast<CudaDevice&>(place_->gpu(number)); }

  std::unique_ptr<GpuClique> NewClique(int size) {
    std::vector<RefPtr<GpuLinks>> links;
    for (int i = 0; i < size; ++i) {
      links.push_back(gpu(i).resources().Lookup<GpuLinks>(Communicator::kContainer, GpuLinks::kName).value());
    }
    return std::make_unique<GpuClique>(std::move(links));
  }

  template <typename T>
  static Tensor Numbers(int seed) {
    Tensor tensor(DTypeOf<T>, Shape({kCount}));
    for (int64_t i = 0; i < kCount; ++i) {
      tensor.flat<T>()[i] = static_cast<T>(100 * std::sin(static_cast<double>(i + 31 * seed)));
    }
    return tensor;
  }

  static void ExpectSame(const Tensor& found, const Tensor& expected) {
    ASSERT_EQ(found.num_bytes(), expected.num_bytes());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.num_bytes()), 0);
  }

  std::unique_ptr<GpuPlace> place_;
};

// The clique asks NCCL for nothing where a GPU is alone: here it is asked.
TEST_F(CollectivesTest, NcclGivesOneGpuWhatItHas) {
  if (const std::string why = Begin(1); !why.empty()) GTEST_SKIP() << why;
  const CudaStreamHandle stream = gpu(0).compute_stream().handle();
  std::vector<NcclRank> ranks;
  {
    absl::MutexLock turn(&nccl().turn());
    const int devices[] = {gpu(0).compute_stream().device()};
    auto created = nccl().Create(devices);
    ASSERT_TRUE(created.ok()) << created.status();
    ranks = *std::move(created);
  }
  for (const Tensor& input :
       {Numbers<float>(1), Numbers<double>(2), Numbers<int32_t>(3), Numbers<int64_t>(4)}) {
    const Tensor from = gpu(0).FromHost(input).value();
    for (const std::string what : {"reduce", "gather", "broadcast"}) {
      SCOPED_TRACE(absl::StrCat(what, " ", DTypeName(input.dtype())));
      Tensor to = Tensor::Allocate(input.dtype(), input.shape(), gpu(0).allocator()).value();
      {
        absl::MutexLock turn(&nccl().turn());
        ASSERT_TRUE(nccl().BeginGroup().ok());
        const absl::Status status =
            what == "reduce" ? nccl().AllReduce(ranks[0], from.data(), to.data(), kCount, input.dtype(),
                                                NcclReduction::kSum, stream)
            : what == "gather"
                ? nccl().AllGather(ranks[0], from.data(), to.data(), from.num_bytes(), stream)
                : nccl().Broadcast(ranks[0], from.data(), to.data(), from.num_bytes(), 0, stream);
        EXPECT_TRUE(status.ok()) << status;
        const absl::Status ended = nccl().EndGroup();
        ASSERT_TRUE(ended.ok()) << ended;
      }
      const absl::StatusOr<Tensor> result = gpu(0).ToHost(to);
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectSame(*result, input);
      EXPECT_TRUE(nccl().AsyncError(ranks[0]).ok());
    }
  }
  absl::MutexLock turn(&nccl().turn());
  EXPECT_TRUE(nccl().Destroy(ranks[0]).ok());
}

TEST_F(CollectivesTest, OneGpuAloneGetsItsInputAtOnce) {
  if (const std::string why = Begin(1); !why.empty()) GTEST_SKIP() << why;
  const auto clique = NewClique(1);
  const Tensor input = gpu(0).FromHost(Numbers<float>(1)).value();
  const auto mean = clique->AllReduce({input}, NcclReduction::kSum, true);
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_EQ(std::as_const((*mean)[0]).data(), input.data());
}

// Two addends have one sum, in whichever order.
TEST_F(CollectivesTest, TwoGpusGetTheSumOfBoth) {
  if (const std::string why = Begin(2); !why.empty()) GTEST_SKIP() << why;
  const auto clique = NewClique(2);
  const Tensor a = Numbers<float>(1), b = Numbers<float>(2);
  Tensor mean(DType::kFloat32, Shape({kCount}));
  for (int64_t i = 0; i < kCount; ++i) mean.flat<float>()[i] = (a.flat<float>()[i] + b.flat<float>()[i]) / 2;
  for (int round = 0; round < 3; ++round) {
    const std::vector<Tensor> inputs = {gpu(0).FromHost(a).value(), gpu(1).FromHost(b).value()};
    const auto means = clique->AllReduce(inputs, NcclReduction::kSum, true);
    ASSERT_TRUE(means.ok()) << means.status();
    const auto sent = clique->Broadcast(1, inputs[1]);
    ASSERT_TRUE(sent.ok()) << sent.status();
    const auto gathered = clique->AllGather(inputs);
    ASSERT_TRUE(gathered.ok()) << gathered.status();
    for (int i = 0; i < 2; ++i) {
      ExpectSame(gpu(i).ToHost((*means)[i]).value(), mean);
      ExpectSame(gpu(i).ToHost((*sent)[i]).value(), b);
      const Tensor both = gpu(i).ToHost((*gathered)[i]).value();
      ASSERT_EQ(both.num_elements(), 2 * kCount);
      EXPECT_EQ(both.flat<float>()[3], a.flat<float>()[3]);
      EXPECT_EQ(both.flat<float>()[kCount + 3], b.flat<float>()[3]);
    }
  }
}

}  // namespace
}  // namespace weir::gpu_check
