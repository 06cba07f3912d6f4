// Numbers of gamma, Poisson and binomial distributions, and their derivative by the distribution's parameter.
#include <algorithm>
#include <numeric>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/elementwise_op.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/random/seeds.h"
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

Status RequestedOnly(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 0));
  s.set_output(0, std::move(shape));
  return OkStatus();
}

Status KeyedGammaShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 1).status());
  WEIR_RETURN_IF_ERROR(s.WithRank(3, 0).status());
  return RequestedOnly(s);
}

Status SeededShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(CheckSeed(s, 1));
  return RequestedOnly(s);
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

// The samples' last axes are alpha's.
Status KeyedGammaGradient(GradientContext& g) {
  const Output alpha = g.input(4);
  if (!alpha.shape().has_rank() || !g.output(0).shape().has_rank()) {
    return absl::UnimplementedError("the gradient of samples needs the ranks of shape and alpha");
  }
  const Output slope = g.Add("RandomGammaGrad", {alpha, g.output(0)});
  std::vector<int32_t> leading(std::max(0, g.output(0).shape().rank() - alpha.shape().rank()));
  std::iota(leading.begin(), leading.end(), 0);
  g.set_input_grad(4, Sum(g, Mul(g, g.grad(0), slope), g.Integers(leading)));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> GammaOps() {
  return {
      {.name = "StatelessRandomGammaV3",
       .summary = "Gives numbers of the gamma distributions with shapes alpha and rate 1, the same for the "
                  "same key.",
       .infer_shapes = KeyedGammaShape,
       .gradient = KeyedGammaGradient},
      {.name = "RandomPoisson",
       .summary = "Gives, for each rate, numbers of the Poisson distribution.",
       .infer_shapes = RandomGammaShape,
       .gradient = NotDifferentiable},
      {.name = "RandomPoissonV2",
       .summary = "Gives, for each rate, numbers of the Poisson distribution.",
       .infer_shapes = RandomGammaShape,
       .gradient = NotDifferentiable},
      {.name = "StatelessRandomPoisson",
       .summary = "Gives numbers of the Poisson distributions with rates lam, the same for the same seed.",
       .infer_shapes = SeededShape,
       .gradient = NotDifferentiable},
      {.name = "StatelessRandomBinomial",
       .summary =
           "Gives how many of `counts` trials succeed, each with the probability `probs`, the same for the "
           "same seed.",
       .infer_shapes = SeededShape,
       .gradient = NotDifferentiable},
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
