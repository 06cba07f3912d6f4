// Products of matrices on a GPU, as an interface: cuBLASLt (cublaslt_blas.h), or a stand-in for tests that
// computes on the host when the stream comes to it (test_host_blas.h).
//
// Thread safety: all methods.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/allocator.h"
#include "graph/types/dtype.h"
#include "kernels/cuda/cuda_stream.h"

namespace weir {

// c[m,n] = op(a)[m,k] op(b)[k,n]: dense row-major matrices in the device's memory; op transposes or not. c
// must not overlap a or b. float, double, half or bfloat16; the last two are summed in float.
struct MatrixProduct {
  DType dtype = DType::kFloat32;
  int64_t m = 0, n = 0, k = 0;  // all positive
  bool transpose_a = false;     // a is [k,m] in memory
  bool transpose_b = false;     // b is [n,k] in memory
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
};

class CudaBlas {
 public:
  virtual ~CudaBlas() = default;

  // Enqueues the product. Memory that it needs for itself comes from `allocator`, the device's. Unimplemented
  // for another dtype; NotFound where there is no library for it.
  virtual absl::Status Multiply(CudaStream& stream, Allocator& allocator, const MatrixProduct& product) = 0;
};

}  // namespace weir
