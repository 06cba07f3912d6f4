// Pieces of images.
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/image/image_gradients.h"
#include "ops/image/image_shapes.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The number of boxes [n, 4] with an image each.
absl::StatusOr<int64_t> NumBoxes(ShapeInference& s, int boxes, int box_index) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape corners, s.WithRank(boxes, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape images, s.WithRank(box_index, 1));
  WEIR_RETURN_IF_ERROR(s.MergeDims(corners.dim(1), 4).status());
  return s.MergeDims(corners.dim(0), images.dim(0));
}

Status CropShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_ASSIGN_OR_RETURN(const int64_t num_boxes, NumBoxes(s, 1, 2));
  WEIR_ASSIGN_OR_RETURN(const ImageSize size, SizeInput(s, 3));
  return SetOutputDims(s, 0, {num_boxes, size.height, size.width, InputDim(s, 0, 3)});
}

Status CropGradImageShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_RETURN_IF_ERROR(NumBoxes(s, 1, 2).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape image, RequestedShape(s, 3));
  const auto of_rank_4 = image.MergeWith(PartialShape::OfRank(4));
  if (!of_rank_4.ok()) {
    return InvalidArgumentError(StrCat("image_size must have 4 elements, has ", image.rank()));
  }
  s.set_output(0, *of_rank_4);
  return OkStatus();
}

Status CropGradBoxesShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 4).status());
  WEIR_ASSIGN_OR_RETURN(const int64_t num_boxes, NumBoxes(s, 2, 3));
  return SetOutputDims(s, 0, {num_boxes, 4});
}

Status CropGradient(GradientContext& g) {
  const DType dtype = g.input(0).dtype();
  if (dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kHalf) {
    AttrMap attrs = SameAttrs(g, {"method"});
    attrs["T"] = dtype;
    g.set_input_grad(0, g.Add("CropAndResizeGradImage",
                              {g.grad(0), g.input(1), g.input(2), formulas::ShapeOf(g, g.input(0))}, attrs));
  }
  // Also where pixels are copied, as in TensorFlow: the gradient of an interpolation between them.
  g.set_input_grad(1, g.Add("CropAndResizeGradBoxes", {g.grad(0), g.input(0), g.input(1), g.input(2)}));
  return OkStatus();
}

Status GlimpseShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_ASSIGN_OR_RETURN(const ImageSize size, SizeInput(s, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape offsets, s.WithRank(2, 2));
  WEIR_RETURN_IF_ERROR(s.MergeDims(offsets.dim(1), 2).status());
  WEIR_ASSIGN_OR_RETURN(const int64_t batch, s.MergeDims(InputDim(s, 0, 0), offsets.dim(0)));
  return SetOutputDims(s, 0, {batch, size.height, size.width, InputDim(s, 0, 3)});
}

}  // namespace

std::vector<OpDef> CropsOps() {
  return {
      {.name = "CropAndResize",
       .summary = "Cuts boxes out of images and resizes them to one size.",
       .infer_shapes = CropShape,
       .gradient = CropGradient},
      {.name = "CropAndResizeGradImage",
       .summary = "Gives the gradient of CropAndResize for the images.",
       .infer_shapes = CropGradImageShape,
       .gradient = RefusedGradient},
      {.name = "CropAndResizeGradBoxes",
       .summary = "Gives the gradient of CropAndResize for the corners of the boxes.",
       .infer_shapes = CropGradBoxesShape,
       .gradient = RefusedGradient},
      {.name = "ExtractGlimpse",
       .summary = "Cuts a window around an offset out of each image, with noise where it leaves the image.",
       .infer_shapes = GlimpseShape,
       .gradient = NotDifferentiable},
      {.name = "ExtractGlimpseV2",
       .summary = "ExtractGlimpse whose window begins at the offset, unless that is centered and normalized.",
       .infer_shapes = GlimpseShape,
       .gradient = RefusedGradient},
  };
}

}  // namespace weir
