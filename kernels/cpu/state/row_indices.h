// Checks of the indices that name rows of a variable, before anything is read or written at them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/tensor.h"

namespace weir {

// InvalidArgument "indices[0,3] = 7 is not in [0, 2)" unless every index, int32 or int64, is in
// [0, num_rows).
absl::Status CheckRowIndices(const Tensor& indices, int64_t num_rows);

}  // namespace weir
