// What ops that read and change rows of variables ask of their arguments, before anything is read or written.
// The CPU's kernels and those for GPUs call these, so that a mistake has one text wherever it is found.
//
// All errors are InvalidArgument. Whether indices are in range is CheckIndices' business (index_checks.h).
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/index_checks.h"

namespace weir {

// Slices along dimension `batch_dims` of a variable of that shape; batches of indices choose in batches of
// it.
absl::StatusOr<GatheredSlices> PlanRows(const Shape& variable, const Shape& indices, int64_t batch_dims = 0);

// Whether a variable of that shape has rows.
absl::Status CheckHasRows(const Shape& variable);

// Whether updates of the dtype of `variable`, which is named `name`, change slices that have together the
// dimensions `slices`. A scalar may change any when `allows_scalar`.
absl::Status CheckSliceUpdates(const Tensor& variable, absl::string_view name,
                               absl::Span<const int64_t> slices, const Tensor& updates, bool allows_scalar);

// Whether the gradient has a row of the variable for each index.
absl::Status CheckRowGradient(const Tensor& variable, absl::string_view name, const Tensor& gradient,
                              const Shape& indices);

}  // namespace weir
