// Ops that look values up in sorted rows.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status SearchShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape sorted, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape values, s.WithRank(1, 2));
  const absl::StatusOr<int64_t> rows = s.MergeDims(sorted.dim(0), values.dim(0));
  if (!rows.ok()) {
    return InvalidArgumentError(StrCat("sorted_inputs and values must have as many rows: sorted_inputs is ",
                                       sorted.ToString(), ", values is ", values.ToString()));
  }
  return SetOutputDims(s, 0, {*rows, values.dim(1)});
}

}  // namespace

std::vector<OpDef> SortedSearchOps() {
  return {
      {.name = "LowerBound",
       .summary = "Gives for each value the number of elements of its sorted row that are below it.",
       .infer_shapes = SearchShape,
       .gradient = NotDifferentiable},
      {.name = "UpperBound",
       .summary = "Gives for each value the number of elements of its sorted row that are not above it.",
       .infer_shapes = SearchShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
