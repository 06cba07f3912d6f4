// All builder functions: include this to build a model.
//
//   GraphBuilder g(StandardOps());
//   Output x = Placeholder(g, DType::kFloat32, {-1, 784});
//   Output y = MatMul(g, x, w, {.transpose_b = true, .name = "logits"});
//
// Functions of the families are generated from the op schemas (docs/ops.md lists them); those here are
// shorter ways to write frequent things. Errors are the builder's: sticky, with op, shapes and source line.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "graph/graph_builder.h"
#include "ops/array_ops.h"
#include "ops/control_flow_ops.h"
#include "ops/data_flow_ops.h"
#include "ops/debugging_ops.h"
#include "ops/io_ops.h"
#include "ops/lookup_ops.h"
#include "ops/math_ops.h"
#include "ops/nn_ops.h"
#include "ops/random_ops.h"
#include "ops/register_ops.h"
#include "ops/sparse_ops.h"
#include "ops/state_ops.h"
#include "ops/strings_ops.h"
#include "ops/summary_ops.h"
#include "ops/training_ops.h"

namespace weir {

// The same tensor in every step.
Output Const(GraphBuilder& g, Tensor value, const NodeOptions& options = {},
             SourceLocation where = SourceLocation::Current());

// A scalar of the C++ type: 1.0f is float, 1.0 double, 1 int32, true bool.
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
Output Const(GraphBuilder& g, T value, const NodeOptions& options = {},
             SourceLocation where = SourceLocation::Current()) {
  return Const(g, Tensor::Scalar<T>(value), options, where);
}
inline Output Const(GraphBuilder& g, absl::string_view value, const NodeOptions& options = {},
                    SourceLocation where = SourceLocation::Current()) {
  return Const(g, Tensor::Scalar(std::string(value)), options, where);
}

// A scalar constant of a dtype, which must be floating point, or an integer that has the value, rounded
// towards zero; otherwise it is an InvalidArgument.
Output ConstOf(GraphBuilder& g, DType dtype, double value, const NodeOptions& options = {},
               SourceLocation where = SourceLocation::Current());

// A constant int32 vector, for shapes, axes and permutations.
Output ConstIntegers(GraphBuilder& g, const std::vector<int32_t>& values, const NodeOptions& options = {},
                     SourceLocation where = SourceLocation::Current());

// A tensor that every step feeds; -1 for dimensions that may differ from step to step.
Output Placeholder(GraphBuilder& g, DType dtype, PartialShape shape = {}, const NodeOptions& options = {},
                   SourceLocation where = SourceLocation::Current());

struct ReduceOptions {
  bool keep_dims = false;
  absl::string_view name = "";
};
// Over all axes: a scalar, unless keep_dims.
Output ReduceSum(GraphBuilder& g, Output x, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
Output ReduceMean(GraphBuilder& g, Output x, const ReduceOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
Output ReduceMax(GraphBuilder& g, Output x, const ReduceOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
// Over some axes, which may count from the back.
Output ReduceSum(GraphBuilder& g, Output x, const std::vector<int32_t>& axes,
                 const ReduceOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output ReduceMean(GraphBuilder& g, Output x, const std::vector<int32_t>& axes,
                  const ReduceOptions& options = {}, SourceLocation where = SourceLocation::Current());
Output ReduceMax(GraphBuilder& g, Output x, const std::vector<int32_t>& axes,
                 const ReduceOptions& options = {}, SourceLocation where = SourceLocation::Current());

// The cross entropy of sigmoid(logits) with labels from 0 to 1, elementwise, without overflow; counterpart of
// tf.nn.sigmoid_cross_entropy_with_logits.
Output SigmoidCrossEntropyWithLogits(GraphBuilder& g, Output logits, Output labels,
                                     const NodeOptions& options = {},
                                     SourceLocation where = SourceLocation::Current());

// A NoOp that runs after all of `nodes` (null ones are left out).
Node* Group(GraphBuilder& g, const std::vector<Node*>& nodes, const NodeOptions& options = {},
            SourceLocation where = SourceLocation::Current());

}  // namespace weir
