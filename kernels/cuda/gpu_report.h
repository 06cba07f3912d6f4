// What there is of GPUs on this machine, for people: driver, runtime, devices, NVIDIA's libraries; or why
// there is none.
//
// Libraries are opened only where there is a GPU: it takes up to half a second. Thread safety: pure but for
// what it asks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_libraries.h"

namespace weir {

struct GpuReport {
  struct Line {
    bool is_good = true;
    std::string text;
  };
  // One sentence; empty where there is a GPU. Then the lists below are empty.
  std::string why_none;
  std::string versions;    // "driver for CUDA 13.0, runtime 13.0"
  std::vector<Line> gpus;  // as "GPU 0: NVIDIA H100 80GB HBM3, compute capability 9.0, 85.0 GB, 84.2 GB free"
  std::vector<Line> libraries;  // as "cuDNN 9.19.0"
};

// One sentence on what NumDevices answered: "there is no NVIDIA driver on this machine".
std::string WhyNoGpu(CudaApi& api, const absl::Status& status);

// `api`: null in a build without CUDA.
GpuReport ReportGpus(CudaApi* api, CudaLibraries& libraries);

}  // namespace weir
