// Accumulators of gradients, which outlive steps: their handles, and what steps do with them.
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

OpDef Accumulator(std::string name, std::string summary, Status (*infer_shapes)(ShapeInference&)) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = NotDifferentiable};
}

// A container and a name.
Status NamesShape(ShapeInference& s) {
  s.set_output(0, PartialShape({2}));
  return OkStatus();
}

// Input 0 is a handle, those of `scalars` are scalars; the outputs are known in a step.
Status OperationShape(ShapeInference& s, int scalars) {
  if (s.input_type(0) == DType::kResource) {
    WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  } else {
    WEIR_ASSIGN_OR_RETURN(const PartialShape names, s.WithRank(0, 1));
    if (!names.IsCompatibleWith(PartialShape({2}))) {
      return InvalidArgumentError(StrCat("handle must be a container and a name, is ", names.ToString()));
    }
  }
  for (int i = 1; i <= scalars; ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  return OkStatus();
}

Status StepShape(ShapeInference& s) { return OperationShape(s, 1); }

Status NumberShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OperationShape(s, 0));
  return ScalarShape(s);
}

Status RowsShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OperationShape(s, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(2, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape values, s.WithRankAtLeast(3, 1));
  WEIR_RETURN_IF_ERROR(s.WithRank(4, 1).status());
  if (!indices.has_rank() || !values.has_rank()) return OkStatus();
  return s.MergeDims(indices.dim(0), values.dim(0)).status();
}

}  // namespace

std::vector<OpDef> AccumulatorsOps() {
  std::vector<OpDef> ops = {
      Accumulator(
          "ConditionalAccumulator",
          "Gives the handle of an accumulator of dense gradients, which are taken when enough are there.",
          NamesShape),
      Accumulator(
          "SparseConditionalAccumulator",
          "Gives the handle of an accumulator of rows, which are taken when enough gradients are there.",
          NamesShape),
      Accumulator("ResourceConditionalAccumulator", "A ConditionalAccumulator whose handle is a resource.",
                  ScalarShape),
      Accumulator("SparseAccumulatorApplyGradient",
                  "Adds rows to an accumulator, unless they were computed before its global step.",
                  RowsShape),
      Accumulator(
          "SparseAccumulatorTakeGradient",
          "Waits for num_required gradients and takes the mean (or sum) of each row that any of them has.",
          StepShape),
  };
  for (const char* prefix : {"", "Resource"}) {
    ops.push_back(Accumulator(
        StrCat(prefix, "AccumulatorApplyGradient"),
        "Adds a gradient to an accumulator, unless it was computed before its global step.", StepShape));
    ops.push_back(
        Accumulator(StrCat(prefix, "AccumulatorTakeGradient"),
                    "Waits for num_required gradients, takes their mean (or sum) and adds one to the "
                    "accumulator's global step.",
                    StepShape));
    ops.push_back(Accumulator(StrCat(prefix, "AccumulatorNumAccumulated"),
                              "Gives how many gradients are there.", NumberShape));
    ops.push_back(Accumulator(StrCat(prefix, "AccumulatorSetGlobalStep"),
                              "Sets the global step below which gradients are dropped.", StepShape));
  }
  return ops;
}

}  // namespace weir
