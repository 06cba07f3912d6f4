// The real runtime, as far as it goes on whatever machine runs the test.
#include "kernels/cuda/cudart_api.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_error.h"

namespace weir {
namespace {

TEST(CudartApiTest, IsThereWhereTheToolkitWas) { EXPECT_EQ(MakeCudartApi() != nullptr, IsBuiltWithCuda()); }

TEST(CudartApiTest, SaysHowManyDevicesThereAreOrWhyThereIsNone) {
  const std::unique_ptr<CudaApi> api = MakeCudartApi();
  if (!api) GTEST_SKIP() << "built without CUDA";
  const absl::StatusOr<CudaVersions> versions = api->Versions();
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_GE(versions->runtime, 13000);
  const absl::StatusOr<int> count = api->NumDevices();
  if (count.ok()) {
    EXPECT_GT(versions->driver, 0);
    return;
  }
  EXPECT_EQ(count.status().code(), absl::StatusCode::kNotFound) << count.status();
  const int number = CudaErrorNumberOf(count.status());
  EXPECT_TRUE(number == kCudaInsufficientDriver || number == kCudaNoDevice) << count.status();
  // Whatever is asked then fails alike, and nothing aborts.
  EXPECT_EQ(api->Allocate(0, 1024).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(api->CreateStream(0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(api->Properties(0).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace weir
