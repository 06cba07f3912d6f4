// Distances between sequences of sparse tensors.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The larger one of the shapes without their last dimension.
Status EditDistanceShape(ShapeInference& s) {
  for (const int first : {0, 3}) {
    WEIR_RETURN_IF_ERROR(s.WithRank(first, 2).status());
    WEIR_RETURN_IF_ERROR(s.WithRank(first + 1, 1).status());
    WEIR_RETURN_IF_ERROR(s.WithRank(first + 2, 1).status());
  }
  const auto hypotheses = s.input_integers(2), truths = s.input_integers(5);
  const PartialShape &h = s.input(2), &t = s.input(5);
  if (h.has_rank() && t.has_rank() && !s.MergeDims(h.dim(0), t.dim(0)).ok()) {
    return InvalidArgumentError(
        StrCat("Expected truth and hypothesis to have matching ranks, but their shapes are: ", t.ToString(),
               " and ", h.ToString()));
  }
  if (!hypotheses || !truths) return OkStatus();
  if (truths->size() < 2) {
    return InvalidArgumentError(
        StrCat("Input SparseTensors must have rank at least 2, but truth_shape rank is: ", truths->size()));
  }
  std::vector<int64_t> dims;
  for (size_t i = 0; i + 1 < truths->size(); ++i) {
    dims.push_back(std::max((*hypotheses)[i], (*truths)[i]));
    if (dims.back() < 0) return InvalidArgumentError(StrCat("Dimension ", dims.back(), " must be >= 0"));
  }
  return SetOutputDims(s, 0, dims);
}

}  // namespace

std::vector<OpDef> EditDistanceOps() {
  return {{.name = "EditDistance",
           .summary =
               "Gives the numbers of changes that make sequences of one sparse tensor those of another, "
               "divided by their lengths if asked.",
           .infer_shapes = EditDistanceShape,
           .gradient = NotDifferentiable}};
}

}  // namespace weir
