// The windows of a dataset: `size` elements, `stride` apart, each window `shift` elements after the one
// before.
//
// A value. Source: the checks and texts are those of TensorFlow's window_dataset_op.cc.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/integer_input.h"

namespace weir {

struct WindowSizes {
  int64_t size = 1;
  int64_t shift = 1;
  int64_t stride = 1;
  bool drops_remainder = false;  // windows at the end that lack elements are left out

  // Inputs 1 to 3, whose names are `prefix`size, `prefix`shift and `prefix`stride. InvalidArgument for sizes
  // that are no numbers above 0.
  static absl::StatusOr<WindowSizes> Read(const KernelContext& context, absl::string_view prefix) {
    WindowSizes sizes;
    WEIR_ASSIGN_OR_RETURN(sizes.size, ReadInteger(context.input(1), absl::StrCat(prefix, "size")));
    WEIR_ASSIGN_OR_RETURN(sizes.shift, ReadInteger(context.input(2), absl::StrCat(prefix, "shift")));
    WEIR_ASSIGN_OR_RETURN(sizes.stride, ReadInteger(context.input(3), absl::StrCat(prefix, "stride")));
    if (sizes.size < 1) return absl::InvalidArgumentError("Window size must be greater than zero.");
    if (sizes.shift < 1) return absl::InvalidArgumentError("Window shift must be greater than zero.");
    if (sizes.stride < 1) return absl::InvalidArgumentError("window_stride must be greater than zero.");
    return sizes;
  }

  // From the first to the last element of a window.
  int64_t span() const { return size - 1 > (INT64_MAX - 1) / stride ? INT64_MAX : (size - 1) * stride + 1; }
  // How many windows a dataset of that cardinality has: a number, or what it is where it is none.
  int64_t NumWindows(int64_t cardinality) const {
    if (cardinality < 0) return cardinality;
    if (!drops_remainder) return cardinality / shift + (cardinality % shift != 0 ? 1 : 0);
    return cardinality < span() ? 0 : (cardinality - span()) / shift + 1;
  }
};

}  // namespace weir
