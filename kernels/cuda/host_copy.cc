#include "kernels/cuda/host_copy.h"

#include <memory>

namespace weir {

void CopyToHost(Device& device, const Tensor& tensor, std::function<void(absl::StatusOr<Tensor>)> done) {
  const auto copy = std::make_shared<Tensor>();
  // The copy may end before CopyOut has given its tensor: that is a part, too.
  const auto parts =
      std::make_shared<AllParts>(2, [copy, done = std::move(done)](const absl::Status& status) {
        done(status.ok() ? absl::StatusOr<Tensor>(std::move(*copy)) : status);
      });
  absl::StatusOr<Tensor> begun =
      device.CopyOut(tensor, [parts](const absl::Status& status) { parts->End(status); });
  if (!begun.ok()) {
    parts->End(begun.status());  // the copy will not end
  } else {
    *copy = *std::move(begun);
  }
  parts->End(absl::OkStatus());
}

}  // namespace weir
