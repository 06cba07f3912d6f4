// Tensors as JSON: nested lists of numbers, booleans and strings; a scalar is a bare value.
//
// Functions without state; safe from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "distributed/json.h"
#include "graph/types/dtype.h"
#include "graph/types/tensor.h"

namespace weir {

// InvalidArgument for lists of unequal lengths, and for a value that the dtype cannot hold: text for a
// number, 1.5 or 300 for an int8. Unimplemented for complex numbers and resources. kInvalid: float for
// numbers, bool or string for these.
absl::StatusOr<Tensor> TensorFromJson(const Json& json, DType dtype);

// Unimplemented for complex numbers and resources. Infinities and NaN, which JSON lacks, are texts: "inf",
// "-inf", "nan"; so are strings that are no UTF-8, with \x escapes.
absl::StatusOr<Json> JsonFromTensor(const Tensor& tensor);

}  // namespace weir
