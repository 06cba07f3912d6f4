// A ring of messages in memory that two processes share (shared_memory.h): one of them writes, the other
// reads. No system call, no lock between the processes, and nobody is woken: the reader looks (Read), or is
// told by other means that there is something.
//
// The reader says whether it looks again and again just now (SetIsPolled). Who has written a message and then
// finds that the reader does not must tell it; the reader looks once more after it has said so. So one of the
// two always notices.
//
// Safe against the other process, which may write anything into the memory at any moment: what is read is
// copied, once, and checked; positions are kept outside of the memory. InvalidArgument then, and the ring is
// of no use any more.
//
// Thread safety: one thread may write and one may read at a time; the rest from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

class MemoryRing {
 public:
  static constexpr size_t kSlots = 8;
  static constexpr size_t kMaxMessageBytes = (36 << 10) - sizeof(uint64_t);
  // Of the memory that a ring takes, which is aligned for it and was all zeros at first.
  static constexpr size_t kBytes = kSlots * (kMaxMessageBytes + sizeof(uint64_t)) + 4096;

  // Borrows the memory.
  explicit MemoryRing(char* memory) : shared_(reinterpret_cast<Shared*>(memory)) {}

  // A message of two parts, one after the other. False, and nothing is written, when it is too large or the
  // reader is kSlots messages behind.
  bool Write(absl::string_view first, absl::string_view second);
  // Whether the reader has not taken all that was written, and does not look by itself.
  bool NeedsNotice() const;
  bool is_polled() const { return shared_->is_polled.load(std::memory_order_seq_cst) != 0; }

  // The next message. False when there is none.
  absl::StatusOr<bool> Read(std::string* message);
  // Cheap: whether Read would find one.
  bool has_message() const { return shared_->num_written.load(std::memory_order_seq_cst) != num_read_; }
  void SetIsPolled(bool is_polled) { shared_->is_polled.store(is_polled ? 1 : 0, std::memory_order_seq_cst); }

 private:
  struct Slot {
    uint64_t num_bytes;
    char bytes[kMaxMessageBytes];
  };
  // On cache lines of their own: two cores write them. num_written and is_polled are accessed in one order
  // for all (seq_cst): each side writes one of them before it looks at the other.
  struct Shared {
    alignas(128) std::atomic<uint64_t> num_written;
    alignas(128) std::atomic<uint64_t> num_read;
    alignas(128) std::atomic<uint32_t> is_polled;
    alignas(128) Slot slots[kSlots];
  };
  static_assert(sizeof(Shared) <= kBytes);
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  Shared* const shared_;
  std::atomic<uint64_t> num_written_{0};  // by this side
  std::atomic<uint64_t> num_read_{0};     // by this side
};

}  // namespace weir
