// Ops that make vectors or work on them.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// A vector as long as the scalar input `index` says, at least `least`.
Status VectorOfLength(ShapeInference& s, int index, int64_t least) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> length, ScalarInput(s, index));
  if (length && *length < least) {
    return InvalidArgumentError(StrCat(s.input_name(index), " is ", *length, ", must be at least ", least));
  }
  s.set_output(0, PartialShape({length.value_or(kUnknown)}));
  return OkStatus();
}

Status NearestShape(ShapeInference& s) {
  for (int i = 0; i < 3; ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, i < 2 ? 2 : 0).status());
  const int64_t rows = s.input(0).has_rank() ? s.input(0).dim(0) : kUnknown;
  for (int i = 0; i < 2; ++i) s.set_output(i, PartialShape({rows, kUnknown}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> VectorsOps() {
  return {
      {.name = "Bincount",
       .summary = "Counts how often 0, 1, 2... occur, or adds up weights where they do.",
       .infer_shapes = [](ShapeInference& s) -> Status { return VectorOfLength(s, 1, 0); },
       .gradient = NotDifferentiable},
      {.name = "LinSpace",
       .summary = "Gives num numbers from start to stop at equal distances.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         for (int i = 0; i < 2; ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
         return VectorOfLength(s, 2, 1);
       },
       .gradient = NotDifferentiable},
      {.name = "Cross",
       .summary = "Gives the cross products of vectors of 3 elements, along the last axis.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape shape, MergeInputs(s, 0, 2));
         const bool has_three =
             !shape.has_rank() || (shape.rank() > 0 && (shape.dim(shape.rank() - 1) == kUnknown ||
                                                        shape.dim(shape.rank() - 1) == 3));
         if (!has_three) {
           return InvalidArgumentError(
               StrCat("the last dimension must have 3 elements, the inputs are ", shape.ToString()));
         }
         s.set_output(0, std::move(shape));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("Cross", {g.input(1), g.grad(0)}));
         g.set_input_grad(1, g.Add("Cross", {g.grad(0), g.input(0)}));
         return OkStatus();
       }},
      {.name = "NearestNeighbors",
       .summary = "Gives the k centers that are nearest to each point, and the squares of their distances.",
       .infer_shapes = NearestShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
