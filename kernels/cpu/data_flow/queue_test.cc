// What session/queues_test.cc cannot say without threads: what a batch is made of that waits while its
// elements come.
#include "kernels/cpu/data_flow/queue.h"

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"

namespace weir {
namespace {

using testing::ElementsAre;

class QueueTest : public testing::Test {
 protected:
  static RefPtr<Queue> ByPriority(int64_t capacity) {
    return *Queue::Create({.kind = "PriorityQueue",
                           .name = "q",
                           .types = {DType::kInt64},
                           .shapes = {PartialShape(Shape())},
                           .capacity = capacity});
  }
  void Put(Queue& queue, int64_t priority) {
    queue.Enqueue(caller_, {Tensor::Scalar(priority)}, [](const absl::StatusOr<std::vector<Tensor>>&) {});
  }
  // Asks for a batch; what it gives comes into the vector.
  std::shared_ptr<std::vector<int64_t>> Take(Queue& queue, int64_t count) {
    auto taken = std::make_shared<std::vector<int64_t>>();
    queue.DequeueMany(caller_, count, false, [taken](const absl::StatusOr<std::vector<Tensor>>& batch) {
      ASSERT_TRUE(batch.ok()) << batch.status();
      taken->assign((*batch)[0].flat<int64_t>().begin(), (*batch)[0].flat<int64_t>().end());
    });
    return taken;
  }

  Cancellation cancellation_;
  ThreadPool pool_{1};
  Queue::Caller caller_{cancellation_, HostAllocator(), pool_};
};

TEST_F(QueueTest, ABatchByPriorityIsInOrderWhenItsElementsComeWhileItWaits) {
  const RefPtr<Queue> queue = ByPriority(9);
  Put(*queue, 3);
  const auto batch = Take(*queue, 3);
  for (const int64_t priority : {5, 1, 2}) Put(*queue, priority);
  EXPECT_THAT(*batch, ElementsAre(1, 3, 5));
  EXPECT_EQ(queue->size(), 1);
}

TEST_F(QueueTest, ABatchByPriorityThatIsLargerThanTheCapacityTakesWhatIsThereWhenTheQueueIsFull) {
  const RefPtr<Queue> queue = ByPriority(2);
  const auto batch = Take(*queue, 3);
  for (const int64_t priority : {5, 4, 1}) Put(*queue, priority);
  EXPECT_THAT(*batch, ElementsAre(4, 5, 1));
}

// It held the lock of the queue until all were in.
TEST_F(QueueTest, AnEnqueueOfVeryManyElementsIsCancelledBetweenThem) {
  const std::unique_ptr<Device> device =
      MakeCpuDevice("localhost", 0, 0, pool_, /*memory_limit=*/1'000'000'000'000);
  const RefPtr<Queue> queue =
      *Queue::Create({.kind = "FIFOQueue", .name = "q", .types = {DType::kInt32}, .shapes = {}});
  const Queue::Caller caller{cancellation_, device->host_allocator(), pool_};
  std::atomic<bool> looks{false};
  // The queue is locked: that elements are in it is seen from the room that they take.
  std::thread cancelling([&] {
    looks = true;
    while (device->host_allocator().num_bytes_in_use() == 0) std::this_thread::yield();
    cancellation_.Cancel(absl::CancelledError("enough"));
  });
  while (!looks) std::this_thread::yield();
  absl::Status status;
  queue->EnqueueMany(caller, {Tensor(DType::kInt32, Shape({5'000'000, 0}))},
                     [&](const absl::StatusOr<std::vector<Tensor>>& result) { status = result.status(); });
  cancelling.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_LT(queue->size(), 5'000'000);
}

// Elements without values took no memory that anybody counted.
TEST(QueueBoundsTest, ElementsCountOnTheDevice) {
  ThreadPool pool(1);
  const std::unique_ptr<Device> device = MakeCpuDevice("localhost", 0, 0, pool, /*memory_limit=*/1'000'000);
  Cancellation cancellation;
  const Queue::Caller caller = {cancellation, device->host_allocator(), pool};
  for (const int round : {0, 1}) {
    const RefPtr<Queue> queue = *Queue::Create(
        {.kind = "FIFOQueue", .name = "q", .types = {DType::kInt32}, .shapes = {PartialShape({0})}});
    absl::Status status;
    const auto done = [&](const absl::StatusOr<std::vector<Tensor>>& result) { status = result.status(); };
    queue->EnqueueMany(caller, {Tensor(DType::kInt32, Shape({100'000, 0}))}, done);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status << " in round " << round;
    const int64_t size = queue->size();
    EXPECT_GT(size, 1000);
    EXPECT_LT(size, 100'000);
    queue->DequeueMany(caller, size, false, done);
    EXPECT_EQ(status, absl::OkStatus());
    queue->EnqueueMany(caller, {Tensor(DType::kInt32, Shape({1000, 0}))}, done);
    EXPECT_EQ(status, absl::OkStatus());
  }
  EXPECT_EQ(device->host_allocator().num_bytes_in_use(), 0);
}

TEST(QueueBoundsTest, ElementsOfADequeueThatWaitsForMoreCountOnTheDevice) {
  ThreadPool pool(1);
  const std::unique_ptr<Device> device = MakeCpuDevice("localhost", 0, 0, pool, /*memory_limit=*/1'000'000);
  Cancellation cancellation, of_dequeue;
  const Queue::Caller caller = {cancellation, device->host_allocator(), pool};
  const Queue::Caller waiting = {of_dequeue, device->host_allocator(), pool};
  const RefPtr<Queue> queue = *Queue::Create(
      {.kind = "FIFOQueue", .name = "q", .types = {DType::kInt32}, .shapes = {PartialShape({0})}});
  absl::Status status, dequeued;
  queue->DequeueMany(waiting, 1'000'000, false,
                     [&](const absl::StatusOr<std::vector<Tensor>>& result) { dequeued = result.status(); });
  int num_batches = 0;
  const auto done = [&](const absl::StatusOr<std::vector<Tensor>>& result) { status = result.status(); };
  while (status.ok() && num_batches < 100) {
    queue->EnqueueMany(caller, {Tensor(DType::kInt32, Shape({1000, 0}))}, done);
    ++num_batches;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_GT(num_batches, 1);
  EXPECT_EQ(queue->size(), 0);
  of_dequeue.Cancel(absl::CancelledError("the test"));
  EXPECT_EQ(dequeued.code(), absl::StatusCode::kCancelled);
  const int64_t size = queue->size();
  EXPECT_GT(size, 1000);
  queue->DequeueMany(caller, size, false, done);
  EXPECT_EQ(status, absl::OkStatus());
  queue->EnqueueMany(caller, {Tensor(DType::kInt32, Shape({1000, 0}))}, done);
  EXPECT_EQ(status, absl::OkStatus());
}

}  // namespace
}  // namespace weir
