// What the shape functions of image ops share. Images are [batch, height, width, channels].
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/shape_inference.h"

namespace weir {

// The two sizes, height and width, that input `index` holds; -1 for one that only a step can tell.
// InvalidArgument when they are not two.
struct ImageSize {
  int64_t height = PartialShape::kUnknownDim;
  int64_t width = PartialShape::kUnknownDim;
};
absl::StatusOr<ImageSize> SizeInput(ShapeInference& s, int index);

// Dimension `dim` of an input; -1 when it or the rank is unknown. Precondition: where it is known, the rank
// is larger than dim.
int64_t InputDim(ShapeInference& s, int index, int dim);

// output 0: input 0, of rank 4, in the size that input 1 holds.
absl::Status ResizedShape(ShapeInference& s);

}  // namespace weir
