// CUDA's errors as absl::Status: "cudaMemcpyAsync: CUDA error 700 (cudaErrorIllegalAddress): an illegal ...".
//
// The code says what a caller can do about it: ResourceExhausted when memory ran out, NotFound when there is
// no GPU or no driver for one, Unavailable when the device is lost (an error that every later call repeats
// until the process ends), else Internal. Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

// The numbers of cudaError_t that Weir decides by; they have not changed since CUDA 10.
enum CudaErrorNumber : int {
  kCudaSuccess = 0,
  kCudaInvalidValue = 1,
  kCudaOutOfMemory = 2,
  kCudaInsufficientDriver = 35,
  kCudaNoDevice = 100,
  kCudaNotReady = 600,
  kCudaIllegalAddress = 700,
  kCudaLaunchFailure = 719,
  kCudaStreamCaptureUnsupported = 900,
};

// After such an error the device's context is gone: nothing on it can be read or run any more.
bool IsStickyCudaError(int number);

// `call` is the function that failed, `name` and `text` are CUDA's. Ok for kCudaSuccess.
absl::Status CudaError(absl::string_view call, int number, absl::string_view name, absl::string_view text);

// The number in a status that CudaError made; 0 for every other one.
int CudaErrorNumberOf(const absl::Status& status);

// Whether the status says that the device is lost.
bool SaysDeviceLost(const absl::Status& status);

}  // namespace weir
