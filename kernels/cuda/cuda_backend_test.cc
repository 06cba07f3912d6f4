// Asking for GPUs: as many as are wanted, or one sentence.
#include "kernels/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CudaBackendTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<std::unique_ptr<CudaDevice>>> Make(CudaApi* api, int count) {
    return MakeGpus({.api = api, .compute = {}}, count, "worker", 1, threads_, 0);
  }
  ThreadPool threads_{1};
};

TEST_F(CudaBackendTest, GivesAsManyAsAreWanted) {
  RecordingCudaApi api({.num_devices = 3});
  const auto gpus = Make(&api, 2);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[1]->name().ToString(), "/job:worker/replica:0/task:1/device:GPU:1");
}

TEST_F(CudaBackendTest, SaysWhyThereAreNotEnough) {
  RecordingCudaApi old({.num_devices = 2, .compute_majors = {9, 7}});
  EXPECT_EQ(
      Make(&old, 2).status(),
      absl::FailedPreconditionError(
          "num_gpus is 2: this machine has 1 that Weir computes on (left out: GPU 1 (Recording GPU): its "
          "compute capability is 7.0, and 9.0 or more is needed)"));
  RecordingCudaApi none({.num_devices = 0});
  EXPECT_EQ(Make(&none, 1).status().message(),
            "num_gpus is 1: the NVIDIA driver sees no GPU (or CUDA_VISIBLE_DEVICES hides them all)");
  EXPECT_EQ(Make(nullptr, 1).status().message(), "num_gpus is 1: this program was built without CUDA");
}

// Whatever this machine has.
TEST_F(CudaBackendTest, TheRealOneGivesGpusOrOneSentence) {
  const auto gpus = MakeGpus(TheCudaBackend(), 1, "worker", 0, threads_, 0);
  if (gpus.ok()) {
    EXPECT_EQ(gpus->size(), 1u);
    return;
  }
  EXPECT_EQ(gpus.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(gpus.status().message()), StartsWith("num_gpus is 1: "));
  EXPECT_THAT(std::string(gpus.status().message()), ::testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace weir
