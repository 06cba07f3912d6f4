// What the families share: the words of their files, the type lists of their schemas, steps of their shape
// functions (graph/shape_inference.h has the basics). Only the family files include it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/shape_inference.h"

namespace weir {

// In every function of a family.
using absl::InvalidArgumentError;
using absl::OkStatus;
using absl::Status;
using absl::StrCat;

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

std::vector<int64_t> DimsOf(const PartialShape& shape);

// Sets an output's dimensions, -1 for unknown ones. InvalidArgument when their product overflows.
Status SetOutputDims(ShapeInference& s, int output, absl::Span<const int64_t> dims);

// `axis` counted from the front. InvalidArgument "axis 3 is outside [-2,2)", with `name` instead of "axis".
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank, absl::string_view name);

// The single integer that input `index` holds; nullopt when only a step can tell. InvalidArgument when the
// input is known not to be a scalar.
absl::StatusOr<std::optional<int64_t>> ScalarInput(ShapeInference& s, int index);

// a * b and so on for dimensions: unknown if one is, or if the result is no dimension (a step will say so).
int64_t MultiplyDims(int64_t a, int64_t b);
int64_t AddDims(int64_t a, int64_t b);

// The shape that a vector input asks for, none of its known elements negative.
absl::StatusOr<PartialShape> RequestedShape(ShapeInference& s, int index);

// output 0: input 0 without the axes in input 1, or with 1 in their place when attr keep_dims is true.
Status ReductionShape(ShapeInference& s);

}  // namespace weir
