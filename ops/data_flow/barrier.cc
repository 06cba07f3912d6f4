// Barriers: tuples whose components come one by one under a key.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status HandleShape(ShapeInference& s) {
  s.set_output(0, PartialShape({2}));
  return OkStatus();
}

Status CheckHandle(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape handle, s.WithRank(0, 1));
  if (s.MergeDims(handle.dim(0), 2).ok()) return OkStatus();
  return InvalidArgumentError(StrCat("the handle must be a container and a name, is ", handle.ToString()));
}

Status InsertShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckHandle(s));
  WEIR_ASSIGN_OR_RETURN(const PartialShape keys, s.WithRank(1, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape values, s.WithRankAtLeast(2, 1));
  if (values.rank() < 0) return OkStatus();
  return s.MergeDims(keys.dim(0), values.dim(0)).status();
}

Status TakenShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckHandle(s));
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  s.set_output(0, PartialShape({kUnknown}));
  s.set_output(1, PartialShape({kUnknown}));
  for (int i = 2; i < s.num_outputs(); ++i) s.set_output(i, PartialShape());
  return OkStatus();
}

Status CountShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckHandle(s));
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, PartialShape::OfRank(0));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> BarrierOps() {
  return {
      WithoutGradient("Barrier",
                      "Gives the handle of a barrier: tuples whose components come one by one under a key.",
                      HandleShape),
      WithoutGradient("BarrierInsertMany", "Adds one component to the tuples of the keys.", InsertShape),
      WithoutGradient("BarrierTakeMany", "Waits for num_elements whole tuples and takes them.", TakenShape),
      WithoutGradient("BarrierClose", "Closes a barrier: no new key may come.", CountShape),
      WithoutGradient("BarrierReadySize", "Gives the number of whole tuples.", CountShape),
      WithoutGradient("BarrierIncompleteSize", "Gives the number of tuples that are not whole.", CountShape),
  };
}

}  // namespace weir
