// A learning rate that changes at given steps and is constant in between:
//
//   values[0] while step <= boundaries[0], then values[1] while step <= boundaries[1], ... values.back()
//
// (tf.compat.v1.train.piecewise_constant.)
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph_builder.h"

namespace weir {

struct PiecewiseConstantOptions {
  absl::string_view name = "PiecewiseConstant";
};

// A float scalar for an optimizer's learning rate. global_step: an int64 scalar. InvalidArgument, in the
// builder, unless boundaries ascend and there is one finite value more than boundaries.
Output PiecewiseConstant(GraphBuilder& g, Output global_step, const std::vector<int64_t>& boundaries,
                         const std::vector<double>& values, const PiecewiseConstantOptions& options = {},
                         SourceLocation where = SourceLocation::Current());

}  // namespace weir
