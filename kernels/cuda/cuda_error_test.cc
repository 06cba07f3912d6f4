#include "kernels/cuda/cuda_error.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(CudaErrorTest, SaysWhichCallFailedAndHowCudaCallsTheError) {
  const absl::Status status =
      CudaError("cudaMalloc", kCudaOutOfMemory, "cudaErrorMemoryAllocation", "out of memory");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "cudaMalloc: CUDA error 2 (cudaErrorMemoryAllocation): out of memory");
  EXPECT_EQ(CudaErrorNumberOf(status), kCudaOutOfMemory);
}

TEST(CudaErrorTest, SuccessIsOk) { EXPECT_TRUE(CudaError("cudaFree", kCudaSuccess, "", "").ok()); }

TEST(CudaErrorTest, TheCodeSaysWhatCanBeDone) {
  const auto code = [](int number) { return CudaError("f", number, "n", "t").code(); };
  EXPECT_EQ(code(kCudaNoDevice), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(kCudaInsufficientDriver), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(kCudaIllegalAddress), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(kCudaInvalidValue), absl::StatusCode::kInternal);
}

TEST(CudaErrorTest, OnlyAnErrorThatStaysLosesTheDevice) {
  EXPECT_TRUE(SaysDeviceLost(CudaError("f", kCudaLaunchFailure, "n", "t")));
  EXPECT_FALSE(SaysDeviceLost(CudaError("f", kCudaOutOfMemory, "n", "t")));
  EXPECT_FALSE(SaysDeviceLost(absl::UnavailableError("a peer is gone")));
  EXPECT_FALSE(SaysDeviceLost(absl::OkStatus()));
}

}  // namespace
}  // namespace weir
