#include "kernels/thread_pool.h"

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "gtest/gtest.h"
#include "kernels/no_more_threads.h"

namespace weir {
namespace {

constexpr double kCostly = 1e6;  // nanoseconds: always worth splitting

// How often each item of [0, count) was visited.
std::vector<int> Visits(ThreadPool& pool, int64_t count, double cost) {
  std::vector<std::atomic<int>> visits(count);
  pool.ParallelFor(count, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[i];
  });
  return {visits.begin(), visits.end()};
}

TEST(ThreadPoolTest, EveryItemIsVisitedOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      for (double cost : {0.0, 100.0, kCostly}) {
        EXPECT_EQ(Visits(pool, count, cost), std::vector<int>(count, 1))
            << threads << " threads, " << count << " items";
      }
    }
  }
}

TEST(ThreadPoolTest, ManyLoopsInARow) {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int i = 0; i < 20000; ++i) {
    std::atomic<int64_t> sum{0};
    pool.ParallelFor(50, 1000, [&](int64_t begin, int64_t end) { sum += end - begin; });
    total += sum;
  }
  EXPECT_EQ(total, 20000 * 50);
}

TEST(ThreadPoolTest, CheapLoopsStayOnTheirThread) {
  ThreadPool pool(4);
  const std::thread::id self = std::this_thread::get_id();
  int calls = 0;
  pool.ParallelFor(1000, 1, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(end - begin, 1000);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPoolTest, LoopsWithinLoopsAndFromManyThreads) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        pool.ParallelFor(8, kCostly, [&](int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j) {
            pool.ParallelFor(8, kCostly, [&](int64_t b, int64_t e) { sum += e - b; });
          }
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 8 * 8);
}

TEST(ThreadPoolTest, WhereTheSystemGivesNoThreadsTheCallersDoesAll) {
  ThreadPool pool(4);
  const NoMoreThreads no_more;
  std::vector<std::atomic<int>> visits(1000);
  pool.ParallelFor(1000, 1e6, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[i];
  });
  for (const auto& visit : visits) EXPECT_EQ(visit, 1);
}

TEST(ThreadPoolTest, TheEnvironmentSaysHowManyThreads) {
  setenv("WEIR_NUM_THREADS", "3", 1);
  EXPECT_EQ(ThreadPool().num_threads(), 3);
  for (const char* bad : {"", "many", "-1", "0"}) {
    setenv("WEIR_NUM_THREADS", bad, 1);
    EXPECT_GE(ThreadPool().num_threads(), 1);
  }
  unsetenv("WEIR_NUM_THREADS");
}

}  // namespace
}  // namespace weir
