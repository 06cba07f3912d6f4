#include "kernels/cuda/recording_cuda_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_error.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two streams, a block of pinned memory and one of the device's, all given back at the end.
class RecordingCudaApiTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 64;

  RecordingCudaApiTest()
      : stream_(*api_.CreateStream(0)),
        other_(*api_.CreateStream(0)),
        host_(static_cast<char*>(*api_.AllocatePinned(kBytes))),
        device_(*api_.Allocate(0, kBytes)) {
    std::memset(host_, 'a', kBytes);
  }
  ~RecordingCudaApiTest() override {
    if (stream_.stream == nullptr) return;
    api_.RunAll();
    EXPECT_TRUE(api_.Free(0, device_).ok());
    EXPECT_TRUE(api_.FreePinned(host_).ok());
    EXPECT_TRUE(api_.DestroyStream(stream_).ok());
    EXPECT_TRUE(api_.DestroyStream(other_).ok());
  }

  std::string OnDevice() {
    const std::vector<std::byte> bytes = api_.Peek(device_, kBytes);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  absl::Status CopyThere() { return api_.Copy(CudaCopy::kToDevice, device_, host_, kBytes, stream_); }

  const std::string all_a_ = std::string(kBytes, 'a');
  const std::string poison_ = std::string(kBytes, static_cast<char>(RecordingCudaApi::kPoison));
  RecordingCudaApi api_;
  CudaStreamHandle stream_, other_;
  char* const host_;
  void* const device_;
};

TEST_F(RecordingCudaApiTest, TheMemoryOfADeviceCannotBeTouched) {
  EXPECT_DEATH(static_cast<volatile char*>(device_)[0] = 1, "");
  EXPECT_EQ(api_.num_bytes(0), kBytes);
}

TEST_F(RecordingCudaApiTest, CopiesHappenLateAndReadTheirSourceThen) {
  ASSERT_TRUE(CopyThere().ok());
  EXPECT_EQ(OnDevice(), poison_);
  EXPECT_EQ(api_.num_pending(), 1);
  std::memset(host_, 'b', kBytes);  // too early: a mistake that a test shall see
  EXPECT_EQ(api_.RunAll(), 1);
  EXPECT_EQ(OnDevice(), std::string(kBytes, 'b'));
}

TEST_F(RecordingCudaApiTest, TheHostSeesPoisonUntilItWaits) {
  ASSERT_TRUE(CopyThere().ok());
  api_.RunAll();
  std::memset(host_, 'x', kBytes);
  ASSERT_TRUE(api_.Copy(CudaCopy::kToHost, host_, device_, kBytes, stream_).ok());
  EXPECT_EQ(std::string(host_, kBytes), poison_);
  ASSERT_TRUE(api_.SynchronizeStream(stream_).ok());
  EXPECT_EQ(std::string(host_, kBytes), all_a_);
}

TEST_F(RecordingCudaApiTest, WhatIsStillToBeReadIsNotPoisoned) {
  ASSERT_TRUE(CopyThere().ok());
  ASSERT_TRUE(api_.Copy(CudaCopy::kToHost, host_, device_, kBytes, stream_).ok());
  api_.RunAll();
  EXPECT_EQ(std::string(host_, kBytes), all_a_);
}

// A tensor that ends in memory that somebody else has already been given.
TEST_F(RecordingCudaApiTest, WhatAKernelMayReadFarFromItsArgumentIsNotPoisoned) {
  char kernel, seen = 0;
  api_.SetKernel(&kernel, [&seen](const RecordingCudaApi::Launched& launched) {
    seen = launched.argument<const char*>(0)[kBytes - 1];
  });
  ASSERT_TRUE(CopyThere().ok());
  api_.RunAll();
  const CudaArgument argument = {&device_, sizeof(device_)};
  ASSERT_TRUE(api_.Launch({"kernel", &kernel}, CudaGrid(), {&argument, 1}, stream_).ok());
  void* const end = static_cast<char*>(device_) + kBytes / 2;
  ASSERT_TRUE(api_.Copy(CudaCopy::kToDevice, end, host_, kBytes / 2, stream_).ok());
  std::memset(host_, 'b', kBytes);
  api_.RunAll();
  EXPECT_EQ(seen, 'a');
}

TEST_F(RecordingCudaApiTest, AStreamWaitsForAnEventOfAnother) {
  const CudaEventHandle event = *api_.CreateEvent(0);
  ASSERT_TRUE(CopyThere().ok());
  ASSERT_TRUE(api_.RecordEvent(event, stream_).ok());
  ASSERT_TRUE(api_.WaitForEvent(other_, event).ok());
  ASSERT_TRUE(api_.Fill(device_, 'c', kBytes, other_).ok());
  EXPECT_FALSE(*api_.IsEventDone(event));
  // Only the first stream can go on, whatever the test chooses.
  EXPECT_TRUE(api_.RunOne(1));
  EXPECT_EQ(OnDevice(), all_a_);
  // Who waits for the second one waits for the first as well.
  ASSERT_TRUE(api_.SynchronizeStream(other_).ok());
  EXPECT_TRUE(*api_.IsEventDone(event));
  EXPECT_EQ(OnDevice(), std::string(kBytes, 'c'));
  EXPECT_TRUE(api_.DestroyEvent(event).ok());
}

TEST_F(RecordingCudaApiTest, WaitingForAnEventRunsNoMoreThanItNeeds) {
  const CudaEventHandle event = *api_.CreateEvent(0);
  ASSERT_TRUE(api_.RecordEvent(event, stream_).ok());
  ASSERT_TRUE(CopyThere().ok());
  ASSERT_TRUE(api_.SynchronizeEvent(event).ok());
  EXPECT_EQ(api_.num_pending(), 1);
  EXPECT_TRUE(api_.DestroyEvent(event).ok());
}

TEST_F(RecordingCudaApiTest, AnEventThatIsRecordedAgainIsNotDone) {
  const CudaEventHandle event = *api_.CreateEvent(0);
  ASSERT_TRUE(api_.RecordEvent(event, stream_).ok());
  api_.RunAll();
  EXPECT_TRUE(*api_.IsEventDone(event));
  ASSERT_TRUE(api_.RecordEvent(event, stream_).ok());
  EXPECT_FALSE(*api_.IsEventDone(event));
  EXPECT_TRUE(api_.DestroyEvent(event).ok());
}

TEST_F(RecordingCudaApiTest, AKernelIsRunOnTheHostWithItsArguments) {
  const CudaFunction function = {"fill", &poison_};
  api_.SetKernel(function.address, [](const RecordingCudaApi::Launched& launched) {
    std::memset(launched.argument<void*>(0), launched.argument<int>(1), kBytes);
  });
  void* const to = device_;
  int value = 'k';
  const CudaArgument arguments[] = {{&to, sizeof(to)}, {&value, sizeof(value)}};
  ASSERT_TRUE(api_.Launch(function, {.blocks = {2, 1, 1}, .threads = {32, 1, 1}}, arguments, stream_).ok());
  value = 'l';  // the argument was copied
  EXPECT_EQ(OnDevice(), poison_);
  api_.RunAll();
  EXPECT_EQ(OnDevice(), std::string(kBytes, 'k'));
  EXPECT_THAT(api_.log(), Contains("cudaLaunchKernel fill 2x1x1 of 32x1x1 on stream 1"));
  EXPECT_EQ(api_.launches().size(), 1u);
}

// What is captured happens as often as it is launched, with the arguments of the capture.
TEST_F(RecordingCudaApiTest, ACaptureIsDoneAgainByEachLaunch) {
  const CudaFunction function = {"add", &poison_};
  api_.SetKernel(function.address, [](const RecordingCudaApi::Launched& launched) {
    launched.argument<char*>(0)[0] += launched.argument<char>(1);
  });
  ASSERT_TRUE(CopyThere().ok());
  api_.RunAll();
  ASSERT_TRUE(api_.BeginCapture(other_).ok());
  char value = 2;
  const CudaArgument arguments[] = {{&device_, sizeof(device_)}, {&value, sizeof(value)}};
  ASSERT_TRUE(api_.Fill(static_cast<char*>(device_) + 1, 'z', 1, other_).ok());
  ASSERT_TRUE(api_.Launch(function, {}, arguments, other_).ok());
  value = 5;
  const absl::StatusOr<CudaGraphHandle> graph = api_.EndCapture(other_);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->num_nodes, 2);
  EXPECT_EQ(api_.RunAll(), 0);
  EXPECT_EQ(OnDevice(), all_a_);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(api_.LaunchGraph(*graph, stream_).ok());
  EXPECT_EQ(OnDevice(), all_a_);
  EXPECT_EQ(api_.num_pending(), 4);
  EXPECT_THAT(api_.log(), Contains("cudaGraphLaunch 2 nodes on stream 1"));
  EXPECT_TRUE(api_.DestroyGraph(*graph).ok());  // what was launched goes on
  api_.RunAll();
  EXPECT_EQ(OnDevice().substr(0, 3), "eza");
  EXPECT_EQ(api_.launches().size(), 1u);
}

TEST_F(RecordingCudaApiTest, WhatACaptureMustNotHaveIsAProblem) {
  const CudaEventHandle event = *api_.CreateEvent(0);
  ASSERT_TRUE(api_.BeginCapture(stream_).ok());
  for (const absl::Status& status :
       {api_.SynchronizeStream(stream_), api_.RecordEvent(event, stream_), CopyThere()}) {
    EXPECT_EQ(CudaErrorNumberOf(status), kCudaStreamCaptureUnsupported) << status;
  }
  EXPECT_THAT(
      api_.TakeProblems(),
      ::testing::IsSupersetOf({"cudaStreamSynchronize on a stream that is captured",
                               "cudaEventRecord on a stream that is captured",
                               "a copy from or to the host was captured: it would find other bytes there "
                               "later"}));
  const CudaGraphHandle graph = *api_.EndCapture(stream_);
  EXPECT_THAT(api_.TakeProblems(), Contains("1 graphs were never destroyed"));
  EXPECT_TRUE(api_.DestroyGraph(graph).ok());
  EXPECT_FALSE(api_.LaunchGraph(graph, stream_).ok());
  EXPECT_THAT(api_.TakeProblems(), Contains("cudaGraphLaunch: no such graph or stream"));
  EXPECT_TRUE(api_.DestroyEvent(event).ok());
}

// A capture that fails has ended.
TEST_F(RecordingCudaApiTest, ACaptureMayFailAtItsEnd) {
  for (const char* const call : {"cudaStreamEndCapture", "cudaGraphInstantiate"}) {
    ASSERT_TRUE(api_.BeginCapture(stream_).ok());
    api_.FailCall(call, kCudaStreamCaptureUnsupported);
    EXPECT_EQ(CudaErrorNumberOf(api_.EndCapture(stream_).status()), kCudaStreamCaptureUnsupported);
    EXPECT_TRUE(api_.SynchronizeStream(stream_).ok());
  }
}

TEST_F(RecordingCudaApiTest, GridsThatNoGpuRunsAreRefused) {
  const CudaFunction function = {"kernel", &poison_};
  EXPECT_FALSE(api_.Launch(function, {.blocks = {0, 1, 1}}, {}, stream_).ok());
  EXPECT_FALSE(api_.Launch(function, {.threads = {2048, 1, 1}}, {}, stream_).ok());
  EXPECT_FALSE(api_.Launch(function, {.blocks = {1, 65536, 1}}, {}, stream_).ok());
  api_.RunAll();
  EXPECT_THAT(api_.TakeProblems(), Contains("no GPU runs the grid of kernel"));
}

TEST_F(RecordingCudaApiTest, MemoryThatIsNotPinnedIsRefused) {
  char plain[8];
  EXPECT_EQ(CudaErrorNumberOf(api_.Copy(CudaCopy::kToDevice, device_, plain, sizeof(plain), stream_)),
            kCudaInvalidValue);
  EXPECT_FALSE(api_.Copy(CudaCopy::kToDevice, device_, host_, kBytes + 1, stream_).ok());
  EXPECT_THAT(api_.TakeProblems(),
              Contains("a copy to_device of 8 bytes is not between pinned memory and the stream's device"));
}

TEST_F(RecordingCudaApiTest, ErrorsComeWhenTheTestWantsThem) {
  api_.FailCall("cudaMalloc", kCudaOutOfMemory, 2);
  void* const first = *api_.Allocate(0, 1);
  EXPECT_EQ(api_.Allocate(0, 1).status().code(), absl::StatusCode::kResourceExhausted);
  void* const third = *api_.Allocate(0, 1);
  EXPECT_TRUE(api_.Free(0, first).ok());
  EXPECT_TRUE(api_.Free(0, third).ok());
}

TEST_F(RecordingCudaApiTest, MemoryRunsOut) {
  const int64_t rest = (int64_t{1} << 30) - kBytes;
  EXPECT_EQ(api_.Memory(0)->free, rest);
  EXPECT_EQ(CudaErrorNumberOf(api_.Allocate(0, rest + 1).status()), kCudaOutOfMemory);
  void* const all = *api_.Allocate(0, rest);
  EXPECT_TRUE(api_.Free(0, all).ok());
}

TEST_F(RecordingCudaApiTest, ALostDeviceAnswersNothingElse) {
  ASSERT_TRUE(CopyThere().ok());
  api_.LoseDevice(0, kCudaIllegalAddress);
  for (const absl::Status& status :
       {api_.SynchronizeStream(stream_), CopyThere(), api_.Allocate(0, 1).status(), api_.LastError(0)}) {
    EXPECT_TRUE(SaysDeviceLost(status)) << status;
  }
  EXPECT_EQ(api_.num_pending(), 0);
  api_.Free(0, device_).IgnoreError();
  EXPECT_TRUE(api_.FreePinned(host_).ok());
  api_.DestroyStream(stream_).IgnoreError();
  api_.DestroyStream(other_).IgnoreError();
  stream_.stream = nullptr;
}

TEST(RecordingCudaApiProblemsTest, SaysWhatWasNotGivenBack) {
  RecordingCudaApi api({.num_devices = 2});
  void* const memory = *api.Allocate(1, 100);
  void* const pinned = *api.AllocatePinned(10);
  const CudaStreamHandle stream = *api.CreateStream(1);
  const CudaEventHandle event = *api.CreateEvent(1);
  ASSERT_TRUE(api.WaitForEvent(stream, event).ok());
  EXPECT_THAT(api.TakeProblems(),
              ::testing::UnorderedElementsAre(
                  "stream 1 waits for an event that was never recorded",
                  "100 bytes of device 1 were never freed", "10 bytes of pinned memory were never freed",
                  "stream 1 was never destroyed", "1 events were never destroyed"));
  EXPECT_TRUE(api.Free(1, memory).ok());
  EXPECT_TRUE(api.FreePinned(pinned).ok());
  EXPECT_TRUE(api.DestroyStream(stream).ok());
  EXPECT_TRUE(api.DestroyEvent(event).ok());
  EXPECT_THAT(api.TakeProblems(), IsEmpty());
}

TEST(RecordingCudaApiProblemsTest, TheDestructorAbortsOnALeak) {
  EXPECT_DEATH(
      {
        RecordingCudaApi api;
        api.AllocatePinned(10).IgnoreError();
      },
      "10 bytes of pinned memory were never freed");
}

TEST(RecordingCudaApiProblemsTest, NoDevicesIsTheErrorThatCudaGives) {
  RecordingCudaApi api({.num_devices = 0});
  EXPECT_EQ(api.NumDevices().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace weir
