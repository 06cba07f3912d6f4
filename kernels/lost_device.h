// The error of a device that this process has lost: what is in its memory is gone, or cannot be trusted, and
// nothing is computed there until the process ends. A session knows it from the loss of a peer by its
// payload: no new session helps.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

// Unavailable: what runs elsewhere may go on without it.
absl::Status LostDeviceError(absl::string_view device, absl::string_view message);
bool IsOfLostDevice(const absl::Status& status);

}  // namespace weir
