// WEIR_HOST_DEVICE: a function that nvcc compiles for GPUs, too, so that one text serves the CPU's kernels
// and the GPU's. It may call functions that are marked like it, and constexpr ones of the standard library.
#pragma once

#ifdef __CUDACC__
#define WEIR_HOST_DEVICE __host__ __device__
#else
#define WEIR_HOST_DEVICE
#endif
