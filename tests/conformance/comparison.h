// How closely tensors must agree: in dtype and shape, and in elements but for an error that is both relative
// and, below 1, absolute. NaN agrees with NaN, infinity with itself. Pure functions.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/types/tensor.h"

namespace weir::conformance {

// A few roundings; 0 for what is not floating.
double ToleranceOf(DType dtype);

// Internal, saying what differs where. A tolerance below 0 stands for that of the dtype.
absl::Status Compare(absl::string_view what, const Tensor& found, const Tensor& wanted, double tolerance);
absl::Status CompareAll(absl::string_view what, const std::vector<Tensor>& found,
                        const std::vector<Tensor>& wanted, double tolerance);

}  // namespace weir::conformance
