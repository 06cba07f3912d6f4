// Replaces nodes by cheaper ones that compute the same.
//
//   exact: x*1, x/1, x-0, x+(-0.0), integer x+0          -> x
//          Identity, Snapshot, Stop- and PreventGradient  -> their input
//          Neg(Neg(x)), and LogicalNot, Invert, Conj      -> x
//          Transpose that moves nothing                   -> x; Transpose(Transpose(x)) -> one Transpose
//          Reshape to the shape that the input has        -> x; Reshape(Reshape(x)) -> one Reshape
//          Sum over the axes of a broadcast -> x, where nothing was broadcast (BroadcastGradientArgs of
//          tensors that have one shape by rewrite/symbolic_shapes.h)
//          Cast to the same type                          -> x; Cast(Cast(x)) that loses nothing -> one Cast
//          a reduction over no axes, AddN of one, Split in one, Tile and BroadcastTo by ones, Pad by nothing,
//          Slice of everything                            -> their input
//   may change rounding (RewriteOptions):
//          (x*c)*d -> x*(c*d) for scalar constants (exact, and always done, for integers)
//          MatMul(Transpose(x), y) -> MatMul(x, y, transpose_a), and for y; BatchMatMul
//
// What is kept: shapes and dtypes of everything that stays, control edges, errors of the nodes that go (a
// rule that would drop a possible error does not fire), the order of effects. A constant operand with control
// inputs may belong to a branch that is not taken, so no rule looks at it. Nodes with control inputs stay.
// A node that others name in "_class", or whose input asks for another device, stays.
//
// Cost: each node is looked at once, and again after a rule has changed it, at most kMaxVisits times.
#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/rewrite/rewrite_options.h"

namespace weir {

// `graph`: pruned to a signature (rewrite/prune.h). Nodes that nothing needs any more are dropped.
// InvalidArgument for a graph with a cycle.
absl::Status SimplifyArithmetic(Graph& graph, const RewriteOptions& options = {});

}  // namespace weir
