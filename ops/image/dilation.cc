// Grayscale morphology.
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/image/image_gradients.h"
#include "ops/image/image_shapes.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status CheckPerAxis(ShapeInference& s, const char* name) {
  const auto& values = s.attr<std::vector<int64_t>>(name);
  if (values.size() == 4 && values[0] == 1 && values[3] == 1) return OkStatus();
  return InvalidArgumentError(StrCat("attr ", name, " must have 4 elements, 1 for batch and channels, is [",
                                     absl::StrJoin(values, ","), "]"));
}

// Depths must agree. Sets the output of Dilation2D.
Status DilatedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckPerAxis(s, "strides"));
  WEIR_RETURN_IF_ERROR(CheckPerAxis(s, "rates"));
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 4).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 3).status());
  std::vector<int64_t> dims = {InputDim(s, 0, 0)};
  for (int i = 1; i <= 2; ++i) {
    const int64_t size = InputDim(s, 0, i), window = InputDim(s, 1, i - 1);
    WEIR_ASSIGN_OR_RETURN(
        const WindowExtent extent,
        SlideWindow(size, window, s.attr<std::vector<int64_t>>("strides")[i],
                    s.attr<std::vector<int64_t>>("rates")[i], s.attr<std::string>("padding")));
    dims.push_back(extent.size);
  }
  const auto depth = s.MergeDims(InputDim(s, 0, 3), InputDim(s, 1, 2));
  if (!depth.ok()) {
    return InvalidArgumentError(
        StrCat("input and filter must have the same depth: ", InputDim(s, 0, 3), " vs ", InputDim(s, 1, 2)));
  }
  dims.push_back(*depth);
  return SetOutputDims(s, 0, dims);
}

// output 0 has the shape of input `index`.
template <int index>
Status LikeInput(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(index, index == 0 ? 4 : 3).status());
  s.set_output(0, s.input(index));
  return OkStatus();
}

Status DilationGradient(GradientContext& g) {
  const AttrMap attrs = SameAttrs(g, {"strides", "rates", "padding"});
  g.set_input_grad(0, g.Add("Dilation2DBackpropInput", {g.input(0), g.input(1), g.grad(0)}, attrs));
  g.set_input_grad(1, g.Add("Dilation2DBackpropFilter", {g.input(0), g.input(1), g.grad(0)}, attrs));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> DilationOps() {
  return {
      {.name = "Dilation2D",
       .summary = "Gives the largest sum of filter and image over a window that slides over it.",
       .infer_shapes = DilatedShape,
       .gradient = DilationGradient},
      {.name = "Dilation2DBackpropInput",
       .summary = "Gives the gradient of Dilation2D for the image.",
       .infer_shapes = LikeInput<0>,
       .gradient = RefusedGradient},
      {.name = "Dilation2DBackpropFilter",
       .summary = "Gives the gradient of Dilation2D for the filter.",
       .infer_shapes = LikeInput<1>,
       .gradient = RefusedGradient},
  };
}

}  // namespace weir
