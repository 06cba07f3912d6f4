// Copies from devices to the host whose end somebody is told of.
//
// Thread safety: all functions.
#pragma once

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/tensor.h"
#include "kernels/device.h"

namespace weir {

// Calls `then` when so many parts have ended, with the first error.
class AllParts {
 public:
  AllParts(int count, std::function<void(const absl::Status&)> then) : left_(count), then_(std::move(then)) {}

  void End(const absl::Status& status) {
    absl::Status first;
    {
      absl::MutexLock lock(&mutex_);
      status_.Update(status);
      if (--left_ > 0) return;
      first = status_;
    }
    then_(first);
  }

 private:
  absl::Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  const std::function<void(const absl::Status&)> then_;
};

// Device::CopyOut that gives the tensor, or the error, when the copy has ended and not before. `done` is
// called once, from any thread and perhaps before this returns, and must not wait.
void CopyToHost(Device& device, const Tensor& tensor, std::function<void(absl::StatusOr<Tensor>)> done);

}  // namespace weir
