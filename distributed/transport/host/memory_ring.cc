#include "distributed/transport/host/memory_ring.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace weir {

bool MemoryRing::Write(absl::string_view first, absl::string_view second) {
  const uint64_t position = num_written_.load(std::memory_order_relaxed);
  const uint64_t num_read = shared_->num_read.load(std::memory_order_acquire);
  // A reader that says that it has read what was not written gets nothing.
  if (position - num_read >= kSlots || first.size() + second.size() > kMaxMessageBytes) return false;
  Slot& slot = shared_->slots[position % kSlots];
  slot.num_bytes = first.size() + second.size();
  memcpy(slot.bytes, first.data(), first.size());
  if (!second.empty()) memcpy(slot.bytes + first.size(), second.data(), second.size());
  num_written_.store(position + 1, std::memory_order_relaxed);
  shared_->num_written.store(position + 1, std::memory_order_seq_cst);
  return true;
}

bool MemoryRing::NeedsNotice() const {
  return shared_->num_read.load(std::memory_order_seq_cst) != num_written_.load(std::memory_order_relaxed) &&
         !is_polled();
}

absl::StatusOr<bool> MemoryRing::Read(std::string* message) {
  const uint64_t position = num_read_.load(std::memory_order_relaxed);
  const uint64_t num_written = shared_->num_written.load(std::memory_order_seq_cst);
  if (num_written == position) return false;
  if (num_written - position > kSlots) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory says that there are ",
                                                   num_written - position, " messages, but has room for ",
                                                   kSlots));
  }
  const Slot& slot = shared_->slots[position % kSlots];
  const uint64_t num_bytes = reinterpret_cast<const volatile uint64_t&>(slot.num_bytes);  // once
  if (num_bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory has a message of ", num_bytes, " bytes, more than ", kMaxMessageBytes));
  }
  message->assign(slot.bytes, num_bytes);
  num_read_.store(position + 1, std::memory_order_relaxed);
  shared_->num_read.store(position + 1, std::memory_order_release);
  return true;
}

}  // namespace weir
