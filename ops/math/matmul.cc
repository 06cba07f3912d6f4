// Matrix products.
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

Status MatMulShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape a, s.WithRank(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape b, s.WithRank(1, 2));
  const bool transpose_a = s.attr<bool>("transpose_a"), transpose_b = s.attr<bool>("transpose_b");
  const int64_t inner_a = a.dim(transpose_a ? 0 : 1), inner_b = b.dim(transpose_b ? 1 : 0);
  if (!s.MergeDims(inner_a, inner_b).ok()) {
    return InvalidArgumentError(StrCat("inner dimensions differ: a is ", a.ToString(),
                                       transpose_a ? " (transpose_a)" : "", ", b is ", b.ToString(),
                                       transpose_b ? " (transpose_b)" : ""));
  }
  return SetOutputDims(s, 0, {a.dim(transpose_a ? 1 : 0), b.dim(transpose_b ? 0 : 1)});
}

Output Product(GradientContext& g, Output a, Output b, bool transpose_a, bool transpose_b) {
  return g.Add("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// With C = AB: dA = dC B', dB = A' dC; a transposed input gets the transpose of that.
Status MatMulGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output a = g.input(0), b = g.input(1), dc = g.grad(0);
  const bool transpose_a = g.attr<bool>("transpose_a"), transpose_b = g.attr<bool>("transpose_b");
  g.set_input_grad(
      0, transpose_a ? Product(g, b, dc, transpose_b, true) : Product(g, dc, b, false, !transpose_b));
  g.set_input_grad(
      1, transpose_b ? Product(g, dc, a, true, transpose_a) : Product(g, a, dc, !transpose_a, false));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> MatMulOps() {
  return {
      {.name = "MatMul",
       .summary = "Multiplies matrix a by matrix b, each transposed first if asked.",
       .infer_shapes = MatMulShape,
       .gradient = MatMulGradient},
  };
}

}  // namespace weir
