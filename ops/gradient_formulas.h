// The vocabulary of gradient functions: short names for the ops that formulas are made of, and broadcasting
// backwards.
//
// These functions look at the shapes of the forward tensors only, never at the nodes they add: after a first
// error in the builder every added Output is null. Where shapes are known when the graph is built, no node
// computes them.
#pragma once

#include <optional>
#include <vector>

#include "graph/gradients.h"

namespace weir::formulas {

inline Output Add(GradientContext& g, Output a, Output b) { return g.Add("AddV2", {a, b}); }
inline Output Sub(GradientContext& g, Output a, Output b) { return g.Add("Sub", {a, b}); }
inline Output Mul(GradientContext& g, Output a, Output b) { return g.Add("Mul", {a, b}); }
inline Output Div(GradientContext& g, Output a, Output b) { return g.Add("RealDiv", {a, b}); }
inline Output Neg(GradientContext& g, Output a) { return g.Add("Neg", {a}); }
inline Output Reshape(GradientContext& g, Output a, Output shape) { return g.Add("Reshape", {a, shape}); }
inline Output BroadcastTo(GradientContext& g, Output a, Output shape) {
  return g.Add("BroadcastTo", {a, shape});
}
inline Output Cast(GradientContext& g, Output a, DType to) { return g.Add("Cast", {a}, {{"DstT", to}}); }
inline Output Select(GradientContext& g, Output where, Output a, Output b) {
  return g.Add("SelectV2", {where, a, b});
}
inline Output ZerosLike(GradientContext& g, Output a) { return g.Add("ZerosLike", {a}); }
Output Sum(GradientContext& g, Output a, Output axes, bool keep_dims = false);
inline Output Zero(GradientContext& g, Output like) { return g.Constant(like.dtype(), 0); }
inline Output One(GradientContext& g, Output like) { return g.Constant(like.dtype(), 1); }
// factor * a
Output Scale(GradientContext& g, double factor, Output a);

// The shape of a forward tensor as an int32 vector: a constant when it is known.
Output ShapeOf(GradientContext& g, Output forward);
// `a` in the shape of a forward tensor with as many elements.
Output ReshapeLike(GradientContext& g, Output a, Output forward);
// The gradients that flow into the node's outputs, zeros where none does.
std::vector<Output> GradsOrZeros(GradientContext& g);

// A constant axis counted from the front; nullopt when it is none, or counts from the end of an unknown rank.
std::optional<int> KnownAxis(Output axis, Output tensor);

// `gradient` has the shape of `forward_inputs` broadcast together, which is also that of the node's output 0.
// Summed where that repeated the elements of forward_inputs[index], so that it has that input's shape.
// `gradient` itself when nothing was repeated.
Output UndoBroadcast(GradientContext& g, Output gradient, const std::vector<Output>& forward_inputs,
                     int index);

// Sets the gradients of a node's inputs 0 and 1 that it broadcasts together.
absl::Status SetBroadcastGradients(GradientContext& g, Output x_gradient, Output y_gradient);

// Of y = f(x): the gradient that flows into y, times `factor`.
absl::Status SetScaled(GradientContext& g, Output factor);

// The gradient of a tensor of that shape whose rows `indices` were looked up: what flows into the node's
// output 0, a row for each index.
IndexedSlices RowsLookedUp(GradientContext& g, Output indices, Output shape);

// Unimplemented when the node's first output is complex: the formula that follows is right for real numbers
// only.
absl::Status CheckReal(GradientContext& g);

}  // namespace weir::formulas
