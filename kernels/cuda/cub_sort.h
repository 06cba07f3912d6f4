// Sorts by CUB's radix sort, which is stable and gives the same result every time.
//
// What it needs for itself comes from the device's allocator and goes back at once: what the stream does next
// with that memory comes later. Thread safety: all methods.
#pragma once

#include <memory>

#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_sort.h"

namespace weir {

// Borrows the API. In a build without the toolkit every call is NotFound.
std::unique_ptr<CudaSort> MakeCubSort(CudaApi& api);

}  // namespace weir
