#include "kernels/cuda/cuda_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "graph/types/allocator.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

class CudaStreamTest : public ::testing::Test {
 protected:
  CudaStreamTest() : stream_(*CudaStream::Create(api_, 0)), other_(*CudaStream::Create(api_, 0)) {}

  RecordingCudaApi api_;
  std::unique_ptr<CudaStream> stream_, other_;
};

TEST_F(CudaStreamTest, AnEventIsDoneWithWhatCameBeforeIt) {
  void* const memory = *api_.Allocate(0, 64);
  ASSERT_TRUE(stream_->Fill(memory, 1, 64).ok());
  const RefPtr<CudaEvent> event = *stream_->Record();
  ASSERT_TRUE(stream_->Fill(memory, 2, 64).ok());
  EXPECT_FALSE(*event->IsDone());
  ASSERT_TRUE(event->Wait().ok());
  EXPECT_TRUE(*event->IsDone());
  EXPECT_EQ(api_.num_pending(), 1);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(api_.num_pending(), 0);
  EXPECT_TRUE(api_.Free(0, memory).ok());
}

TEST_F(CudaStreamTest, OneStreamWaitsForAnotherWithoutTheCaller) {
  const RefPtr<CudaEvent> event = *stream_->Record();
  ASSERT_TRUE(other_->WaitFor(*event).ok());
  const RefPtr<CudaEvent> last = *other_->Record();
  EXPECT_EQ(api_.num_pending(), 3);
  ASSERT_TRUE(last->Wait().ok());
  EXPECT_TRUE(*event->IsDone());
}

TEST_F(CudaStreamTest, EventsAreUsedAgain) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE((*stream_->Record())->Wait().ok());
  EXPECT_EQ(api_.num_calls("cudaEventCreateWithFlags"), 1);
}

TEST_F(CudaStreamTest, AnEventMayOutliveItsStream) {
  const RefPtr<CudaEvent> event = *stream_->Record();
  stream_.reset();
  EXPECT_TRUE(*event->IsDone());
}

TEST_F(CudaStreamTest, KeepsABufferUntilItsWorkIsOver) {
  RefPtr<Buffer> buffer = HostAllocator().Allocate(64);
  stream_->Keep(buffer);
  EXPECT_FALSE(buffer->has_one_owner());
  const RefPtr<CudaEvent> event = *stream_->Record();
  stream_->LetGo();
  EXPECT_EQ(stream_->num_kept(), 1);
  api_.RunAll();
  stream_->LetGo();
  EXPECT_TRUE(buffer->has_one_owner());
}

TEST_F(CudaStreamTest, KeepsABufferThatNobodyMarkedUntilTheStreamIsDone) {
  RefPtr<Buffer> buffer = HostAllocator().Allocate(64);
  stream_->Keep(buffer);
  api_.RunAll();
  stream_->LetGo();
  EXPECT_FALSE(buffer->has_one_owner());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(buffer->has_one_owner());
}

TEST_F(CudaStreamTest, WaitsForItsWorkBeforeItGoes) {
  void* const memory = *api_.Allocate(0, 64);
  ASSERT_TRUE(stream_->Fill(memory, 1, 64).ok());
  stream_.reset();
  EXPECT_EQ(api_.num_pending(), 0);
  EXPECT_TRUE(api_.Free(0, memory).ok());
}

TEST_F(CudaStreamTest, ErrorsAreThoseOfCuda) {
  api_.FailCall("cudaEventRecord", kCudaLaunchFailure);
  EXPECT_TRUE(SaysDeviceLost(stream_->Record().status()));
  RefPtr<Buffer> buffer = HostAllocator().Allocate(64);
  stream_->Keep(buffer);
  api_.LoseDevice(0, kCudaIllegalAddress);
  EXPECT_TRUE(SaysDeviceLost(stream_->Synchronize()));
  EXPECT_TRUE(buffer->has_one_owner());
  EXPECT_TRUE(SaysDeviceLost(CudaStream::Create(api_, 0).status()));
}

}  // namespace
}  // namespace weir
