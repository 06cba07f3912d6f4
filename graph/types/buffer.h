// The bytes behind tensors.
//
// A Buffer is shared by reference count; whoever holds the only reference may write it, anybody else only
// reads (Tensor::has_exclusive_buffer). Freed when the last reference goes.
#pragma once

#include <cstddef>

#include "graph/types/ref_counted.h"

namespace weir {

class Buffer : public RefCounted {
 public:
  void* data() const { return data_; }
  size_t num_bytes() const { return num_bytes_; }

 protected:
  Buffer(void* data, size_t num_bytes) : data_(data), num_bytes_(num_bytes) {}
  void* data_;
  size_t num_bytes_;
};

}  // namespace weir
