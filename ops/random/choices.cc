// Random choices: of an order, of classes.
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/random/seeds.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// [batch_size, num_samples]
Status SamplesShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape logits, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> num_samples, ScalarInput(s, 1));
  if (num_samples && *num_samples < 0) {
    return InvalidArgumentError(StrCat("num_samples must not be negative, is ", *num_samples));
  }
  return SetOutputDims(s, 0, {logits.dim(0), num_samples.value_or(kUnknown)});
}

}  // namespace

std::vector<OpDef> ChoicesOps() {
  return {
      {.name = "RandomShuffle",
       .summary = "Gives the slices along dimension 0 in random order.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      {.name = "Multinomial",
       .summary =
           "Draws num_samples classes for each row of logits, which are logarithms of probabilities up to a "
           "constant.",
       .infer_shapes = SamplesShape,
       .gradient = NotDifferentiable},
      {.name = "StatelessMultinomial",
       .summary = "Like Multinomial; gives the same classes for the same seed.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(CheckSeed(s, 2));
         return SamplesShape(s);
       },
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
