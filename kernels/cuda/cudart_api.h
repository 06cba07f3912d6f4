// CudaApi over CUDA's runtime, which is linked statically; null in a build without the toolkit.
//
// Nothing happens before the first call: the runtime looks for the driver (libcuda.so.1) then.
#pragma once

#include <memory>

#include "kernels/cuda/cuda_api.h"

namespace weir {

// Whether this binary was built with the toolkit.
bool IsBuiltWithCuda();

// Null unless IsBuiltWithCuda().
std::unique_ptr<CudaApi> MakeCudartApi();

}  // namespace weir
