// Reading the small integer inputs that steer an op: axes, shapes, permutations. All values may be hostile.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"

namespace weir {

// Element `index` of a tensor of integers of up to 16 bits, int32 or int64.
int64_t IntegerAt(const Tensor& tensor, int64_t index);

// The elements of a vector (or scalar) of integers; InvalidArgument, naming the input, for a higher rank or
// more than 254 elements (no op has a use for that many dimensions).
absl::StatusOr<Dims> ReadIntegers(const Tensor& tensor, absl::string_view name);

// The one element of a tensor; InvalidArgument when there is not exactly one.
absl::StatusOr<int64_t> ReadInteger(const Tensor& tensor, absl::string_view name);

// A dimension of a tensor of that rank, negative ones counted from the end. InvalidArgument
// "axis = 3 is not in [-2, 2)".
absl::StatusOr<int> ResolveAxis(int64_t axis, int rank, absl::string_view name);
absl::StatusOr<int> ReadAxis(const Tensor& tensor, int rank, absl::string_view name);

// The shape that a vector of integers spells; InvalidArgument as Shape::FromDims.
absl::StatusOr<Shape> ReadShape(const Tensor& tensor, absl::string_view name);

// Integers into an int32 or int64 vector. Precondition: they fit, lengths are equal.
void WriteIntegers(absl::Span<const int64_t> values, Tensor& tensor);

}  // namespace weir
