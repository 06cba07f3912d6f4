// Launching kernels of a CudaKernelTable: grids, and arguments that are checked.
//
// Nothing here knows CUDA's headers. Thread safety: pure functions but for what they do to the stream.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/kernel_table.h"

namespace weir {

inline constexpr int64_t kCudaBlockThreads = 256;
// Blocks that a multiprocessor holds at once, of kCudaBlockThreads each: more gain nothing where threads
// loop.
inline constexpr int64_t kCudaBlocksPerMultiprocessor = 8;

// A grid whose threads loop over `count` pieces of work, one a thread; of any count from 1 on.
inline CudaGrid GridOverElements(const CudaStream& stream, int64_t count) {
  const int64_t most = stream.num_multiprocessors() * kCudaBlocksPerMultiprocessor;
  const int64_t blocks = std::min(most, (count - 1) / kCudaBlockThreads + 1);
  return {.blocks = {static_cast<uint32_t>(blocks), 1, 1}, .threads = {kCudaBlockThreads, 1, 1}};
}

// A grid whose blocks loop over `count` pieces of work, one a block.
inline CudaGrid GridOverBlocks(const CudaStream& stream, int64_t count) {
  const int64_t most = stream.num_multiprocessors() * kCudaBlocksPerMultiprocessor;
  return {.blocks = {static_cast<uint32_t>(std::min(most, count)), 1, 1},
          .threads = {kCudaBlockThreads, 1, 1}};
}

// Arguments must have the types of the kernel's parameters; pointers may be of any type.
template <typename... Arguments>
absl::Status LaunchKernel(CudaStream& stream, const CudaKernelTable& table, absl::string_view name,
                          const std::vector<DType>& dtypes, const CudaGrid& grid,
                          const Arguments&... arguments) {
  WEIR_ASSIGN_OR_RETURN(const CudaKernelTable::Kernel* const kernel,
                        table.Find(name, dtypes, {CudaParameterOf<Arguments>()...}));
  const CudaArgument values[] = {{&arguments, sizeof(arguments)}...};
  return stream.api().Launch({kernel->name.c_str(), kernel->address}, grid, values, stream.handle());
}

}  // namespace weir
