// CUB's radix sort, for what cub_sort.cc asks of it.
#include <cuda_runtime_api.h>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/cub_pairs.h"
#include "kernels/cuda/cuda_error.h"

namespace weir::cuda {

// What cub_sort.cc makes of the numbers.
static_assert(static_cast<int>(cudaSuccess) == kCudaSuccess);
static_assert(static_cast<int>(cudaErrorMemoryAllocation) == kCudaOutOfMemory);

namespace {

template <typename T>
int Sort(void* temporary, size_t* num_bytes, const T* keys, T* sorted_keys, const T* values, T* sorted_values,
         int64_t count, int num_bits, void* stream) {
  // CUB takes any error that the thread has left for its own.
  cudaGetLastError();
  const cudaError_t sorted =
      cub::DeviceRadixSort::SortPairs(temporary, *num_bytes, keys, sorted_keys, values, sorted_values, count,
                                      0, num_bits, static_cast<cudaStream_t>(stream));
  if (sorted != cudaSuccess) cudaGetLastError();
  return sorted;
}

}  // namespace

int SortPairs(void* temporary, size_t* num_bytes, const uint32_t* keys, uint32_t* sorted_keys,
              const uint32_t* values, uint32_t* sorted_values, int64_t count, int num_bits, void* stream) {
  return Sort(temporary, num_bytes, keys, sorted_keys, values, sorted_values, count, num_bits, stream);
}

int SortPairs(void* temporary, size_t* num_bytes, const uint64_t* keys, uint64_t* sorted_keys,
              const uint64_t* values, uint64_t* sorted_values, int64_t count, int num_bits, void* stream) {
  return Sort(temporary, num_bytes, keys, sorted_keys, values, sorted_values, count, num_bits, stream);
}

const char* NameOfCudaError(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }
const char* TextOfCudaError(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace weir::cuda
