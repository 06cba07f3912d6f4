// Boxes around objects: drawing them, choosing among them, cutting around them.
#include <algorithm>
#include <optional>
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

Status DrawnShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape images, s.WithRank(0, 4));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 3).status());
  if (s.num_inputs() == 3) WEIR_RETURN_IF_ERROR(s.WithRank(2, 2).status());
  s.set_output(0, images);
  return OkStatus();
}

// Scalars from input `first` on.
Status CheckScalars(ShapeInference& s, int first) {
  for (int i = first; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

Status CheckScores(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape boxes, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape scores, s.WithRank(1, 1));
  return s.MergeDims(boxes.dim(0), scores.dim(0)).status();
}

// Outputs 0 to num_lists - 1 are chosen boxes; what follows them is a number.
Status SuppressedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckScores(s));
  WEIR_RETURN_IF_ERROR(s.MergeDims(InputDim(s, 0, 1), 4).status());
  WEIR_RETURN_IF_ERROR(CheckScalars(s, 2));
  int64_t count = kUnknown;
  const auto pads = s.attrs().find("pad_to_max_output_size");
  if (pads != s.attrs().end() && pads->second.get<bool>()) {
    WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> most, ScalarInput(s, 2));
    if (most && *most < 0) {
      return InvalidArgumentError(StrCat("output size must be non-negative, is ", *most));
    }
    count = most.value_or(kUnknown);
  }
  const bool counts = pads != s.attrs().end();
  for (int i = 0; i < s.num_outputs(); ++i) {
    if (counts && i + 1 == s.num_outputs()) {
      s.set_output(i, PartialShape({}));
    } else {
      s.set_output(i, PartialShape({count}));
    }
  }
  return OkStatus();
}

Status OverlapsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckScores(s));
  WEIR_RETURN_IF_ERROR(s.MergeDims(InputDim(s, 0, 0), InputDim(s, 0, 1)).status());
  WEIR_RETURN_IF_ERROR(CheckScalars(s, 2));
  s.set_output(0, PartialShape({kUnknown}));
  return OkStatus();
}

// boxes [batch, n, 1 or classes, 4], scores [batch, n, classes], four scalars.
Status CombinedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape boxes, s.WithRank(0, 4));
  WEIR_ASSIGN_OR_RETURN(const PartialShape scores, s.WithRank(1, 3));
  WEIR_ASSIGN_OR_RETURN(const int64_t batch, s.MergeDims(boxes.dim(0), scores.dim(0)));
  WEIR_RETURN_IF_ERROR(s.MergeDims(boxes.dim(1), scores.dim(1)).status());
  WEIR_RETURN_IF_ERROR(s.MergeDims(boxes.dim(3), 4).status());
  WEIR_RETURN_IF_ERROR(CheckScalars(s, 2));
  if (boxes.dim(2) > 1 && scores.dim(2) != kUnknown && boxes.dim(2) != scores.dim(2)) {
    return InvalidArgumentError(StrCat("third dimension of boxes must be 1 or the number of classes, is ",
                                       boxes.dim(2), " with ", scores.dim(2), " classes"));
  }
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> per_class, ScalarInput(s, 2));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> total, ScalarInput(s, 3));
  int64_t count = total.value_or(kUnknown);
  if (count <= 0 || (per_class && *per_class <= 0)) count = kUnknown;  // a step says so
  if (s.attr<bool>("pad_per_class")) {
    const int64_t most = per_class && *per_class > 0 ? MultiplyDims(*per_class, scores.dim(2)) : kUnknown;
    count = count == kUnknown || most == kUnknown ? kUnknown : std::min(count, most);
  }
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 0, {batch, count, 4}));
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 1, {batch, count}));
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 2, {batch, count}));
  return SetOutputDims(s, 3, {batch});
}

Status DistortedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape size, s.WithRank(0, 1));
  WEIR_RETURN_IF_ERROR(s.MergeDims(size.dim(0), 3).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape boxes, s.WithRank(1, 3));
  WEIR_RETURN_IF_ERROR(s.MergeDims(boxes.dim(2), 4).status());
  if (s.num_inputs() > 2) WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
  if (s.num_inputs() > 3) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape seed, s.WithRank(3, 1));
    WEIR_RETURN_IF_ERROR(s.MergeDims(seed.dim(0), 2).status());
  }
  s.set_output(0, PartialShape({3}));
  s.set_output(1, PartialShape({3}));
  s.set_output(2, PartialShape({1, 1, 4}));
  return OkStatus();
}

OpDef Suppression(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = SuppressedShape,
          .gradient = gradient};
}

}  // namespace

std::vector<OpDef> BoxesOps() {
  return {
      {.name = "DrawBoundingBoxes",
       .summary = "Draws the outlines of boxes into images, in ten colors in turn.",
       .infer_shapes = DrawnShape,
       .gradient = NotDifferentiable},
      {.name = "DrawBoundingBoxesV2",
       .summary = "Draws the outlines of boxes into images, in the given colors in turn.",
       .infer_shapes = DrawnShape,
       .gradient = RefusedGradient},
      Suppression("NonMaxSuppression",
                  "Chooses boxes by falling scores and leaves out those that overlap a chosen one.",
                  NotDifferentiable),
      Suppression("NonMaxSuppressionV2", "NonMaxSuppression with the largest overlap as an input.",
                  NotDifferentiable),
      Suppression("NonMaxSuppressionV3", "NonMaxSuppressionV2 of the boxes with more than a score.",
                  RefusedGradient),
      Suppression("NonMaxSuppressionV4", "NonMaxSuppressionV3, also padded with zeros to a fixed size.",
                  RefusedGradient),
      Suppression("NonMaxSuppressionV5",
                  "NonMaxSuppressionV4 that, with a sigma above 0, lowers the scores of overlapping boxes "
                  "instead of leaving them out.",
                  RefusedGradient),
      {.name = "NonMaxSuppressionWithOverlaps",
       .summary = "NonMaxSuppressionV3 with a matrix of overlaps instead of boxes.",
       .infer_shapes = OverlapsShape,
       .gradient = NotDifferentiable},
      {.name = "CombinedNonMaxSuppression",
       .summary = "Chooses boxes of each class, as NonMaxSuppressionV3, and the best of all classes.",
       .infer_shapes = CombinedShape,
       .gradient = RefusedGradient},
      {.name = "SampleDistortedBoundingBox",
       .summary = "Draws a part of an image that covers enough of one of its objects.",
       .infer_shapes = DistortedShape,
       .gradient = NotDifferentiable},
      {.name = "SampleDistortedBoundingBoxV2",
       .summary = "Draws a part of an image that covers enough of one of its objects.",
       .infer_shapes = DistortedShape,
       .gradient = NotDifferentiable},
      {.name = "StatelessSampleDistortedBoundingBox",
       .summary = "Draws a part of an image that covers enough of one of its objects, by a seed.",
       .infer_shapes = DistortedShape,
       .gradient = RefusedGradient},
  };
}

}  // namespace weir
