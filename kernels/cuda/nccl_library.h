// NCCL, opened at the first call that needs it (cuda_libraries.h).
//
// Its functions are declared here by their binary interface, which NCCL 2 keeps: a build needs no header of
// it, nor the toolkit. What is declared is compared with the header where a build has one
// (nccl_library_test.cc). Thread safety: that of NcclApi.
#pragma once

#include <memory>

#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_libraries.h"
#include "kernels/cuda/nccl_api.h"

namespace weir {

// The functions that are used. Types of elements, reductions and results are NCCL's enums, streams CUDA's.
struct NcclFunctions {
  using Comm = void*;
  using Stream = void*;
  int (*init_all)(Comm* comms, int num_devices, const int* devices) = nullptr;
  int (*destroy)(Comm comm) = nullptr;
  int (*abort)(Comm comm) = nullptr;
  int (*async_error)(Comm comm, int* error) = nullptr;
  const char* (*error_text)(int error) = nullptr;
  const char* (*last_error)(Comm comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void* input, void* output, size_t count, int type, int reduction, Comm comm,
                    Stream stream) = nullptr;
  int (*all_gather)(const void* input, void* output, size_t count, int type, Comm comm,
                    Stream stream) = nullptr;
  int (*broadcast)(const void* input, void* output, size_t count, int type, int root, Comm comm,
                   Stream stream) = nullptr;
};

// The numbers of NCCL's enums.
enum NcclNumber : int {
  kNcclSuccess = 0,
  kNcclInProgress = 7,
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclInt64 = 4,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclSum = 0,
  kNcclProd = 1,
  kNcclMax = 2,
  kNcclMin = 3,
};

// Of CudaLibraryList().
const CudaLibrary& LibraryOfNccl();

absl::StatusOr<NcclFunctions> OpenNccl(CudaLibraries& libraries,
                                       const CudaLibrary& library = LibraryOfNccl());

// Borrows all.
std::unique_ptr<NcclApi> MakeNcclLibrary(CudaApi& api, CudaLibraries& libraries,
                                         const CudaLibrary& library = LibraryOfNccl());

}  // namespace weir
