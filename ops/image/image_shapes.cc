#include "ops/image/image_shapes.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "ops/shape_functions.h"

namespace weir {

absl::StatusOr<ImageSize> SizeInput(ShapeInference& s, int index) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape vector, s.WithRank(index, 1));
  if (vector.dim(0) != kUnknown && vector.dim(0) != 2) {
    return InvalidArgumentError(StrCat("Dimension must be 2 but is ", vector.dim(0), ": ",
                                       s.input_name(index), " must hold a height and a width"));
  }
  if (const auto sizes = s.input_integers(index)) {
    for (const int64_t size : *sizes) {
      if (size < 0) return InvalidArgumentError(StrCat(s.input_name(index), " has the negative size ", size));
    }
  }
  WEIR_ASSIGN_OR_RETURN(const PartialShape size, s.InputAsShape(index));
  if (size.rank() != 2) return ImageSize();
  return ImageSize{size.dim(0), size.dim(1)};
}

int64_t InputDim(ShapeInference& s, int index, int dim) {
  return s.input(index).has_rank() ? s.input(index).dim(dim) : kUnknown;
}

absl::Status ResizedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_ASSIGN_OR_RETURN(const ImageSize size, SizeInput(s, 1));
  return SetOutputDims(s, 0, {InputDim(s, 0, 0), size.height, size.width, InputDim(s, 0, 3)});
}

}  // namespace weir
