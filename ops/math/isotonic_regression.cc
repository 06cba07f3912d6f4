// The nearest rows that do not rise.
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

// Of each row that is at the beginning of the row, of all elements: what makes numbers of segments, which
// begin anew in each row, numbers of segments of the whole tensor.
Output FirstOfRow(GradientContext& g, Output segments, Output count) {
  // A scalar is a row too.
  const Output rows = g.Add("ExpandDims", {segments, g.Constant(DType::kInt32, 0)});
  const Output ones = g.Add("OnesLike", {rows});
  const Output in_row = g.Add("Cumsum", {ones, g.Constant(DType::kInt32, -1)}, {{"exclusive", true}});
  const Output all = g.Add("Range", {g.Constant(DType::kInt32, 0), count, g.Constant(DType::kInt32, 1)});
  return Sub(g, all, Reshape(g, in_row, g.Integers({-1})));
}

// An output is the mean of its segment's inputs: each of these gets the mean of the segment's gradients.
Status RegressionGradient(GradientContext& g) {
  const Output gradient = g.grad(0), segments = g.output(1);
  if (!gradient) return OkStatus();
  const Output count = g.Add("Size", {segments}), flat = g.Integers({-1});
  const Output ids = Add(g, Reshape(g, segments, flat), FirstOfRow(g, segments, count));
  const auto sum = [&](Output values) { return g.Add("UnsortedSegmentSum", {values, ids, count}); };
  // 16 bits cannot count beyond 256 or 2048.
  const DType dtype = gradient.dtype();
  const DType wide = DTypeSize(dtype) < 4 ? DType::kFloat32 : dtype;
  const Output narrow = Reshape(g, gradient, flat);
  const Output values = wide == dtype ? narrow : Cast(g, narrow, wide);
  const Output sums = sum(values), counts = sum(g.Add("OnesLike", {values}));
  const auto of_segment = [&](Output each) {
    return g.Add("GatherV2", {each, ids, g.Constant(DType::kInt32, 0)});
  };
  const Output wide_means = Div(g, of_segment(sums), of_segment(counts));
  const Output means = wide == dtype ? wide_means : Cast(g, wide_means, dtype);
  g.set_input_grad(0, ReshapeLike(g, means, g.input(0)));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> IsotonicRegressionOps() {
  return {{.name = "IsotonicRegression",
           .summary = "Gives the rows that do not rise and are nearest to the input's, and to which of the "
                      "segments of equal elements each element belongs.",
           .infer_shapes = [](ShapeInference& s) -> Status {
             s.set_output(0, s.input(0));
             s.set_output(1, s.input(0));
             return OkStatus();
           },
           .gradient = RegressionGradient}};
}

}  // namespace weir
