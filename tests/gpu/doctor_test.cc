// What this machine has of GPUs, as `weir doctor` says it: something that Weir computes on, and the libraries
// that it calls.
#include <gtest/gtest.h>

#include <cstdio>

#include "absl/strings/match.h"
#include "kernels/cuda/cuda_libraries.h"
#include "kernels/cuda/gpu_report.h"
#include "kernels/cuda/test_cuda.h"

namespace weir::gpu_check {
namespace {

TEST(DoctorTest, ThereIsAGpuAndWhatItNeeds) {
  TestCuda cuda;
  if (const std::string why = cuda.WhyNot(1); !why.empty()) GTEST_SKIP() << why;
  CudaLibraries libraries(CudaLibraryFolders());
  const GpuReport report = ReportGpus(cuda.backend().api, libraries);
  EXPECT_EQ(report.why_none, "");
  std::printf("versions: %s\n", report.versions.c_str());
  int num_good = 0;
  for (const GpuReport::Line& line : report.gpus) {
    std::printf("%s\n", line.text.c_str());
    num_good += line.is_good;
  }
  EXPECT_GT(num_good, 0) << "no GPU is one that Weir computes on";
  for (const GpuReport::Line& line : report.libraries) {
    std::printf("%s\n", line.text.c_str());
    // Nothing calls NVRTC yet, without NCCL collectives go through the host, and a rehearsal calls none.
    const bool is_called = absl::StartsWith(line.text, "cuDNN") || absl::StartsWith(line.text, "cuBLASLt");
    if (is_called && ChosenTestGpus() == TestGpus::kReal) EXPECT_TRUE(line.is_good) << line.text;
  }
}

}  // namespace
}  // namespace weir::gpu_check
