// Softmax and its logarithm, of the rows of a tensor.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/nn/softmax_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

Status RowsShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape logits, s.WithRankAtLeast(0, 1));
  s.set_output(0, std::move(logits));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> SoftmaxOps() {
  return {
      {.name = "Softmax",
       .summary = "Gives exp(logits) / sum(exp(logits)), along the last axis.",
       .infer_shapes = RowsShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, SoftmaxBack(g, g.grad(0), g.output(0)));
         return OkStatus();
       }},
      {.name = "LogSoftmax",
       .summary = "Gives logits - log(sum(exp(logits))), along the last axis.",
       .infer_shapes = RowsShape,
       .gradient = [](GradientContext& g) -> Status {
         const Output softmax = g.Add("Exp", {g.output(0)});
         g.set_input_grad(0, Sub(g, g.grad(0), Mul(g, SumOfRows(g, g.grad(0)), softmax)));
         return OkStatus();
       }},
  };
}

}  // namespace weir
