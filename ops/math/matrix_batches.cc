#include "ops/math/matrix_batches.h"

#include <vector>

#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {

absl::StatusOr<PartialShape> BatchOf(const PartialShape& shape) {
  std::vector<int64_t> dims = DimsOf(shape);
  dims.resize(dims.size() - 2);
  return PartialShape::FromDims(dims);
}

Output SumRepeatedBatches(GradientContext& g, Output gradient, int input) {
  const PartialShape &x = g.input(input).shape(), &z = g.node().output_shape(0);
  if (g.node().op_name() == "BatchMatMul" ||
      (x.has_rank() && x.rank() == 2 && z.has_rank() && z.rank() == 2)) {
    return gradient;
  }
  bool is_same = x.has_rank() && z.has_rank() && x.rank() == z.rank();
  for (int i = 0; is_same && i < x.rank() - 2; ++i) is_same = x.dim(i) != kUnknown && x.dim(i) == z.dim(i);
  if (is_same) return gradient;
  const Output shape = formulas::ShapeOf(g, g.input(input));
  Node* axes = g.graph().AddNode("BroadcastGradientArgs", {shape, g.Add("Shape", {gradient})}, {}, "",
                                 g.node().source());
  if (axes == nullptr) return Output();
  return formulas::Reshape(g, formulas::Sum(g, gradient, axes->output(0)), shape);
}

}  // namespace weir
