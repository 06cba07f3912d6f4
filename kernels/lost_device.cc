#include "kernels/lost_device.h"

#include "absl/strings/cord.h"

namespace weir {

// Status::ToString shows it.
static constexpr char kPayload[] = "lost device";

absl::Status LostDeviceError(absl::string_view device, absl::string_view message) {
  absl::Status error = absl::UnavailableError(message);
  error.SetPayload(kPayload, absl::Cord(device));
  return error;
}

bool IsOfLostDevice(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

}  // namespace weir
