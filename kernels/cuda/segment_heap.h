// Blocks of memory cut out of large segments: how CachingAllocator finds and gives back a piece in tens of
// nanoseconds.
//
// It does sums with addresses and never touches the memory. A free block is found in a list of its size (16
// lists for each power of two, after TLSF: M. Masmano et al., "TLSF: a new dynamic memory allocator for
// real-time systems", ECRTS 2004), of which the first few are compared: the best fit, or one in the same
// sixteenth of a power of two. Blocks that are freed merge with free neighbours. Not thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace weir {

class SegmentHeap {
 public:
  // Addresses and sizes are multiples of this: what cudaMalloc aligns to, and no two blocks in one line of a
  // cache.
  static constexpr size_t kUnit = 512;
  // No segment is larger.
  static constexpr size_t kMostBytes = size_t{1} << 46;

  struct Block {
    uintptr_t address = 0;
    size_t num_bytes = 0;
    bool is_free = false;
    uintptr_t segment = 0;
    Block* before = nullptr;  // its neighbours in the segment
    Block* after = nullptr;
    Block* next_free = nullptr;  // in its list
    Block* previous_free = nullptr;
  };

  SegmentHeap() = default;
  SegmentHeap(const SegmentHeap&) = delete;
  SegmentHeap& operator=(const SegmentHeap&) = delete;

  // The smallest size of a block for that many bytes; kMostBytes + kUnit for more than any segment has.
  static size_t RoundUp(size_t num_bytes);

  // A block of RoundUp(num_bytes), which is the caller's until Free; null when no free one is large enough.
  Block* Allocate(size_t num_bytes);
  void Free(Block* block);

  // Memory to cut blocks from; a multiple of kUnit.
  void AddSegment(uintptr_t address, size_t num_bytes);
  // Forgets the segments in which nothing is allocated, and gives their addresses and sizes.
  std::vector<std::pair<uintptr_t, size_t>> TakeEmptySegments();
  // Of all segments, for the end.
  std::vector<uintptr_t> Segments() const;

  size_t num_segment_bytes() const { return num_segment_bytes_; }
  size_t num_bytes_in_use() const { return num_bytes_in_use_; }
  size_t LargestFree() const;
  // The sizes of blocks that are in use, largest first, equal ones counted: at most `count` sizes.
  std::vector<std::pair<size_t, int64_t>> LargestInUse(size_t count) const;

 private:
  static constexpr int kListsLog2 = 4;  // per power of two
  static constexpr int kLists = 1 << kListsLog2;
  static constexpr int kPowers = 40;
  static constexpr int kNumLists = kPowers * kLists;
  static constexpr int kLooks = 8;

  static int ListOf(size_t num_bytes);
  Block* FindFree(size_t num_bytes);
  Block* LookThrough(int list, size_t num_bytes, int looks) const;
  int NextList(int list) const;
  void Push(Block* block);
  void Remove(Block* block);
  Block* NewBlock();
  void Recycle(Block* block);
  // Joins `block` with the one after it.
  void Absorb(Block* block);

  std::array<Block*, kNumLists> free_ = {};
  std::array<uint64_t, kNumLists / 64> has_free_ = {};  // one bit per list
  std::map<uintptr_t, Block*> segments_;                // by address: the first block
  std::deque<Block> storage_;
  std::vector<Block*> recycled_;
  size_t num_segment_bytes_ = 0;
  size_t num_bytes_in_use_ = 0;
};

}  // namespace weir
