#include "kernels/cuda/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
constexpr int64_t kMiB = int64_t{1} << 20;

TEST(CachingAllocatorTest, AsksCudaOnceForManyBuffers) {
  RecordingCudaApi api;
  CachingAllocator allocator(api, 0);
  for (int i = 0; i < 100; ++i) ASSERT_NE(allocator.Allocate(1000), nullptr);
  std::vector<RefPtr<Buffer>> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back(allocator.Allocate(1000));
  EXPECT_EQ(api.num_calls("cudaMalloc"), 1);
  EXPECT_EQ(allocator.num_bytes_in_use(), 100 * 1024);
  EXPECT_EQ(allocator.peak_bytes_in_use(), 100 * 1024);
  buffers.clear();
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
  EXPECT_EQ(allocator.num_bytes_reserved(), 2 * kMiB);
}

TEST(CachingAllocatorTest, AnEmptyBufferNeedsNoMemory) {
  RecordingCudaApi api;
  CachingAllocator allocator(api, 0, 512);
  const RefPtr<Buffer> all = allocator.Allocate(512);
  const RefPtr<Buffer> empty = allocator.Allocate(0);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(empty->num_bytes(), 0u);
}

TEST(CachingAllocatorTest, TheLimitIsExact) {
  RecordingCudaApi api;
  const int64_t limit = 5 * kMiB + 1024;
  CachingAllocator allocator(api, 0, limit);
  EXPECT_EQ(allocator.Allocate(limit + 1), nullptr);
  EXPECT_NE(allocator.Allocate(limit), nullptr);
  // The memory of that one must be given back for these.
  std::vector<RefPtr<Buffer>> buffers;
  for (int64_t left = limit; left > 0; left -= 512) {
    buffers.push_back(allocator.Allocate(512));
    ASSERT_NE(buffers.back(), nullptr) << left;
  }
  EXPECT_EQ(allocator.Allocate(1), nullptr);
  EXPECT_EQ(api.num_bytes(0), limit);
  buffers.pop_back();
  EXPECT_NE(allocator.Allocate(512), nullptr);
}

TEST(CachingAllocatorTest, ASmallBufferMayComeFromALargeSegmentRatherThanFail) {
  RecordingCudaApi api;
  CachingAllocator allocator(api, 0, 20 * kMiB);
  const RefPtr<Buffer> middle = allocator.Allocate(5 * kMiB);
  EXPECT_EQ(allocator.num_bytes_reserved(), 20 * kMiB);
  EXPECT_NE(allocator.Allocate(100), nullptr);
}

TEST(CachingAllocatorTest, SaysWhoHasTheMemory) {
  RecordingCudaApi api;
  CachingAllocator allocator(api, 0, 20 * kMiB);
  const RefPtr<Buffer> buffers[] = {allocator.Allocate(6 * kMiB), allocator.Allocate(6 * kMiB),
                                    allocator.Allocate(4 * kMiB), allocator.Allocate(100)};
  const absl::Status status = allocator.Get(8 * kMiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "out of memory on GPU 0: 8.4 MB asked for, 16.8 MB in use of at most 21.0 MB, the largest free piece "
      "has 4.2 MB; the biggest buffers: 2 of 6.3 MB, 1 of 4.2 MB, 1 of 512 B");
}

TEST(CachingAllocatorTest, TakesLessWhereTheDeviceHasNoWholeSegment) {
  RecordingCudaApi api({.memory = 3 * kMiB});
  CachingAllocator allocator(api, 0);
  EXPECT_NE(allocator.Allocate(2 * kMiB + 1), nullptr);
  EXPECT_THAT(std::string(allocator.Get(4 * kMiB).status().message()),
              HasSubstr("cudaErrorMemoryAllocation"));
  EXPECT_THAT(std::string(allocator.Get(~size_t{0}).status().message()), HasSubstr("out of memory on GPU 0"));
}

TEST(CachingAllocatorTest, ALostDeviceIsNoLackOfMemory) {
  RecordingCudaApi api;
  CachingAllocator allocator(api, 0);
  RefPtr<Buffer> buffer = allocator.Allocate(100);
  api.LoseDevice(0, kCudaIllegalAddress);
  EXPECT_TRUE(SaysDeviceLost(allocator.Get(10 * kMiB).status()));
  buffer = nullptr;
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
}

TEST(CachingAllocatorTest, BuffersMayOutliveIt) {
  RecordingCudaApi api;
  RefPtr<Buffer> buffer = CachingAllocator(api, 0).Allocate(100);
  EXPECT_GT(api.num_bytes(0), 0);
  buffer = nullptr;
  EXPECT_EQ(api.num_bytes(0), 0);
}

// What an allocation of `wanted` bytes could be given at best: a gap in a segment that is in use, or what is
// left of the limit without the others.
int64_t MostThatFits(const std::map<uintptr_t, int64_t>& segments, const std::map<uintptr_t, int64_t>& used,
                     int64_t limit) {
  int64_t most = 0, kept = 0;
  for (const auto& [segment, size] : segments) {
    uintptr_t end = segment;
    bool is_used = false;
    int64_t gap = 0;
    for (auto block = used.lower_bound(segment); block != used.end() && block->first < segment + size;
         ++block) {
      gap = std::max(gap, static_cast<int64_t>(block->first - end));
      end = block->first + block->second;
      is_used = true;
    }
    if (!is_used) continue;
    kept += size;
    most = std::max(most, std::max(gap, static_cast<int64_t>(segment + size - end)));
  }
  return std::max(most, (limit - kept) / 512 * 512);
}

class Property : public ::testing::TestWithParam<uint32_t> {};

TEST_P(Property, NothingOverlapsAndNothingIsRefusedThatFits) {
  std::mt19937 random(GetParam());
  RecordingCudaApi api;
  const int64_t limit = static_cast<int64_t>(random() % (64 * kMiB) + kMiB);
  CachingAllocator allocator(api, 0, limit);
  std::map<uintptr_t, int64_t> used;
  std::vector<RefPtr<Buffer>> buffers;
  for (int step = 0; step < 1500; ++step) {
    if (random() % 5 < 2 && !buffers.empty()) {
      std::swap(buffers[random() % buffers.size()], buffers.back());
      used.erase(reinterpret_cast<uintptr_t>(buffers.back()->data()));
      buffers.pop_back();
      continue;
    }
    const auto bytes = static_cast<int64_t>(random() % (size_t{256} << (random() % 17)) + 1);
    const int64_t size = (bytes + 511) / 512 * 512;
    RefPtr<Buffer> buffer = allocator.Allocate(bytes);
    ASSERT_LE(api.num_bytes(0), limit);
    if (!buffer) {
      ASSERT_LT(MostThatFits(api.segments(0), used, limit), size) << "step " << step;
      continue;
    }
    const auto address = reinterpret_cast<uintptr_t>(buffer->data());
    ASSERT_EQ(address % 512, 0u);
    const auto next = used.lower_bound(address);
    ASSERT_TRUE(next == used.end() || address + size <= next->first) << "step " << step;
    if (next != used.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, address) << "step " << step;
    }
    used[address] = size;
    buffers.push_back(std::move(buffer));
  }
  int64_t in_use = 0;
  for (const auto& [address, size] : used) in_use += size;
  EXPECT_EQ(allocator.num_bytes_in_use(), in_use);
  buffers.clear();
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
  ASSERT_TRUE(allocator.Trim().ok());
  EXPECT_EQ(api.num_bytes(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Property, ::testing::Range(0u, 20u));

TEST(CachingAllocatorTest, ServesThreadsAtOnce) {
  RecordingCudaApi api;
  CachingAllocator allocator(api, 0);
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<RefPtr<Buffer>> buffers(16);
      for (int i = 0; i < 20000; ++i) buffers[random() % 16] = allocator.Allocate(random() % 100000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
}

// What a pool has got stays its own until it is gone, whatever is free in it.
TEST(CachingAllocatorTest, APoolKeepsItsAddressesAndCountsInItsParent) {
  RecordingCudaApi api;
  const int64_t limit = 8 * kMiB;
  CachingAllocator allocator(api, 0, limit);
  std::unique_ptr<CachingAllocator> pool = allocator.MakePool();
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
  const void* const address = pool->Allocate(1000)->data();
  EXPECT_EQ(pool->num_bytes_in_use(), 0);
  EXPECT_EQ(allocator.num_bytes_in_use(), 2 * kMiB);
  EXPECT_EQ(pool->num_bytes_reserved(), 2 * kMiB);
  // No room is made of it for others, nor for the pool itself.
  EXPECT_TRUE(pool->Trim().ok());
  EXPECT_EQ(allocator.Allocate(7 * kMiB), nullptr);
  EXPECT_EQ(pool->Allocate(7 * kMiB), nullptr);
  EXPECT_NE(allocator.Allocate(6 * kMiB), nullptr);
  RefPtr<Buffer> buffer = pool->Allocate(1000);
  EXPECT_EQ(buffer->data(), address);
  pool = nullptr;
  EXPECT_EQ(allocator.num_bytes_in_use(), 2 * kMiB);
  buffer = nullptr;
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
  EXPECT_NE(allocator.Allocate(limit), nullptr);
}

}  // namespace
}  // namespace weir
