// Sparse tensors written into strings or variants, or kept in a map under a number.
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

Status CheckSparse(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape values, s.WithRank(1, 1));
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRank(2, 1));
  WEIR_RETURN_IF_ERROR(s.MergeDims(indices.dim(0), values.dim(0)).status());
  return s.MergeDims(indices.dim(1), shape.dim(0)).status();
}

template <int... dims>
Status OfSparse(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSparse(s));
  s.set_output(0, PartialShape({dims...}));
  return OkStatus();
}

Status SparseOutputs(ShapeInference& s) {
  s.set_output(0, PartialShape({kUnknown, kUnknown}));
  s.set_output(1, PartialShape({kUnknown}));
  s.set_output(2, PartialShape({kUnknown}));
  return OkStatus();
}

Status DeserializeShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape serialized, s.WithRankAtLeast(0, 1));
  if (serialized.has_rank()) {
    const int64_t last = serialized.dim(serialized.rank() - 1);
    if (last != kUnknown && last != 3) {
      return InvalidArgumentError(
          StrCat("Serialized sparse should have 3 as the last dimension but received shape ",
                 serialized.ToString()));
    }
  }
  return SparseOutputs(s);
}

Status TakeShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 1).status());
  return SparseOutputs(s);
}

}  // namespace

std::vector<OpDef> SerializedSparseOps() {
  return {
      WithoutGradient("SerializeSparse", "Writes a sparse tensor into three strings or variants.",
                      OfSparse<3>),
      WithoutGradient("SerializeManySparse",
                      "Writes each row of a sparse tensor into three strings or variants.",
                      OfSparse<kUnknown, 3>),
      WithoutGradient("DeserializeSparse", "Reads sparse tensors from strings or variants, and stacks them.",
                      DeserializeShape),
      WithoutGradient("AddSparseToTensorsMap", "Keeps a sparse tensor in a map, and gives its number.",
                      OfSparse<>),
      WithoutGradient("AddManySparseToTensorsMap",
                      "Keeps each row of a sparse tensor in a map, and gives their numbers.",
                      OfSparse<kUnknown>),
      WithoutGradient("TakeManySparseFromTensorsMap", "Takes sparse tensors out of a map, and stacks them.",
                      TakeShape),
  };
}

}  // namespace weir
