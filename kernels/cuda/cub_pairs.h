// What cub_pairs.cu has of CUB, without CUDA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::cuda {

// Asks, with a null `temporary`, for the bytes that a sort needs; else enqueues it on the stream, a
// cudaStream_t of the device that is selected. The keys are below 2^num_bits. Gives a cudaError_t. Thread
// safety: pure functions but for that.
int SortPairs(void* temporary, size_t* num_bytes, const uint32_t* keys, uint32_t* sorted_keys,
              const uint32_t* values, uint32_t* sorted_values, int64_t count, int num_bits, void* stream);
int SortPairs(void* temporary, size_t* num_bytes, const uint64_t* keys, uint64_t* sorted_keys,
              const uint64_t* values, uint64_t* sorted_values, int64_t count, int num_bits, void* stream);

// CUDA's name of the error, and its text.
const char* NameOfCudaError(int error);
const char* TextOfCudaError(int error);

}  // namespace weir::cuda
