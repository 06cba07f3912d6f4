#include "kernels/cuda/segment_heap.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>

namespace weir {

size_t SegmentHeap::RoundUp(size_t num_bytes) {
  if (num_bytes > kMostBytes) return kMostBytes + kUnit;
  return std::max(kUnit, (num_bytes + kUnit - 1) / kUnit * kUnit);
}

// The lists in the order of their sizes: those of fewer units than kLists have one size each.
int SegmentHeap::ListOf(size_t num_bytes) {
  const uint64_t units = num_bytes / kUnit;
  if (units < kLists) return static_cast<int>(units);
  const int power = std::bit_width(units) - 1;
  const auto part = static_cast<int>(units >> (power - kListsLog2)) - kLists;
  return std::min((power - kListsLog2 + 1) * kLists + part, kNumLists - 1);
}

// The closest of the first blocks of a list that are large enough.
SegmentHeap::Block* SegmentHeap::LookThrough(int list, size_t num_bytes, int looks) const {
  Block* best = nullptr;
  for (Block* block = free_[list]; block != nullptr && looks > 0; block = block->next_free, --looks) {
    if (block->num_bytes < num_bytes || (best != nullptr && block->num_bytes >= best->num_bytes)) continue;
    best = block;
    if (best->num_bytes == num_bytes) break;
  }
  return best;
}

// The first list from `list` on that is not empty; kNumLists for none.
int SegmentHeap::NextList(int list) const {
  for (size_t word = list / 64; word < has_free_.size(); ++word) {
    uint64_t bits = has_free_[word];
    if (word == static_cast<size_t>(list / 64)) bits &= ~uint64_t{0} << (list % 64);
    if (bits != 0) return static_cast<int>(word * 64) + std::countr_zero(bits);
  }
  return kNumLists;
}

SegmentHeap::Block* SegmentHeap::FindFree(size_t num_bytes) {
  const int list = ListOf(num_bytes);
  if (Block* const close = LookThrough(list, num_bytes, kLooks)) return close;
  // Every block of a later list is large enough.
  const int later = NextList(list + 1);
  if (later < kNumLists) return LookThrough(later, num_bytes, kLooks);
  return LookThrough(list, num_bytes, std::numeric_limits<int>::max());
}

void SegmentHeap::Push(Block* block) {
  const int list = ListOf(block->num_bytes);
  block->is_free = true;
  block->previous_free = nullptr;
  block->next_free = free_[list];
  if (block->next_free != nullptr) block->next_free->previous_free = block;
  free_[list] = block;
  has_free_[list / 64] |= uint64_t{1} << (list % 64);
}

void SegmentHeap::Remove(Block* block) {
  const int list = ListOf(block->num_bytes);
  if (block->next_free != nullptr) block->next_free->previous_free = block->previous_free;
  if (block->previous_free != nullptr) {
    block->previous_free->next_free = block->next_free;
  } else {
    free_[list] = block->next_free;
    if (free_[list] == nullptr) has_free_[list / 64] &= ~(uint64_t{1} << (list % 64));
  }
  block->is_free = false;
  block->next_free = block->previous_free = nullptr;
}

SegmentHeap::Block* SegmentHeap::NewBlock() {
  if (recycled_.empty()) return &storage_.emplace_back();
  Block* const block = recycled_.back();
  recycled_.pop_back();
  *block = Block();
  return block;
}

void SegmentHeap::Recycle(Block* block) { recycled_.push_back(block); }

SegmentHeap::Block* SegmentHeap::Allocate(size_t num_bytes) {
  const size_t wanted = RoundUp(num_bytes);
  Block* const block = FindFree(wanted);
  if (block == nullptr) return nullptr;
  Remove(block);
  if (block->num_bytes > wanted) {
    Block* const rest = NewBlock();
    rest->address = block->address + wanted;
    rest->num_bytes = block->num_bytes - wanted;
    rest->segment = block->segment;
    rest->before = block;
    rest->after = block->after;
    if (rest->after != nullptr) rest->after->before = rest;
    block->after = rest;
    block->num_bytes = wanted;
    Push(rest);
  }
  num_bytes_in_use_ += wanted;
  return block;
}

void SegmentHeap::Absorb(Block* block) {
  Block* const after = block->after;
  block->num_bytes += after->num_bytes;
  block->after = after->after;
  if (block->after != nullptr) block->after->before = block;
  Recycle(after);
}

void SegmentHeap::Free(Block* block) {
  num_bytes_in_use_ -= block->num_bytes;
  if (block->after != nullptr && block->after->is_free) {
    Remove(block->after);
    Absorb(block);
  }
  if (block->before != nullptr && block->before->is_free) {
    block = block->before;
    Remove(block);
    Absorb(block);
  }
  Push(block);
}

void SegmentHeap::AddSegment(uintptr_t address, size_t num_bytes) {
  Block* const block = NewBlock();
  block->address = block->segment = address;
  block->num_bytes = num_bytes;
  segments_[address] = block;
  num_segment_bytes_ += num_bytes;
  Push(block);
}

std::vector<std::pair<uintptr_t, size_t>> SegmentHeap::TakeEmptySegments() {
  std::vector<std::pair<uintptr_t, size_t>> empty;
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    Block* const first = segment->second;
    if (!first->is_free || first->after != nullptr) {
      ++segment;
      continue;
    }
    empty.emplace_back(first->address, first->num_bytes);
    num_segment_bytes_ -= first->num_bytes;
    Remove(first);
    Recycle(first);
    segment = segments_.erase(segment);
  }
  return empty;
}

std::vector<uintptr_t> SegmentHeap::Segments() const {
  std::vector<uintptr_t> addresses;
  for (const auto& [address, first] : segments_) addresses.push_back(address);
  return addresses;
}

size_t SegmentHeap::LargestFree() const {
  size_t largest = 0;
  for (const auto& [address, first] : segments_) {
    for (const Block* block = first; block != nullptr; block = block->after) {
      if (block->is_free) largest = std::max(largest, block->num_bytes);
    }
  }
  return largest;
}

std::vector<std::pair<size_t, int64_t>> SegmentHeap::LargestInUse(size_t count) const {
  std::map<size_t, int64_t, std::greater<>> sizes;
  for (const auto& [address, first] : segments_) {
    for (const Block* block = first; block != nullptr; block = block->after) {
      if (!block->is_free) ++sizes[block->num_bytes];
    }
  }
  std::vector<std::pair<size_t, int64_t>> largest(sizes.begin(), sizes.end());
  largest.resize(std::min(largest.size(), count));
  return largest;
}

}  // namespace weir
