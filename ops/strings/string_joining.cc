// Strings put together.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"
#include "ops/strings/string_op.h"

namespace weir {
namespace {

// Scalars go with every shape; the others must be equal.
Status JoinedShape(ShapeInference& s) {
  PartialShape merged;
  bool is_scalar = true, knows_all_ranks = true;
  for (int i = 0; i < s.num_inputs(); ++i) {
    const PartialShape& input = s.input(i);
    if (!input.has_rank()) {
      knows_all_ranks = false;
    } else if (input.rank() > 0) {
      absl::StatusOr<PartialShape> both = merged.MergeWith(input);
      if (!both.ok()) {
        return InvalidArgumentError(
            StrCat("Input shapes do not match: ", merged.ToString(), " vs. ", input.ToString()));
      }
      merged = *std::move(both);
      is_scalar = false;
    }
  }
  if (!is_scalar) {
    s.set_output(0, std::move(merged));
  } else if (knows_all_ranks) {
    s.set_output(0, PartialShape({}));
  }
  return OkStatus();
}

// [num_segments] and what inputs has beyond the dimensions of segment_ids.
Status SegmentJoinShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> count, ScalarInput(s, 2));
  if (count && *count < 0) {
    return InvalidArgumentError(StrCat("Number of segments must be non-negative but got ", *count));
  }
  const PartialShape& inputs = s.input(0);
  const PartialShape& ids = s.input(1);
  if (!inputs.has_rank() || !ids.has_rank()) return OkStatus();
  std::vector<int64_t> dims = {count.value_or(kUnknown)};
  for (int i = ids.rank(); i < inputs.rank(); ++i) dims.push_back(inputs.dim(i));
  return SetOutputDims(s, 0, dims);
}

}  // namespace

std::vector<OpDef> StringJoiningOps() {
  return {
      StringOp("StringJoin",
               "Joins strings element by element, with `separator` between; scalars go with every "
               "element.",
               JoinedShape),
      StringOp(
          "ReduceJoin",
          "Joins the strings along the axes in reduction_indices, of which the first one varies fastest.",
          ReductionShape),
      StringOp(
          "UnsortedSegmentJoin",
          "Joins the slices that have the same segment id, element by element, with `separator` between; "
          "empty strings where there are none.",
          SegmentJoinShape),
  };
}

}  // namespace weir
