// What a recorder takes down of a device's work, on the recording stand-in of CUDA.
#include "kernels/cuda/cuda_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

class Step final : public PendingWork {
 public:
  void Begin() override {}
  void End(const absl::Status&) override {}
};

class CudaRecorderTest : public ::testing::Test {
 protected:
  CudaRecorderTest() : device_(std::move(MakeCudaDevices(api_, "worker", 0, threads_)->devices.at(0))) {}

  Tensor Bytes() { return *Tensor::Allocate(DType::kInt8, Shape({4}), device_->allocator()); }
  // Enqueued where kernels of this thread go.
  void Fill(const Tensor& tensor, char value) {
    ASSERT_TRUE(device_->stream().Fill(const_cast<void*>(tensor.data()), value, tensor.num_bytes()).ok());
  }
  std::string OnDevice(const Tensor& tensor) {
    api_.RunAll();
    const std::vector<std::byte> bytes = api_.Peek(tensor.data(), tensor.num_bytes());
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  ThreadPool threads_{1};
  RecordingCudaApi api_;
  std::unique_ptr<CudaDevice> device_;
  const Step step_;
};

TEST_F(CudaRecorderTest, WorkIsDoneByEachLaunchAndMemoryIsThePools) {
  const std::unique_ptr<Recorder> recorder = device_->NewRecorder();
  const Tensor before = Bytes(), fed = Bytes();
  EXPECT_FALSE(device_->is_recording());
  ASSERT_TRUE(recorder->Begin().ok());
  EXPECT_TRUE(device_->is_recording());
  const Tensor inside = Bytes(), other = Bytes();
  Fill(inside, 'i');
  Fill(before, 'b');
  // Other threads do what they do.
  std::thread([&] {
    EXPECT_FALSE(device_->is_recording());
    Fill(other, 'o');
  }).join();
  const auto recording = recorder->End({inside});
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_FALSE(device_->is_recording());
  EXPECT_EQ((*recording)->num_pieces(), 2);
  EXPECT_EQ(OnDevice(other), "oooo");
  EXPECT_EQ(OnDevice(before), std::string(4, static_cast<char>(RecordingCudaApi::kPoison)));
  ASSERT_TRUE((*recording)->Launch(step_).ok());
  EXPECT_EQ(OnDevice(before), "bbbb");
  EXPECT_EQ(OnDevice((*recording)->given()[0]), "iiii");
  Fill(before, 'x');
  ASSERT_TRUE((*recording)->Feed(Tensor::FromSpan<int8_t>({4}, std::vector<int8_t>(4, 'f')), fed).ok());
  ASSERT_TRUE((*recording)->Launch(step_).ok());
  EXPECT_EQ(OnDevice(before), "bbbb");
  EXPECT_EQ(OnDevice(fed), "ffff");
}

// One recording may use the memory of what another has given.
TEST_F(CudaRecorderTest, WhoHoldsWhatWasGivenKeepsAllFromBeingLaunched) {
  const std::unique_ptr<Recorder> recorder = device_->NewRecorder();
  std::vector<std::unique_ptr<Recording>> recordings;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(recorder->Begin().ok());
    const Tensor given = Bytes();
    Fill(given, 'g');
    recordings.push_back(*recorder->End({given}));
  }
  EXPECT_NE(recordings[0]->given()[0].data(), recordings[1]->given()[0].data());
  EXPECT_TRUE(recordings[0]->is_free() && recordings[1]->is_free());
  Tensor held = recordings[0]->given()[0];
  EXPECT_FALSE(recordings[0]->is_free() || recordings[1]->is_free());
  held = Tensor();
  EXPECT_TRUE(recordings[0]->is_free() && recordings[1]->is_free());
}

TEST_F(CudaRecorderTest, WhatIsGivenUpOrFailsLeavesNothing) {
  const std::unique_ptr<Recorder> recorder = device_->NewRecorder();
  const Tensor tensor = Bytes();
  ASSERT_TRUE(recorder->Begin().ok());
  Fill(tensor, 'a');
  recorder->GiveUp();
  EXPECT_FALSE(device_->is_recording());
  ASSERT_TRUE(recorder->Begin().ok());
  Fill(tensor, 'b');
  api_.FailCall("cudaGraphInstantiate", kCudaOutOfMemory);
  EXPECT_EQ(recorder->End({}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(device_->is_recording());
  Fill(tensor, 'c');
  EXPECT_EQ(OnDevice(tensor), "cccc");
}

TEST_F(CudaRecorderTest, ADestroyedRecorderEndsItsRecording) {
  std::unique_ptr<Recorder> recorder = device_->NewRecorder();
  ASSERT_TRUE(recorder->Begin().ok());
  recorder = nullptr;
  EXPECT_FALSE(device_->is_recording());
}

}  // namespace
}  // namespace weir
