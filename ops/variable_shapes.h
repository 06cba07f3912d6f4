// Whether what is read from or written to a variable fits it, as far as the graph knows. Only the family
// files include it.
#pragma once

#include "absl/status/status.h"
#include "graph/shape_inference.h"

namespace weir {

// The type of the variable behind a handle; unknown for a handle from elsewhere.
ResourceType VariableType(const ShapeInference& s, int input);

// InvalidArgument when the variable behind input `handle` is known to have another dtype.
absl::Status CheckDType(const ShapeInference& s, int handle, DType dtype);

// That input `value` has the dtype and may have the shape of the variable behind input `handle`.
// InvalidArgument naming both types.
absl::Status CheckFitsVariable(const ShapeInference& s, int handle, int value);

}  // namespace weir
