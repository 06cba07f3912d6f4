// Slices of variables by index: where they are. gathers.cc reads them, scatter.h changes them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/kernel_context.h"
#include "kernels/variable.h"

namespace weir {

// Some slices of a variable, each of `inner` elements.
struct Slices {
  int64_t offset(int64_t i) const { return static_cast<const int64_t*>(offsets.data())[i]; }

  Tensor offsets;     // int64: where each slice begins in the variable; kIgnored for none
  int64_t inner = 0;  // elements
  Dims dims;          // of all slices together: what a gather gives and a scatter takes
};
inline constexpr int64_t kIgnored = -1;

// Slices along dimension `batch_dims` of `shape`; batches of indices choose in batches of the variable.
absl::StatusOr<Slices> SlicesOfRows(KernelContext& context, const Shape& shape, const Tensor& indices,
                                    int64_t batch_dims = 0);

// What to do with coordinates outside of the variable.
enum class BadIndices { kError, kIgnore };

// The last dimension of the indices holds coordinates in the first dimensions of the variable.
absl::StatusOr<Slices> SlicesAtCoordinates(KernelContext& context, const Shape& shape, const Tensor& indices,
                                           BadIndices bad);

}  // namespace weir
