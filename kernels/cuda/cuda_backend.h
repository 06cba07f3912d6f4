// What the CUDA devices of a runtime are made of: CUDA, kernels, products of matrices, convolutions, sorts,
// NCCL between them. The real ones, or stand-ins for tests.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/nccl_api.h"

namespace weir {

// Borrowed, all of it: must outlive the devices and their buffers.
struct CudaBackend {
  CudaApi* api = nullptr;  // null in a build without CUDA
  CudaCompute compute;
  NcclApi* nccl = nullptr;  // null: collectives between the devices go through the host's memory
};

// This program's, which lives as long as the process. Nothing is opened, and no driver is looked for, before
// a device is made.
const CudaBackend& TheCudaBackend();

// `count` devices, "/job:JOB/replica:0/task:TASK/device:GPU:0" and on, each with its GpuLinks where the
// backend has NCCL. FailedPrecondition, in one sentence,
// when there are not so many GPUs here that Weir computes on, with the reason.
absl::StatusOr<std::vector<std::unique_ptr<CudaDevice>>> MakeGpus(const CudaBackend& backend, int count,
                                                                  absl::string_view job, int task,
                                                                  ThreadPool& threads, int64_t memory_limit);

}  // namespace weir
