// Layers of quantized numbers. Their ranges are inputs: two scalars, the ends.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/nn/image_windows.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// Inputs from `first` on are ends of ranges; outputs 1 and 2 too.
Status Ranges(ShapeInference& s, int first) {
  for (int i = first; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  for (int i = 1; i < s.num_outputs(); ++i) s.set_output(i, PartialShape(Shape()));
  return OkStatus();
}

// Images over which windows of that size slide, `channels` of them in the output.
Status SetSlidOver(ShapeInference& s, const PartialShape& images, const std::vector<int64_t>& window,
                   int64_t channels) {
  const std::vector<int64_t> dilations(4, 1);
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> spatial,
                        SlideOverImage(s.attrs(), images, window, dilations));
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, ImageShape(s.attrs(), images.dim(0), spatial, channels));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Status ConvolutionShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(Ranges(s, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
  WEIR_ASSIGN_OR_RETURN(const PartialShape filter, s.WithRank(1, 4));
  if (!s.MergeDims(input.dim(3), filter.dim(2)).ok()) {
    return InvalidArgumentError(
        StrCat("channels differ: input is ", input.ToString(), ", filter is ", filter.ToString()));
  }
  return SetSlidOver(s, input, {filter.dim(0), filter.dim(1)}, filter.dim(3));
}

Status PoolShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(Ranges(s, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> ksize, PerAxis(s.attrs(), "ksize"));
  for (const int axis : {1, 2}) {
    // -1 would be a size that is not known.
    if (ksize[axis] < 1) return InvalidArgumentError(StrCat("no window has size ", ksize[axis]));
  }
  return SetSlidOver(s, input, {ksize[1], ksize[2]}, input.dim(3));
}

Status BiasShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(Ranges(s, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRankAtLeast(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape bias, s.WithRank(1, 1));
  s.set_output(0, input);
  if (!input.has_rank() || s.MergeDims(input.dim(input.rank() - 1), bias.dim(0)).ok()) return OkStatus();
  return InvalidArgumentError(
      StrCat("bias must have an element for each channel of ", input.ToString(), ", is ", bias.ToString()));
}

Status ActivationShape(ShapeInference& s) {
  s.set_output(0, s.input(0));
  return Ranges(s, 1);
}

}  // namespace

std::vector<OpDef> QuantizedLayersOps() {
  return {
      {.name = "QuantizedConv2D",
       .summary = "Convolves images of quantized numbers with a filter of such.",
       .infer_shapes = ConvolutionShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizedBiasAdd",
       .summary = "Adds a vector of quantized numbers to each row of such.",
       .infer_shapes = BiasShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizedRelu",
       .summary = "Gives max(features, 0) of quantized numbers.",
       .infer_shapes = ActivationShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizedRelu6",
       .summary = "Gives min(max(features, 0), 6) of quantized numbers.",
       .infer_shapes = ActivationShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizedMaxPool",
       .summary = "Gives the largest quantized number of every window of an image, channel by channel.",
       .infer_shapes = PoolShape,
       .gradient = NotDifferentiable},
      {.name = "QuantizedAvgPool",
       .summary = "Gives the mean of every window of an image of quantized numbers, channel by channel.",
       .infer_shapes = PoolShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
