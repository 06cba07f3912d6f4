// Pooling of images by windows whose sizes are no whole numbers in the mean.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status PoolShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, 4));
  const auto& ratios = s.attr<std::vector<float>>("pooling_ratio");
  if (ratios.size() != 4) {
    return InvalidArgumentError(StrCat("pooling_ratio field must specify 4 dimensions, has ", ratios.size()));
  }
  std::vector<int64_t> dims(4, kUnknown);
  for (int i = 0; i < 4; ++i) {
    if (!(ratios[i] >= 1))
      return InvalidArgumentError(StrCat("pooling_ratio cannot be smaller than 1, got: ", ratios[i]));
    if (!input.has_rank() || input.dim(i) == kUnknown) continue;
    // A float that stands for a long axis may be more than it is long.
    const float quotient = static_cast<float>(input.dim(i)) / ratios[i];
    dims[i] = std::min(static_cast<int64_t>(std::floor(quotient)), input.dim(i));
    if (dims[i] > 0) continue;
    return InvalidArgumentError(StrCat("Pooling ratio is higher than input dimension size for dimension ", i,
                                       ". Input dim size: ", input.dim(i), " pooling ratio: ", ratios[i]));
  }
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 0, dims));
  for (const int i : {1, 2}) s.set_output(i, PartialShape({AddDims(dims[i], 1)}));
  return OkStatus();
}

Status MaxGradShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape input, s.WithRank(0, 4));
  s.set_output(0, std::move(input));
  return OkStatus();
}

Status AvgGradShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape input, RequestedShape(s, 0));
  if (!input.has_rank()) input = PartialShape::OfRank(4);
  if (input.rank() != 4) {
    return InvalidArgumentError(
        StrCat("orig_input_tensor_shape must have 4 elements, is ", input.ToString()));
  }
  s.set_output(0, std::move(input));
  return OkStatus();
}

AttrMap Overlap(GradientContext& g) { return {{"overlapping", g.attr<bool>("overlapping")}}; }

Status MaxGradient(GradientContext& g) {
  if (g.grad(0).node == nullptr) return OkStatus();
  g.set_input_grad(0, g.Add("FractionalMaxPoolGrad",
                            {g.input(0), g.output(0), g.grad(0), g.output(1), g.output(2)}, Overlap(g)));
  return OkStatus();
}

Status AvgGradient(GradientContext& g) {
  if (g.grad(0).node == nullptr) return OkStatus();
  const Output shape = g.Add("Shape", {g.input(0)}, {{"out_type", DType::kInt64}});
  g.set_input_grad(0,
                   g.Add("FractionalAvgPoolGrad", {shape, g.grad(0), g.output(1), g.output(2)}, Overlap(g)));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> FractionalPoolingOps() {
  return {
      {.name = "FractionalMaxPool",
       .summary = "Gives the largest elements of windows of an image whose sizes vary, and where they begin.",
       .infer_shapes = PoolShape,
       .gradient = MaxGradient},
      {.name = "FractionalAvgPool",
       .summary = "Gives the means of windows of an image whose sizes vary, and where they begin.",
       .infer_shapes = PoolShape,
       .gradient = AvgGradient},
      {.name = "FractionalMaxPoolGrad",
       .summary = "Gives the gradient of FractionalMaxPool with respect to its input.",
       .infer_shapes = MaxGradShape,
       .gradient = GradientMissing},
      {.name = "FractionalAvgPoolGrad",
       .summary = "Gives the gradient of FractionalAvgPool with respect to its input.",
       .infer_shapes = AvgGradShape,
       .gradient = GradientMissing},
  };
}

}  // namespace weir
