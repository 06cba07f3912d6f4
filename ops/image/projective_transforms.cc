// Images seen through projections: rotated, sheared, in perspective.
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

Status TransformedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape transforms, s.WithRank(1, 2));
  WEIR_RETURN_IF_ERROR(s.MergeDims(transforms.dim(1), 8).status());
  WEIR_ASSIGN_OR_RETURN(const ImageSize size, SizeInput(s, 2));
  if (s.num_inputs() > 3) WEIR_RETURN_IF_ERROR(s.WithRank(3, 0).status());
  return SetOutputDims(s, 0, {InputDim(s, 0, 0), size.height, size.width, InputDim(s, 0, 3)});
}

// The transforms [n, 8] that undo these: inverses of the matrices [[a0, a1, a2], [b0, b1, b2], [c0, c1, 1]],
// divided by their last elements.
Output Inverted(GradientContext& g, Output transforms) {
  const Output rows = g.Add("Reshape", {transforms, g.Integers({-1, 8})});
  const Output ones = g.Add("OnesLike", {g.Add("Slice", {rows, g.Integers({0, 0}), g.Integers({-1, 1})})});
  const Output elements = g.Add("ConcatV2", {std::vector<Output>{rows, ones}, g.Constant(DType::kInt32, 1)});
  const Output matrices = g.Add("Reshape", {elements, g.Integers({-1, 3, 3})});
  const Output inverses = g.Add("Reshape", {g.Add("MatrixInverse", {matrices}), g.Integers({-1, 9})});
  const Output last = g.Add("Slice", {inverses, g.Integers({0, 8}), g.Integers({-1, 1})});
  return g.Add("Slice", {g.Add("RealDiv", {inverses, last}), g.Integers({0, 0}), g.Integers({-1, 8})});
}

// TensorFlow's, which is not the derivative: the gradients seen through the inverse projection.
Status TransformGradient(GradientContext& g) {
  if (g.input(0).dtype() == DType::kBfloat16) {
    return absl::UnimplementedError(
        StrCat(g.node().op_name(), " has no gradient for images of bfloat16, as in TensorFlow"));
  }
  std::vector<InputArg> inputs = {g.grad(0), Inverted(g, g.input(1)), SizeOfImages(g, g.input(0))};
  if (g.node().num_inputs() > 3) inputs.emplace_back(g.Constant(DType::kFloat32, 0));
  g.set_input_grad(0, g.Add(g.node().op_name(), inputs, SameAttrs(g, {"interpolation", "fill_mode"})));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> ProjectiveTransformsOps() {
  return {
      {.name = "ImageProjectiveTransformV2",
       .summary = "Gives images seen through projections, with zeros where there is nothing of them.",
       .infer_shapes = TransformedShape,
       .gradient = TransformGradient},
      {.name = "ImageProjectiveTransformV3",
       .summary = "Gives images seen through projections, with fill_value where there is nothing of them.",
       .infer_shapes = TransformedShape,
       .gradient = TransformGradient},
  };
}

}  // namespace weir
