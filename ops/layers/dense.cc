#include "ops/layers/dense.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/layers/weight.h"
#include "ops/standard_ops.h"

namespace weir::layers {

namespace {

// x * kernel for an x of more than two dimensions: all but the last are made one, and come back afterwards.
Output MultiplyRows(GraphBuilder& g, Output x, Output kernel, int64_t units, SourceLocation where) {
  const int last = x.shape().rank() - 1;
  const int64_t features = x.shape().dim(last);
  const Output rows = Reshape(g, x, Const(g, Tensor::Vector<int64_t>({-1, features}), {}, where), {}, where);
  const Output product = MatMul(g, rows, kernel, {}, where);
  const Output outer =
      StridedSlice(g, ShapeOf(g, x, {}, where), ConstIntegers(g, {0}, {}, where),
                   ConstIntegers(g, {last}, {}, where), ConstIntegers(g, {1}, {}, where), {}, where);
  const Output shape = ConcatV2(g, {outer, ConstIntegers(g, {static_cast<int32_t>(units)}, {}, where)},
                                Const(g, 0, {}, where), {}, where);
  return Reshape(g, product, shape, {}, where);
}

}  // namespace

Output Dense(GraphBuilder& g, Output x, int64_t units, const Activation& activation,
             const DenseOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name);
  if (!HasInput(g, "Dense", x, where)) return {};
  const int last = x.shape().rank() - 1;
  if (last < 1 || x.shape().dim(last) == PartialShape::kUnknownDim || units < 1 ||
      units > std::numeric_limits<int32_t>::max()) {
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat("Dense '", g.name_scope(),
                                "': x must be [batch,...,features] with known features and units at least 1 "
                                "and below 2^31: x is ",
                                x.shape().ToString(), ", units is ", units)),
               where);
    return {};
  }
  const Output kernel =
      AddWeight(g, "kernel", x.dtype(), {x.shape().dim(last), units}, KernelOf(options), where);
  Output y = last == 1 ? MatMul(g, x, kernel, {}, where) : MultiplyRows(g, x, kernel, units, where);
  if (options.use_bias) y = AddBias(g, y, units, "NHWC", BiasOf(options), where);
  return Activate(g, "Dense", y, activation, where);
}

}  // namespace weir::layers
