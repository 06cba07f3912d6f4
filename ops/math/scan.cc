// Sums and products of the elements up to each element.
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

Status ScanShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ScalarInput(s, 1));
  if (axis && s.input(0).has_rank()) {
    WEIR_RETURN_IF_ERROR(NormalizeAxis(*axis, s.input(0).rank(), "axis").status());
  }
  s.set_output(0, s.input(0));
  return OkStatus();
}

// The sum of what comes after instead of before, or the other way round.
Output SumBackwards(GradientContext& g, Output gradient) {
  const AttrMap attrs = {{"exclusive", g.attr<bool>("exclusive")}, {"reverse", !g.attr<bool>("reverse")}};
  return g.Add("Cumsum", {gradient, g.input(1)}, attrs);
}

}  // namespace

std::vector<OpDef> ScanOps() {
  return {
      {.name = "Cumsum",
       .summary = "Gives the sums of the elements up to each one along an axis.",
       .infer_shapes = ScanShape,
       .gradient = [](GradientContext& g) -> Status {
         WEIR_RETURN_IF_ERROR(CheckReal(g));
         g.set_input_grad(0, SumBackwards(g, g.grad(0)));
         return OkStatus();
       }},
      {.name = "Cumprod",
       .summary = "Gives the products of the elements up to each one along an axis.",
       .infer_shapes = ScanShape,
       .gradient = [](GradientContext& g) -> Status {
         WEIR_RETURN_IF_ERROR(CheckReal(g));
         // Where x is 0 the gradient is given as 0, as in TensorFlow.
         const Output sums = SumBackwards(g, Mul(g, g.output(0), g.grad(0)));
         g.set_input_grad(0, g.Add("DivNoNan", {sums, g.input(0)}));
         return OkStatus();
       }},
  };
}

}  // namespace weir
