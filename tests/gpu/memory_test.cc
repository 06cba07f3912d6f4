// A GPU whose memory is not enough: an error of the step alone, and the next one runs.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/standard_ops.h"
#include "tests/gpu/gpu_place.h"

namespace weir::gpu_check {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class MemoryTest : public ::testing::Test {
 protected:
  // A step that needs as many floats on the device, and gives their sum.
  static absl::StatusOr<float> SumOfOnes(Session& session, const Output& dims, const Output& sum,
                                         int64_t count) {
    auto result = session.Run({{dims, Tensor::Vector<int64_t>({count})}}, {sum});
    if (!result.ok()) return result.status();
    return (*result)[0].scalar<float>();
  }

  static void Exhaust(const RuntimeOptions& options, int64_t too_many) {
    GpuPlace place(options);
    if (!place.why_not().empty()) GTEST_SKIP() << place.why_not();
    GraphBuilder g(place.runtime().ops());
    auto scope = g.DeviceScope("/gpu:0");
    const Output dims = Placeholder(g, DType::kInt64, {1});
    const Output ones = g.AddOp("Fill", {dims, Const(g, 1.0f)});
    const Output sum = Sum(g, AddV2(g, ones, Relu(g, ones)), ConstIntegers(g, {0}));
    const auto session = place.NewSession(g.graph());
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<float> enough = SumOfOnes(*session, dims, sum, 1000 + i);
      ASSERT_TRUE(enough.ok()) << enough.status();
      EXPECT_EQ(*enough, 2 * (1000 + i));
      const absl::Status status = SumOfOnes(*session, dims, sum, too_many).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    }
  }
};

TEST_F(MemoryTest, BeyondItsLimitAStepIsRefusedAndTheNextOneRuns) {
  Exhaust({.num_threads = 2, .memory_limit = 8 * kMiB}, 4 * kMiB);
}

TEST_F(MemoryTest, MoreThanAGpuHasIsRefusedAndTheNextStepRuns) {
  Exhaust({.num_threads = 2}, int64_t{1} << 40);
}

// As much as there is, in pieces: until CUDA itself says that there is no more.
TEST_F(MemoryTest, AllOfItCanBeTakenAndIsGivenBack) {
  TestCuda cuda;
  if (const std::string why = cuda.WhyNot(1); !why.empty()) GTEST_SKIP() << why;
  CudaApi& api = *cuda.backend().api;
  for (int round = 0; round < 2; ++round) {
    const int64_t free = api.Memory(0).value().free;
    std::vector<void*> taken;
    int64_t num_bytes = 0;
    for (int64_t size = free; size >= kMiB; size /= 2) {
      while (true) {
        const absl::StatusOr<void*> address = api.Allocate(0, static_cast<size_t>(size));
        if (!address.ok()) {
          EXPECT_EQ(address.status().code(), absl::StatusCode::kResourceExhausted) << address.status();
          break;
        }
        taken.push_back(*address);
        num_bytes += size;
      }
    }
    EXPECT_GE(num_bytes, free / 2);
    for (void* const address : taken) EXPECT_TRUE(api.Free(0, address).ok());
    EXPECT_GE(api.Memory(0).value().free, free - 64 * kMiB);
  }
}

}  // namespace
}  // namespace weir::gpu_check
