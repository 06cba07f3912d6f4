// Whether a CUDA device is lost. It may outlive the device, so that somebody else can say that it is lost.
//
// Thread safety: all methods.
#pragma once

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace weir {

class DeviceHealth {
 public:
  DeviceHealth(std::string name, std::string description)
      : name_(std::move(name)), description_(std::move(description)) {}

  // Ok, or why it is lost (LostDeviceError): "the device NAME (DESCRIPTION) is lost: WHY".
  absl::Status status() const;
  // It is lost from now on. Gives the status, which is that of the first loss.
  absl::Status Lose(absl::string_view why);

 private:
  const std::string name_, description_;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
