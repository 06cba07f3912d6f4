#include "kernels/thread_pool.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

constexpr double kWorthSplitting = 1e6;  // nanoseconds an item: any two items are worth a thread

TEST(ThreadPoolTest, ParallelForCoversEveryItemOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t count : {1, 2, 7, 16, 1000}) {
      std::vector<std::atomic<int>> visits(count);
      pool.ParallelFor(count, kWorthSplitting, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[i];
      });
      for (int64_t i = 0; i < count; ++i) EXPECT_EQ(visits[i], 1) << i << " of " << count << ", " << threads;
    }
    pool.ParallelFor(0, kWorthSplitting, [](int64_t, int64_t) { ADD_FAILURE(); });
  }
}

TEST(ThreadPoolTest, PiecesDependOnTheSizeOnly) {
  ThreadPool pool(2);
  const auto begins = [&](double cost) {
    std::atomic<uint64_t> bits{0};
    pool.ParallelFor(64, cost, [&](int64_t begin, int64_t) { bits |= uint64_t{1} << begin; });
    return bits.load();
  };
  const uint64_t first = begins(kWorthSplitting);
  EXPECT_NE(first, 1u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(begins(kWorthSplitting), first);
  EXPECT_EQ(begins(1.0), 1u);  // not worth it: one piece, here
}

TEST(ThreadPoolTest, SmallWorkStaysOnTheCallingThread) {
  ThreadPool pool(4);
  const std::thread::id caller = std::this_thread::get_id();
  pool.ParallelFor(1000, 1.0, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 1000);
  });
}

// Many short jobs after one another, some after the helpers fell asleep.
TEST(ThreadPoolTest, JobAfterJob) {
  ThreadPool pool(3);
  for (int job = 0; job < 3000; ++job) {
    std::atomic<int64_t> sum{0};
    pool.ParallelFor(9, kWorthSplitting, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    ASSERT_EQ(sum, 36) << job;
    if (job % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ThreadPoolTest, InsideAndBesideAnotherParallelFor) {
  ThreadPool pool(2);
  std::atomic<int> items{0};
  const auto nested = [&] {
    pool.ParallelFor(4, kWorthSplitting, [&](int64_t begin, int64_t end) {
      pool.ParallelFor(end - begin, kWorthSplitting,
                       [&](int64_t b, int64_t e) { items += static_cast<int>(e - b); });
    });
  };
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) nested();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(items, 4 * 200 * 4);
}

TEST(ThreadPoolTest, ScheduledTasksRunAndMaySplitTheirWork) {
  std::atomic<int> items{0};
  {
    ThreadPool pool(2);
    absl::BlockingCounter left(50);
    for (int i = 0; i < 50; ++i) {
      pool.Schedule([&] {
        pool.ParallelFor(8, kWorthSplitting,
                         [&](int64_t begin, int64_t end) { items += static_cast<int>(end - begin); });
        left.DecrementCount();
      });
    }
    left.Wait();
    for (int i = 0; i < 50; ++i) pool.Schedule([&] { ++items; });
  }  // the pool's end waits for what is scheduled
  EXPECT_EQ(items, 50 * 8 + 50);
}

}  // namespace
}  // namespace weir
