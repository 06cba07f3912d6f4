// Images in other sizes.
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/image/image_gradients.h"
#include "ops/image/image_shapes.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// Height and width come from the original image, the rest from the gradients.
Status OriginalSize(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 4).status());
  return SetOutputDims(s, 0, {InputDim(s, 0, 0), InputDim(s, 1, 1), InputDim(s, 1, 2), InputDim(s, 0, 3)});
}

Status CheckPair(ShapeInference& s, int index) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape pair, s.WithRank(index, 1));
  if (pair.dim(0) == kUnknown || pair.dim(0) == 2) return OkStatus();
  return InvalidArgumentError(StrCat(s.input_name(index), " must have 2 elements, has ", pair.dim(0)));
}

Status ScaledShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckPair(s, 2));
  WEIR_RETURN_IF_ERROR(CheckPair(s, 3));
  return ResizedShape(s);
}

Status ScaledGradShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckPair(s, 2));
  WEIR_RETURN_IF_ERROR(CheckPair(s, 3));
  return OriginalSize(s);
}

// Of an op whose gradient is another op of the gradients and the images.
template <const char* op>
Status GradientIs(GradientContext& g) {
  g.set_input_grad(0,
                   g.Add(op, {g.grad(0), g.input(0)}, SameAttrs(g, {"align_corners", "half_pixel_centers"})));
  return OkStatus();
}
constexpr char kResizeBilinearGrad[] = "ResizeBilinearGrad";
constexpr char kResizeBicubicGrad[] = "ResizeBicubicGrad";

Status NearestNeighborGradient(GradientContext& g) {
  g.set_input_grad(0, g.Add("ResizeNearestNeighborGrad", {g.grad(0), SizeOfImages(g, g.input(0))},
                            SameAttrs(g, {"align_corners", "half_pixel_centers"})));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> ResizingOps() {
  return {
      {.name = "ResizeBilinear",
       .summary = "Resizes images: each pixel is interpolated linearly between four.",
       .infer_shapes = ResizedShape,
       .gradient = GradientIs<kResizeBilinearGrad>},
      {.name = "ResizeBilinearGrad",
       .summary = "Gives the gradient of ResizeBilinear.",
       .infer_shapes = OriginalSize,
       .gradient = NotDifferentiable},
      {.name = "ResizeNearestNeighbor",
       .summary = "Resizes images: each pixel is a copy of the nearest one.",
       .infer_shapes = ResizedShape,
       .gradient = NearestNeighborGradient},
      {.name = "ResizeNearestNeighborGrad",
       .summary = "Gives the gradient of ResizeNearestNeighbor.",
       .infer_shapes = ResizedShape,
       .gradient = RefusedGradient},
      {.name = "ResizeBicubic",
       .summary = "Resizes images: each pixel is interpolated by cubic functions between sixteen.",
       .infer_shapes = ResizedShape,
       .gradient = [](GradientContext& g) -> Status {
         // Images of other types get no gradient, as in TensorFlow.
         const DType dtype = g.input(0).dtype();
         if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return OkStatus();
         return GradientIs<kResizeBicubicGrad>(g);
       }},
      {.name = "ResizeBicubicGrad",
       .summary = "Gives the gradient of ResizeBicubic.",
       .infer_shapes = OriginalSize,
       .gradient = RefusedGradient},
      {.name = "ResizeArea",
       .summary = "Resizes images: each pixel is the mean of the area that it covers.",
       .infer_shapes = ResizedShape,
       .gradient = RefusedGradient},
      {.name = "ScaleAndTranslate",
       .summary = "Scales and moves images, and samples them through a kernel.",
       .infer_shapes = ScaledShape,
       .gradient = [](GradientContext& g) -> Status {
         if (g.input(0).dtype() != DType::kFloat32) {
           return absl::UnimplementedError(
               "ScaleAndTranslate has a gradient for images of float only, as in TensorFlow");
         }
         g.set_input_grad(0, g.Add("ScaleAndTranslateGrad", {g.grad(0), g.input(0), g.input(2), g.input(3)},
                                   SameAttrs(g, {"kernel_type", "antialias"})));
         return OkStatus();
       }},
      {.name = "ScaleAndTranslateGrad",
       .summary = "Gives the gradient of ScaleAndTranslate.",
       .infer_shapes = ScaledGradShape,
       .gradient = RefusedGradient},
  };
}

}  // namespace weir
