// The incomplete beta function.
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// Scalars are there for all elements; the other inputs have one shape. One of unknown rank may be a scalar.
Status OneShapeOrScalars(ShapeInference& s) {
  PartialShape shape = s.input(0);
  for (int i = 1; i < s.num_inputs(); ++i) {
    const PartialShape& next = s.input(i);
    if (next.has_rank() && next.rank() == 0) continue;
    const bool is_first = !shape.has_rank() || shape.rank() == 0;
    if (is_first) {
      // Where the inputs before are scalars or unknown, this one says more.
      if (next.has_rank() || shape.has_rank()) shape = next;
      continue;
    }
    if (!next.has_rank()) continue;
    absl::StatusOr<PartialShape> merged = shape.MergeWith(next);
    if (!merged.ok()) {
      return InvalidArgumentError(StrCat(s.input_name(i), " is ", next.ToString(),
                                         " where an input before is ", shape.ToString(),
                                         ": those that are no scalars must have one shape"));
    }
    shape = *std::move(merged);
  }
  s.set_output(0, std::move(shape));
  return OkStatus();
}

// Of x only, as TensorFlow: x^(a-1) (1-x)^(b-1) / B(a, b), whose factors are 1 at x = 0 for a = 1, and at
// x = 1 for b = 1.
Status IncompleteBetaGradient(GradientContext& g) {
  const Output a = g.input(0), b = g.input(1), x = g.input(2);
  const auto log_gamma = [&](Output of) { return g.Add("Lgamma", {of}); };
  const Output log_beta = Sub(g, Add(g, log_gamma(a), log_gamma(b)), log_gamma(Add(g, a, b)));
  const Output left = g.Add("Xlogy", {Sub(g, a, One(g, a)), x});
  const Output right = g.Add("Xlog1py", {Sub(g, b, One(g, b)), Neg(g, x)});
  const Output density = g.Add("Exp", {Sub(g, Add(g, right, left), log_beta)});
  g.set_input_grad(2, UndoBroadcast(g, Mul(g, density, g.grad(0)), {a, b, x}, 2));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> IncompleteBetaOps() {
  return {
      {.name = "Betainc",
       .summary = "Gives the integral of t^(a-1) (1-t)^(b-1) from 0 to x, as a part of that to 1.",
       .infer_shapes = OneShapeOrScalars,
       .gradient = IncompleteBetaGradient},
  };
}

}  // namespace weir
