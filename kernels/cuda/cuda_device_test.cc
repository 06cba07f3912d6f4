#include "kernels/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
constexpr int64_t kMiB = int64_t{1} << 20;

Tensor Numbers(int64_t count) {
  Tensor tensor(DType::kInt32, Shape({count}));
  std::iota(tensor.flat<int32_t>().begin(), tensor.flat<int32_t>().end(), 0);
  return tensor;
}

bool AreEqual(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::equal(a.flat<int32_t>().begin(), a.flat<int32_t>().end(), b.flat<int32_t>().begin());
}

class CudaDeviceTest : public ::testing::Test {
 protected:
  std::unique_ptr<CudaDevice> Make(int64_t memory_limit = 0) {
    CudaDevices made = *MakeCudaDevices(api_, "worker", 3, threads_, {.memory_limit = memory_limit});
    return std::move(made.devices.at(0));
  }

  ThreadPool threads_{1};
  RecordingCudaApi api_;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const std::unique_ptr<CudaDevice> device = Make();
  EXPECT_EQ(device->name().ToString(), "/job:worker/replica:0/task:3/device:GPU:0");
  EXPECT_EQ(device->type(), "GPU");
  EXPECT_EQ(device->attributes().description, "Recording GPU, compute capability 9.0, 1.1 GB");
  EXPECT_EQ(device->attributes().memory_limit, 1024 * kMiB - 300 * kMiB);
  EXPECT_NE(device->attributes().incarnation, 0u);
}

TEST_F(CudaDeviceTest, TensorsGoThereAndComeBack) {
  const std::unique_ptr<CudaDevice> device = Make();
  const auto piece = static_cast<int64_t>(PinnedSlab::kPieceBytes / sizeof(int32_t));
  for (const int64_t count : {int64_t{0}, int64_t{1}, piece, piece + 1, 9 * piece + 7}) {
    const absl::StatusOr<Tensor> there = device->FromHost(Numbers(count));
    ASSERT_TRUE(there.ok()) << there.status();
    const absl::StatusOr<Tensor> back = device->ToHost(*there);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(AreEqual(*back, Numbers(count))) << count;
  }
}

TEST_F(CudaDeviceTest, TheSourceMayChangeAsSoonAsItIsHandedOver) {
  const std::unique_ptr<CudaDevice> device = Make();
  Tensor host = Numbers(1000);
  const Tensor there = *device->FromHost(host);
  EXPECT_EQ(api_.num_pending(), 2);  // nobody waited: the copy and its event
  host.flat<int32_t>()[0] = 77;
  EXPECT_EQ((*device->ToHost(there)).flat<int32_t>()[0], 0);
}

TEST_F(CudaDeviceTest, ACopyToTheHostComesLaterAndKeepsItsSource) {
  const std::unique_ptr<CudaDevice> device = Make();
  Tensor there = *device->FromHost(Numbers(1000));
  const void* const address = there.data();
  absl::Notification has_ended;
  absl::Status status;
  const absl::StatusOr<Tensor> back = device->CopyOut(there, [&](const absl::Status& ended) {
    status = ended;
    has_ended.Notify();
  });
  ASSERT_TRUE(back.ok()) << back.status();
  there = Tensor();
  has_ended.WaitForNotification();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(AreEqual(*back, Numbers(1000)));
  EXPECT_EQ(device->FromHost(Numbers(1000))->data(), address) << "the source's memory is free now";
}

TEST_F(CudaDeviceTest, AFewLargeCopiesAreOnTheirWayAtOnce) {
  const std::unique_ptr<CudaDevice> device = Make();
  const auto piece = static_cast<int64_t>(PinnedSlab::kPieceBytes / sizeof(int32_t));
  for (int i = 0; i < PinnedSlab::kNumPieces; ++i) ASSERT_TRUE(device->FromHost(Numbers(piece)).ok());
  EXPECT_EQ(api_.num_calls("cudaEventSynchronize"), 0);
  ASSERT_TRUE(device->FromHost(Numbers(piece)).ok());
  EXPECT_EQ(api_.num_calls("cudaEventSynchronize"), 1);
}

TEST_F(CudaDeviceTest, SmallCopiesShareAPieceAndWaitForNothing) {
  const std::unique_ptr<CudaDevice> device = Make();
  std::vector<Tensor> there;
  for (int i = 0; i < 1000; ++i) there.push_back(*device->FromHost(Numbers(i)));
  EXPECT_EQ(api_.num_calls("cudaEventSynchronize"), 0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(AreEqual(*device->ToHost(there[i]), Numbers(i))) << i;
}

TEST_F(CudaDeviceTest, StringsStayWithTheHost) {
  const std::unique_ptr<CudaDevice> device = Make();
  const Tensor text = Tensor::Scalar<std::string>("text");
  EXPECT_EQ(device->FromHost(text)->data(), text.data());
  EXPECT_EQ(device->ToHost(text)->data(), text.data());
}

TEST_F(CudaDeviceTest, TheLimitIsThatOfItsTensors) {
  const std::unique_ptr<CudaDevice> device = Make(4 * kMiB);
  const Tensor first = *device->FromHost(Numbers(3 * kMiB / 4));
  const absl::Status status = device->FromHost(Numbers(2 * kMiB / 4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the biggest buffers: 1 of 3.1 MB"));
  EXPECT_TRUE(device->health().ok());
}

TEST_F(CudaDeviceTest, ALostDeviceSaysSoFromThenOn) {
  const std::unique_ptr<CudaDevice> device = Make();
  const Tensor there = *device->FromHost(Numbers(10));
  api_.LoseDevice(0, kCudaIllegalAddress);
  for (int i = 0; i < 2; ++i) {
    for (const absl::Status& status :
         {device->ToHost(there).status(), device->FromHost(Numbers(1)).status(), device->health()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("the device /job:worker/replica:0/task:3/device:GPU:0 (Recording GPU, compute "
                            "capability 9.0, 1.1 GB) is lost: cuda"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("CUDA error 700 (cudaErrorIllegalAddress)"));
    }
  }
}

TEST_F(CudaDeviceTest, AnErrorThatDoesNotStayLosesNothing) {
  const std::unique_ptr<CudaDevice> device = Make();
  api_.FailCall("cudaMemcpyAsync", kCudaInvalidValue);
  EXPECT_EQ(device->FromHost(Numbers(10)).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(device->health().ok());
  EXPECT_TRUE(device->FromHost(Numbers(10)).ok());
}

TEST_F(CudaDeviceTest, ATensorMayOutliveIt) {
  std::unique_ptr<CudaDevice> device = Make();
  const Tensor there = *device->FromHost(Numbers(10));
  device = nullptr;
  EXPECT_GT(api_.num_bytes(0), 0);
}

TEST(MakeCudaDevicesTest, NoGpuIsNoErrorAndNoDevice) {
  ThreadPool threads(1);
  RecordingCudaApi api({.num_devices = 0});
  const absl::StatusOr<CudaDevices> made = MakeCudaDevices(api, "localhost", 0, threads);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->devices, IsEmpty());
  RecordingCudaApi without_driver;
  without_driver.FailCall("cudaGetDeviceCount", kCudaInsufficientDriver);
  EXPECT_THAT(MakeCudaDevices(without_driver, "localhost", 0, threads)->devices, IsEmpty());
}

TEST(MakeCudaDevicesTest, ABrokenOneIsAnError) {
  ThreadPool threads(1);
  RecordingCudaApi api({.num_devices = 2});
  api.FailCall("cudaGetDeviceProperties", kCudaLaunchFailure, 2);
  EXPECT_EQ(MakeCudaDevices(api, "localhost", 0, threads).status().code(), absl::StatusCode::kUnavailable);
}

TEST(MakeCudaDevicesTest, EveryGpuGetsOneUnlessItIsTooOld) {
  ThreadPool threads(1);
  RecordingCudaApi api({.num_devices = 3, .compute_majors = {9, 7, 10}});
  const CudaDevices made = *MakeCudaDevices(api, "localhost", 0, threads, {.memory_limit = kMiB});
  ASSERT_EQ(made.devices.size(), 2u);
  EXPECT_EQ(made.devices[1]->name().ToString(), "/job:localhost/replica:0/task:0/device:GPU:1");
  EXPECT_EQ(made.devices[1]->stream().device(), 2);
  EXPECT_THAT(made.left_out,
              ElementsAre("GPU 1 (Recording GPU): its compute capability is 7.0, and 9.0 or more is needed"));
}

}  // namespace
}  // namespace weir
