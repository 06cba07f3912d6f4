#include "kernels/cuda/cuda_error.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr absl::string_view kNumberPayload = "weir/cuda_error";

// After each of these nothing works on the device in this process: CUDA's header says so of most, that the
// process must be terminated, and memory that is damaged (214, 220) or a context that is gone (709) is no
// better.
constexpr int kStickyErrors[] = {
    214,  // cudaErrorECCUncorrectable
    220,  // cudaErrorNvlinkUncorrectable
    226,  // cudaErrorContained
    700,  // cudaErrorIllegalAddress
    702,  // cudaErrorLaunchTimeout
    709,  // cudaErrorContextIsDestroyed
    710,  // cudaErrorAssert
    714,  // cudaErrorHardwareStackError
    715,  // cudaErrorIllegalInstruction
    716,  // cudaErrorMisalignedAddress
    717,  // cudaErrorInvalidAddressSpace
    718,  // cudaErrorInvalidPc
    719,  // cudaErrorLaunchFailure
    721,  // cudaErrorTensorMemoryLeak
    810,  // cudaErrorMpsClientTerminated
    911,  // cudaErrorExternalDevice
};

absl::StatusCode CodeOf(int number) {
  if (IsStickyCudaError(number)) return absl::StatusCode::kUnavailable;
  switch (number) {
    case kCudaOutOfMemory:
      return absl::StatusCode::kResourceExhausted;
    case kCudaInsufficientDriver:
    case kCudaNoDevice:
      return absl::StatusCode::kNotFound;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

bool IsStickyCudaError(int number) {
  return std::find(std::begin(kStickyErrors), std::end(kStickyErrors), number) != std::end(kStickyErrors);
}

absl::Status CudaError(absl::string_view call, int number, absl::string_view name, absl::string_view text) {
  if (number == kCudaSuccess) return absl::OkStatus();
  absl::Status status(CodeOf(number), absl::StrCat(call, ": CUDA error ", number, " (", name, "): ", text));
  status.SetPayload(kNumberPayload, absl::Cord(absl::StrCat(number)));
  return status;
}

int CudaErrorNumberOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kNumberPayload);
  int number = 0;
  return payload && absl::SimpleAtoi(std::string(*payload), &number) ? number : 0;
}

bool SaysDeviceLost(const absl::Status& status) { return IsStickyCudaError(CudaErrorNumberOf(status)); }

}  // namespace weir
