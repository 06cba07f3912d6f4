// Collectives: what the replicas of a model, each with a graph of its own, compute together.
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

Status SameAsAttr(ShapeInference& s) {
  s.set_output(0, s.attr<PartialShape>("shape"));
  return OkStatus();
}

// Dimension 0 is that of all replicas together.
Status GatherShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRankAtLeast(0, 1).status());
  return SameAsAttr(s);
}

Status SendShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.input(0).MergeWith(s.attr<PartialShape>("shape")).status());
  return SameAsAttr(s);
}

}  // namespace

std::vector<OpDef> CollectivesOps() {
  return {
      {.name = "CollectiveReduce",
       .summary = "Gives the reduction of the inputs of all replicas, the same on each; final_op Div divides "
                  "it by group_size.",
       .infer_shapes = UnchangedShape,
       .gradient = GradientMissing},
      {.name = "CollectiveGather",
       .summary = "Joins the inputs of all replicas along dimension 0, in the order of their ranks.",
       .infer_shapes = GatherShape,
       .gradient = GradientMissing},
      {.name = "CollectiveBcastSend",
       .summary = "Gives the input, also to every CollectiveBcastRecv of the same key on other replicas.",
       .infer_shapes = SendShape,
       .gradient = GradientMissing},
      {.name = "CollectiveBcastRecv",
       .summary = "Gives the input of the replica that runs CollectiveBcastSend with the same key.",
       .infer_shapes = SameAsAttr,
       .gradient = GradientMissing},
  };
}

}  // namespace weir
