#include "kernels/cuda/gpu_report.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

std::string WhyNone(CudaApi* api) {
  CudaLibraries libraries({});
  const GpuReport report = ReportGpus(api, libraries);
  EXPECT_TRUE(report.gpus.empty());
  EXPECT_TRUE(report.libraries.empty());
  return report.why_none;
}

TEST(GpuReportTest, OneSentenceSaysWhyThereIsNone) {
  EXPECT_EQ(WhyNone(nullptr), "this program was built without CUDA");
  RecordingCudaApi none({.num_devices = 0});
  EXPECT_EQ(WhyNone(&none), "the NVIDIA driver sees no GPU (or CUDA_VISIBLE_DEVICES hides them all)");
  RecordingCudaApi without_driver({.versions = {.driver = 0, .runtime = 13000}});
  without_driver.FailCall("cudaGetDeviceCount", kCudaInsufficientDriver);
  EXPECT_EQ(WhyNone(&without_driver), "there is no NVIDIA driver on this machine");
  RecordingCudaApi old_driver({.versions = {.driver = 12040, .runtime = 13000}});
  old_driver.FailCall("cudaGetDeviceCount", kCudaInsufficientDriver);
  EXPECT_EQ(WhyNone(&old_driver),
            "the NVIDIA driver is too old: it runs CUDA 12.4, and this program needs 13.0");
  RecordingCudaApi broken;
  broken.FailCall("cudaGetDeviceCount", kCudaLaunchFailure);
  EXPECT_EQ(WhyNone(&broken),
            "cudaGetDeviceCount: CUDA error 719 (cudaErrorLaunchFailure): the test wants it");
}

TEST(GpuReportTest, GpusHaveALineEach) {
  RecordingCudaApi api({.num_devices = 3, .compute_majors = {9, 8}});
  api.LoseDevice(2, kCudaIllegalAddress);
  CudaLibraries libraries({});
  const GpuReport report = ReportGpus(&api, libraries);
  EXPECT_EQ(report.why_none, "");
  EXPECT_EQ(report.versions, "driver for CUDA 13.0, runtime 13.0");
  ASSERT_EQ(report.gpus.size(), 3u);
  EXPECT_TRUE(report.gpus[0].is_good);
  EXPECT_EQ(report.gpus[0].text, "GPU 0: Recording GPU, compute capability 9.0, 1.1 GB, 1.1 GB free");
  EXPECT_FALSE(report.gpus[1].is_good);
  EXPECT_EQ(report.gpus[1].text,
            "GPU 1: Recording GPU, compute capability 8.0, 1.1 GB: its compute capability is 8.0, and 9.0 or "
            "more is "
            "needed");
  EXPECT_FALSE(report.gpus[2].is_good);
  EXPECT_EQ(report.gpus[2].text,
            "GPU 2: cudaGetDeviceProperties: CUDA error 700 (cudaErrorIllegalAddress): the device was lost");
  ASSERT_EQ(report.libraries.size(), 4u);
  for (const GpuReport::Line& line : report.libraries) EXPECT_NE(line.text, "");
}

}  // namespace
}  // namespace weir
