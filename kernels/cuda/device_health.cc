#include "kernels/cuda/device_health.h"

#include "absl/strings/str_cat.h"
#include "kernels/lost_device.h"

namespace weir {

absl::Status DeviceHealth::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Status DeviceHealth::Lose(absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) {
    status_ =
        LostDeviceError(name_, absl::StrCat("the device ", name_, " (", description_, ") is lost: ", why));
  }
  return status_;
}

}  // namespace weir
