// Numbers of gamma distributions, and their derivative by the distribution's parameter.
#include <numeric>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/elementwise_op.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// More axes than any tensor of use has are not listed in the graph: the input only promises so many.
constexpr int64_t kMostListedAxes = 64;

// The requested shape, with the shape of alpha behind it.
Status RandomGammaShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, RequestedShape(s, 0));
  if (!shape.has_rank() || !s.input(1).has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(shape);
  const std::vector<int64_t> alpha = DimsOf(s.input(1));
  dims.insert(dims.end(), alpha.begin(), alpha.end());
  return SetOutputDims(s, 0, dims);
}

// A sample moves with alpha so that it stays at its place in the distribution (M. Figurnov, S. Mohamed,
// A. Mnih, "Implicit reparameterization gradients", NeurIPS 2018). All samples of an alpha are added up.
Status RandomGammaGradient(GradientContext& g) {
  const Output slope = g.Add("RandomGammaGrad", {g.input(1), g.output(0)});
  const PartialShape& shape = g.input(0).shape();
  Output axes;
  if (shape.is_fully_known() && shape.rank() == 1 && shape.dim(0) <= kMostListedAxes) {
    std::vector<int32_t> leading(shape.dim(0));
    std::iota(leading.begin(), leading.end(), 0);
    axes = g.Integers(leading);
  } else {
    const DType type = DType::kInt32;
    axes = g.Add("Range", {g.Constant(type, 0), g.Add("Size", {g.input(0)}), g.Constant(type, 1)});
  }
  g.set_input_grad(1, Sum(g, Mul(g, g.grad(0), slope), axes));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> GammaOps() {
  return {
      {.name = "RandomGamma",
       .summary = "Gives, for each alpha, numbers of the gamma distribution with shape alpha and rate 1.",
       .infer_shapes = RandomGammaShape,
       .gradient = RandomGammaGradient},
      Binary("RandomGammaGrad",
             "Gives the derivative of a sample of the gamma distribution by its parameter alpha.",
             GradientMissing),
  };
}

}  // namespace weir
