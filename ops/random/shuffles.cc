// Orders that are functions of seeds.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status KeyedShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape key, s.WithRank(1, 1));
  if (!s.MergeDims(key.dim(0), 1).ok()) {
    return InvalidArgumentError(StrCat("key must be [1], is ", key.ToString()));
  }
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(3, 0).status());
  s.set_output(0, s.input(0));
  return OkStatus();
}

// A scalar when all are, otherwise a vector.
Status IndicesShape(ShapeInference& s) {
  const PartialShape &indices = s.input(0), &seeds = s.input(1), &limits = s.input(2);
  if (indices.rank() > 1 || limits.rank() > 1 || seeds.rank() == 0 || seeds.rank() > 2) {
    return InvalidArgumentError(
        StrCat("index and max_index must be scalars or vectors, and seed [3] or [n,3]; are ",
               indices.ToString(), ", ", limits.ToString(), " and ", seeds.ToString()));
  }
  if (indices.rank() < 0 || limits.rank() < 0 || seeds.rank() < 0) {
    s.set_output(0, PartialShape());
    return OkStatus();
  }
  int64_t size = kUnknown;
  const auto add = [&](bool is_vector, const PartialShape& shape) -> Status {
    if (!is_vector) return OkStatus();
    WEIR_ASSIGN_OR_RETURN(size, s.MergeDims(size, shape.dim(0)));
    return OkStatus();
  };
  WEIR_RETURN_IF_ERROR(add(indices.rank() == 1, indices));
  WEIR_RETURN_IF_ERROR(add(limits.rank() == 1, limits));
  WEIR_RETURN_IF_ERROR(add(seeds.rank() == 2, seeds));
  const bool is_scalar = indices.rank() == 0 && limits.rank() == 0 && seeds.rank() == 1;
  s.set_output(0, is_scalar ? PartialShape::OfRank(0) : PartialShape({size}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> ShufflesOps() {
  return {
      {.name = "StatelessShuffle",
       .summary = "Gives the slices along dimension 0 in an order that key and counter say.",
       .infer_shapes = KeyedShape,
       .gradient = NotDifferentiable},
      {.name = "RandomIndexShuffle",
       .summary = "Gives the place of each index in an order of [0, max_index] that the seed says.",
       .infer_shapes = IndicesShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
