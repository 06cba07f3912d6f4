// Where a device's buffers come from.
//
// Thread safety: every method may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/types/buffer.h"

namespace weir {

class Allocator {
 public:
  // Buffers begin at a multiple of this: a cache line, and the widest vector register.
  static constexpr size_t kAlignment = 64;

  virtual ~Allocator() = default;

  // A buffer of num_bytes with undefined content, or null when memory (or the device's limit) is exhausted.
  // num_bytes == 0 gives a valid empty buffer.
  virtual RefPtr<Buffer> Allocate(size_t num_bytes) = 0;

  // Bytes handed out and not yet returned; for reports and leak tests.
  virtual int64_t num_bytes_in_use() const = 0;
};

// Host memory with freed buffers kept for reuse: by size class below 1 MiB, and from there on in huge-page
// aligned blocks. Lives as long as the process; buffers may outlive every Runtime.
//
// Reason: a step allocates the same sizes again and again, and the first touch of a fresh page costs more
// than most kernels that fill it.
Allocator& HostAllocator();

}  // namespace weir
