// Strings put together.
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
  };
}

}  // namespace weir
