#include "kernels/cuda/segment_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
constexpr size_t kUnit = SegmentHeap::kUnit;

TEST(SegmentHeapTest, RoundsUpWithoutOverflow) {
  EXPECT_EQ(SegmentHeap::RoundUp(1), kUnit);
  EXPECT_EQ(SegmentHeap::RoundUp(kUnit), kUnit);
  EXPECT_EQ(SegmentHeap::RoundUp(kUnit + 1), 2 * kUnit);
  EXPECT_GT(SegmentHeap::RoundUp(~size_t{0}), SegmentHeap::kMostBytes);
}

TEST(SegmentHeapTest, SplitsAndMerges) {
  SegmentHeap heap;
  EXPECT_EQ(heap.Allocate(1), nullptr);
  heap.AddSegment(0x10000, 8 * kUnit);
  SegmentHeap::Block* const a = heap.Allocate(2 * kUnit);
  SegmentHeap::Block* const b = heap.Allocate(3 * kUnit);
  SegmentHeap::Block* const c = heap.Allocate(3 * kUnit);
  EXPECT_EQ(heap.Allocate(1), nullptr);
  EXPECT_EQ(heap.num_bytes_in_use(), 8 * kUnit);
  EXPECT_THAT(heap.LargestInUse(5), ElementsAre(Pair(3 * kUnit, 2), Pair(2 * kUnit, 1)));
  heap.Free(a);
  heap.Free(c);
  EXPECT_EQ(heap.LargestFree(), 3 * kUnit);
  EXPECT_EQ(heap.Allocate(4 * kUnit), nullptr);
  heap.Free(b);
  EXPECT_EQ(heap.LargestFree(), 8 * kUnit);
  EXPECT_THAT(heap.TakeEmptySegments(), ElementsAre(Pair(0x10000, 8 * kUnit)));
  EXPECT_EQ(heap.num_segment_bytes(), 0u);
}

TEST(SegmentHeapTest, SegmentsThatTouchDoNotMerge) {
  SegmentHeap heap;
  heap.AddSegment(0x10000, 2 * kUnit);
  heap.AddSegment(0x10000 + 2 * kUnit, 2 * kUnit);
  EXPECT_EQ(heap.Allocate(3 * kUnit), nullptr);
  EXPECT_EQ(heap.TakeEmptySegments().size(), 2u);
}

TEST(SegmentHeapTest, TakesTheBestFit) {
  SegmentHeap heap;
  for (const size_t units : {64, 100, 20, 21, 40}) heap.AddSegment(units << 20, units * kUnit);
  EXPECT_EQ(heap.Allocate(20 * kUnit)->address, size_t{20} << 20);
  EXPECT_EQ(heap.Allocate(20 * kUnit)->address, size_t{21} << 20);
  EXPECT_EQ(heap.Allocate(60 * kUnit)->address, size_t{64} << 20);
}

// A block may be in the same list as the size that is asked for, behind many that are too small.
TEST(SegmentHeapTest, FindsTheOneBlockThatIsLargeEnoughInALongList) {
  SegmentHeap heap;
  heap.AddSegment(uintptr_t{1} << 40, 1055 * kUnit);
  for (uintptr_t i = 1; i <= 100; ++i) heap.AddSegment(i << 30, 1030 * kUnit);
  SegmentHeap::Block* const block = heap.Allocate(1050 * kUnit);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->address, uintptr_t{1} << 40);
}

// Against a model that keeps what is allocated as plain ranges.
TEST(SegmentHeapTest, RandomSequencesNeverOverlapAndMergeBack) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    SegmentHeap heap;
    std::map<uintptr_t, size_t> segments, used;
    std::vector<SegmentHeap::Block*> blocks;
    for (uintptr_t i = 1; i <= 4; ++i) {
      segments[i << 32] = (random() % 4096 + 1) * kUnit;
      heap.AddSegment(i << 32, segments[i << 32]);
    }
    for (int step = 0; step < 5000; ++step) {
      if (random() % 2 == 0 && !blocks.empty()) {
        const size_t index = random() % blocks.size();
        used.erase(blocks[index]->address);
        heap.Free(blocks[index]);
        blocks[index] = blocks.back();
        blocks.pop_back();
        continue;
      }
      const size_t bytes = random() % (kUnit << (random() % 12)) + 1;
      SegmentHeap::Block* const block = heap.Allocate(bytes);
      if (block == nullptr) {
        ASSERT_LT(heap.LargestFree(), SegmentHeap::RoundUp(bytes)) << "seed " << seed << " step " << step;
        continue;
      }
      ASSERT_EQ(block->num_bytes, SegmentHeap::RoundUp(bytes));
      const auto segment = std::prev(segments.upper_bound(block->address));
      ASSERT_LE(block->address + block->num_bytes, segment->first + segment->second);
      const auto next = used.lower_bound(block->address);
      ASSERT_TRUE(next == used.end() || block->address + block->num_bytes <= next->first);
      if (next != used.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, block->address);
      }
      used[block->address] = block->num_bytes;
      blocks.push_back(block);
    }
    size_t in_use = 0;
    for (const auto& [address, size] : used) in_use += size;
    ASSERT_EQ(heap.num_bytes_in_use(), in_use);
    for (SegmentHeap::Block* block : blocks) heap.Free(block);
    ASSERT_EQ(heap.TakeEmptySegments().size(), segments.size()) << "seed " << seed;
    EXPECT_THAT(heap.Segments(), IsEmpty());
  }
}

}  // namespace
}  // namespace weir
