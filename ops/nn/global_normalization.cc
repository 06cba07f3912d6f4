// The batch normalization of graphs older than FusedBatchNorm, with moments that are given.
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The channels of image `t`, input 0, and of the vectors behind it, [1, end).
absl::StatusOr<int64_t> Channels(ShapeInference& s, int end) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape t, s.WithRank(0, 4));
  int64_t channels = t.dim(3);
  for (int i = 1; i < end; ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape vector, s.WithRank(i, 1));
    const absl::StatusOr<int64_t> merged = s.MergeDims(channels, vector.dim(0));
    if (!merged.ok()) {
      return InvalidArgumentError(StrCat(s.input_name(i), " must have an element for each channel: t is ",
                                         t.ToString(), ", ", s.input_name(i), " is ", vector.ToString()));
    }
    channels = *merged;
  }
  return channels;
}

// An image of that many channels.
absl::StatusOr<PartialShape> ImageOf(const PartialShape& t, int64_t channels) {
  std::vector<int64_t> dims = {t.dim(0), t.dim(1), t.dim(2), channels};
  return PartialShape::FromDims(dims);
}

Status NormalizedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const int64_t channels, Channels(s, 5));
  WEIR_ASSIGN_OR_RETURN(const PartialShape t, s.WithRank(0, 4));
  WEIR_ASSIGN_OR_RETURN(const PartialShape image, ImageOf(t, channels));
  s.set_output(0, image);
  return OkStatus();
}

Status GradientsShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const int64_t channels, Channels(s, 4));
  WEIR_ASSIGN_OR_RETURN(const PartialShape t, s.WithRank(0, 4));
  WEIR_ASSIGN_OR_RETURN(const PartialShape normalized, ImageOf(t, channels));
  absl::StatusOr<PartialShape> image = normalized.MergeWith(s.input(4));
  if (!image.ok()) {
    return InvalidArgumentError(
        StrCat("backprop must have the shape of t, ", t.ToString(), ", is ", s.input(4).ToString()));
  }
  const int64_t all = image->dim(3);
  s.set_output(0, *std::move(image));
  for (int i = 1; i < 5; ++i) s.set_output(i, PartialShape({all}));
  return OkStatus();
}

Status NormalizedGradient(GradientContext& g) {
  Node* const gradients = g.graph().AddNode(
      "BatchNormWithGlobalNormalizationGrad", {g.input(0), g.input(1), g.input(2), g.input(4), g.grad(0)},
      {{"variance_epsilon", g.attr<float>("variance_epsilon")},
       {"scale_after_normalization", g.attr<bool>("scale_after_normalization")}},
      "", g.node().source());
  if (gradients == nullptr) return OkStatus();  // the builder keeps the error
  for (int i = 0; i < 5; ++i) g.set_input_grad(i, gradients->output(i));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> GlobalNormalizationOps() {
  return {
      {.name = "BatchNormWithGlobalNormalization",
       .summary = "Gives images with the mean m and the variance v of each channel taken out, times gamma if "
                  "scale_after_normalization, plus beta.",
       .infer_shapes = NormalizedShape,
       .gradient = NormalizedGradient},
      {.name = "BatchNormWithGlobalNormalizationGrad",
       .summary = "Gives the gradients of BatchNormWithGlobalNormalization with respect to its inputs.",
       .infer_shapes = GradientsShape,
       .gradient = GradientMissing},
  };
}

}  // namespace weir
