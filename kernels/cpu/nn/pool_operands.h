// What kernels of pooling are given, and whether it fits. For the kernels of all devices, so that errors read
// alike.
//
// Values, safe to share between threads.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/kernel.h"

namespace weir {

// The windows of MaxPool, AvgPool, or a gradient of theirs: attrs, or the last two inputs (MaxPoolV2), which
// must then be in the host's memory.
class PoolWindows {
 public:
  static absl::StatusOr<PoolWindows> Of(const KernelConstruction& construction);

  absl::StatusOr<WindowGeometry> Geometry(const KernelContext& context, const Shape& input) const;
  // Of orig_input, orig_output and grad, which are checked.
  absl::StatusOr<WindowGeometry> OfMaxPoolGrad(const KernelContext& context) const;
  // Of orig_input_shape, in the host's memory, and grad.
  absl::StatusOr<WindowGeometry> OfAvgPoolGrad(const KernelContext& context) const;

 private:
  PoolWindows(WindowAttrs attrs, bool takes_windows)
      : attrs_(std::move(attrs)), takes_windows_(takes_windows) {}

  WindowAttrs attrs_;
  bool takes_windows_;
};

Shape PooledShape(const WindowGeometry& geometry);
// InvalidArgument "grad must be [1,2,2,1], is [4]".
absl::Status CheckPoolShape(absl::string_view name, const Tensor& tensor, const Shape& expected);

}  // namespace weir
