// Matrix products.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/math/matrix_batches.h"
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

// The same with products of that op, in the dtypes of the inputs.
Status SparseMatMulGradient(GradientContext& g) {
  const Output a = g.input(0), b = g.input(1), dc = g.grad(0);
  const bool transpose_a = g.attr<bool>("transpose_a"), transpose_b = g.attr<bool>("transpose_b");
  const auto product = [&](Output x, Output y, bool transpose_x, bool transpose_y, DType dtype) {
    const Output wide =
        g.Add("SparseMatMul", {x, y}, {{"transpose_a", transpose_x}, {"transpose_b", transpose_y}});
    return dtype == DType::kFloat32 ? wide : Cast(g, wide, dtype);
  };
  g.set_input_grad(0, transpose_a ? product(b, dc, transpose_b, true, a.dtype())
                                  : product(dc, b, false, !transpose_b, a.dtype()));
  g.set_input_grad(1, transpose_b ? product(dc, a, true, transpose_a, b.dtype())
                                  : product(a, dc, !transpose_a, false, b.dtype()));
  return OkStatus();
}

// ---- Batches of matrices ----

Status BatchMatMulShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape x, s.WithRankAtLeast(0, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape y, s.WithRankAtLeast(1, 2));
  if (!x.has_rank() || !y.has_rank()) return OkStatus();
  const bool adj_x = s.attr<bool>("adj_x"), adj_y = s.attr<bool>("adj_y");
  const int x_rank = x.rank(), y_rank = y.rank();
  const auto fits = s.MergeDims(x.dim(x_rank - (adj_x ? 2 : 1)), y.dim(y_rank - (adj_y ? 1 : 2)));
  if (!fits.ok()) {
    return InvalidArgumentError(StrCat("inner dimensions differ: x is ", x.ToString(),
                                       adj_x ? " (adj_x)" : "", ", y is ", y.ToString(),
                                       adj_y ? " (adj_y)" : ""));
  }
  WEIR_ASSIGN_OR_RETURN(const PartialShape x_batch, BatchOf(x));
  WEIR_ASSIGN_OR_RETURN(const PartialShape y_batch, BatchOf(y));
  const bool broadcasts = s.op().name() != "BatchMatMul";
  const auto batch = broadcasts ? ShapeInference::Broadcast(x_batch, y_batch) : x_batch.MergeWith(y_batch);
  if (!batch.ok()) {
    return InvalidArgumentError(
        StrCat("batch dimensions differ: x is ", x.ToString(), ", y is ", y.ToString()));
  }
  std::vector<int64_t> dims = DimsOf(*batch);
  dims.push_back(x.dim(x_rank - (adj_x ? 1 : 2)));
  dims.push_back(y.dim(y_rank - (adj_y ? 2 : 1)));
  return SetOutputDims(s, 0, dims);
}

// As MatMulGradient, batch by batch.
Status BatchMatMulGradient(GradientContext& g) {
  WEIR_RETURN_IF_ERROR(CheckReal(g));
  const Output x = g.input(0), y = g.input(1), dz = g.grad(0);
  const bool adj_x = g.attr<bool>("adj_x"), adj_y = g.attr<bool>("adj_y");
  const bool has_output_type = g.node().FindAttr("Tout") != nullptr;
  const auto product = [&](Output a, Output b, bool adj_a, bool adj_b) {
    AttrMap attrs = {{"adj_x", adj_a}, {"adj_y", adj_b}};
    if (has_output_type) attrs["Tout"] = dz.dtype();
    return g.Add(g.node().op_name(), {a, b}, std::move(attrs));
  };
  // Whole numbers times floating ones give floating ones: only these get a gradient.
  if (x.dtype() == dz.dtype()) {
    const Output dx = adj_x ? product(y, dz, adj_y, true) : product(dz, y, false, !adj_y);
    g.set_input_grad(0, SumRepeatedBatches(g, dx, 0));
  }
  if (y.dtype() == dz.dtype()) {
    const Output dy = adj_y ? product(dz, x, true, adj_x) : product(x, dz, !adj_x, false);
    g.set_input_grad(1, SumRepeatedBatches(g, dy, 1));
  }
  return OkStatus();
}

}  // namespace

std::vector<OpDef> MatmulOps() {
  return {
      {.name = "MatMul",
       .summary = "Multiplies matrix a by matrix b, each transposed first if asked.",
       .infer_shapes = MatMulShape,
       .gradient = MatMulGradient},
      {.name = "SparseMatMul",
       .summary = "Multiplies matrix a by matrix b, each transposed first if asked, in single precision.",
       .infer_shapes = MatMulShape,
       .gradient = SparseMatMulGradient},
      {.name = "BatchMatMul",
       .summary = "Multiplies matrices of x by those of y, each transposed and conjugated first if asked.",
       .infer_shapes = BatchMatMulShape,
       .gradient = BatchMatMulGradient},
      {.name = "BatchMatMulV2",
       .summary = "Multiplies matrices of x by those of y, whose batches broadcast, each transposed and "
                  "conjugated first if asked.",
       .infer_shapes = BatchMatMulShape,
       .gradient = BatchMatMulGradient},
      {.name = "BatchMatMulV3",
       .summary =
           "Multiplies matrices of x by those of y as BatchMatMulV2 does; whole numbers of 8 bits give "
           "int32, and bfloat16 with bfloat16.",
       .infer_shapes = BatchMatMulShape,
       .gradient = BatchMatMulGradient},
  };
}

}  // namespace weir
