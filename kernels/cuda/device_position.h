// Where a thread is in its grid. For .cu files only.
#pragma once

#include "kernels/cuda/element_bodies.h"

namespace weir::cuda {

// Grids have one dimension.
__device__ inline ThreadPosition ThisThread() {
  return {blockIdx.x * int64_t{blockDim.x} + threadIdx.x, gridDim.x * int64_t{blockDim.x}};
}

}  // namespace weir::cuda
