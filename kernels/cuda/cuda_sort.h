// Sorting on a GPU, as an interface: CUB (cub_sort.h), or a stand-in for tests that sorts on the host when
// the stream comes to it (test_host_sort.h).
//
// Thread safety: all methods.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/allocator.h"
#include "graph/types/dtype.h"
#include "kernels/cuda/cuda_stream.h"

namespace weir {

// Pairs of a key and a value that are sorted by their keys; what has one key stays in order. All four arrays
// are in the device's memory and do not overlap.
struct PairSort {
  DType dtype = DType::kUint32;  // of keys and of values: uint32 or uint64
  int64_t count = 0;             // positive
  int num_bits = 32;             // positive: the keys are below 2^num_bits
  const void* keys = nullptr;
  const void* values = nullptr;
  void* sorted_keys = nullptr;
  void* sorted_values = nullptr;
};

class CudaSort {
 public:
  virtual ~CudaSort() = default;

  // Enqueues the sort. Memory that it needs for itself comes from `allocator`, the device's. Unimplemented
  // for another dtype; NotFound in a build without the toolkit.
  virtual absl::Status Sort(CudaStream& stream, Allocator& allocator, const PairSort& pairs) = 0;
};

}  // namespace weir
