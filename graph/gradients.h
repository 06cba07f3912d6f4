// Reverse-mode differentiation: adds the nodes that compute d(sum of ys)/d(xs).
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph_builder.h"

namespace weir {

// What an op's gradient function works with. Valid during one call.
class GradientContext {
 public:
  GradientContext(GraphBuilder& graph, Node& node, absl::Span<const Output> output_grads)
      : graph_(graph), node_(node), output_grads_(output_grads), input_grads_(node.num_inputs()) {}

  GraphBuilder& graph() { return graph_; }
  const Node& node() const { return node_; }
  Output input(int index) const { return node_.input(index); }
  Output output(int index) { return node_.output(index); }
  int num_inputs() const { return node_.num_inputs(); }

  // The gradient that flows into output `index`; a null Output when none does.
  Output grad(int index) const { return output_grads_[index]; }

  // An input that gets no gradient is left alone (indices, shapes, handles).
  void set_input_grad(int index, Output gradient) { input_grads_[index] = gradient; }
  const std::vector<Output>& input_grads() const { return input_grads_; }

  template <typename T>
  const T& attr(absl::string_view name) const {
    return node_.attr<T>(name);
  }
  // Adds a node with one output; its name and device scope are the driver's.
  Output Add(absl::string_view op, std::vector<InputArg> inputs, AttrMap attrs = {}) {
    return graph_.AddOp(op, std::move(inputs), std::move(attrs), "", node_.source());
  }
  // A constant scalar of the dtype, for factors in formulas. InvalidArgument, kept by the builder, when the
  // dtype has no numbers or not this one (0.5 of an int32).
  Output Constant(DType dtype, double value);
  // A constant int32 vector, for axes, permutations and shapes.
  Output Integers(std::vector<int32_t> values);

 private:
  GraphBuilder& graph_;
  Node& node_;
  absl::Span<const Output> output_grads_;
  std::vector<Output> input_grads_;
};

// One gradient per x, of x's dtype and shape; a null Output for an x that no y depends on. Several paths are
// summed with AddN. A ReadVariableOp's gradient is the gradient of its handle: xs may be handles. grad_ys
// default to ones. The nodes are in the name scope "gradients" and ask for the devices that their forward
// nodes asked for; the ones and the sums follow the caller's device scope. Errors: InvalidArgument for a y
// that is not floating point, or a gradient function's error, naming the node. Also sticky in the builder.
absl::StatusOr<std::vector<Output>> AddGradients(GraphBuilder& graph, absl::Span<const Output> ys,
                                                 absl::Span<const Output> xs,
                                                 absl::Span<const Output> grad_ys = {},
                                                 SourceLocation where = SourceLocation::Current());

}  // namespace weir
