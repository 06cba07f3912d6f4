// Which memory a tensor's elements are in: the host's, or that of the device that computes with them.
//
// Strings, resource handles and variants are objects of the host and are always there. A device whose memory
// is the host's (the CPU) has no other kind. What kind each argument of a kernel is its definition says
// (kernel_registry.h); a step's program copies what is needed on the other side
// (session/executor/memory_copies.h).
#pragma once

#include <cstdint>
#include <vector>

namespace weir {

enum class MemoryKind : uint8_t {
  kHost,    // the host's, pinned memory too
  kDevice,  // the device's own: only its kernels and copies may touch it
};

// Of a node's inputs and outputs, one by one.
struct ArgumentKinds {
  MemoryKind own = MemoryKind::kDevice;  // of what else its kernel allocates
  std::vector<MemoryKind> inputs, outputs;
};

}  // namespace weir
