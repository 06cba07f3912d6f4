// Reverse-mode differentiation: adds the nodes that compute d(sum of ys)/d(xs).
#pragma once

#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph_builder.h"

namespace weir {

// The gradient of a tensor of which only some rows were read: row indices[i] gets values[i], all other rows
// get zero. A row that is named more than once gets the sum.
struct IndexedSlices {
  Output values;       // [n, dense_shape[1], dense_shape[2], ...]
  Output indices;      // [n], int32 or int64
  Output dense_shape;  // vector of int32 or int64
};

// What flows into an output: a tensor of its shape, or some rows of one. A null Output where nothing flows.
using Gradient = std::variant<Output, IndexedSlices>;

// Whether a gradient flows at all.
bool IsNull(const Gradient& gradient);
// The gradient as one tensor: slices are added up with UnsortedSegmentSum. Null for a null one.
Output Densify(GraphBuilder& graph, const Gradient& gradient,
               SourceLocation where = SourceLocation::Current());

// The `gradient` of an op that has a derivative which is not written yet. A gradient that reaches it is an
// error (Unimplemented), which names the op, and a y and an x that it lies between. NotDifferentiable
// (graph/op_def.h) is for ops that have none: it stops the flow, and whatever lies behind gets none.
absl::Status GradientMissing(GradientContext& context);

// What an op's gradient function works with. Valid during one call.
class GradientContext {
 public:
  GradientContext(GraphBuilder& graph, Node& node, std::vector<Gradient> flows)
      : graph_(graph), node_(node), flows_(std::move(flows)), input_grads_(node.num_inputs()) {}

  GraphBuilder& graph() { return graph_; }
  const Node& node() const { return node_; }
  Output input(int index) const { return node_.input(index); }
  Output output(int index) { return node_.output(index); }
  int num_inputs() const { return node_.num_inputs(); }

  // The gradient that flows into output `index`, as one tensor; a null Output when none does.
  Output grad(int index);
  // The same for a function that can pass slices on as they are.
  const Gradient& flow(int index) const { return flows_[index]; }

  // An input that gets no gradient is left alone (indices, shapes, handles).
  void set_input_grad(int index, Gradient gradient) { input_grads_[index] = std::move(gradient); }
  const std::vector<Gradient>& input_grads() const { return input_grads_; }

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
  std::vector<Gradient> flows_;
  std::vector<Gradient> input_grads_;
};

// One gradient per x, of x's dtype and shape; a null Output for an x that no y depends on. Several paths are
// summed with AddN. Only numbers that are not integers, resources and variants lead from an x to a y. A
// ReadVariableOp's gradient is the gradient of its handle: xs may be handles. grad_ys default to ones. The
// nodes are in the name scope "gradients" and ask for the devices that their forward nodes asked for; the
// ones and the sums follow the caller's device scope. Errors: InvalidArgument for a y that is not floating
// point, or a gradient function's error, naming the node. Also sticky in the builder.
//
// AddGradientFlows leaves slices as they are where every path to an x gives slices: their rows are then
// concatenated. That is what an optimizer wants of an embedding.
absl::StatusOr<std::vector<Gradient>> AddGradientFlows(GraphBuilder& graph, absl::Span<const Output> ys,
                                                       absl::Span<const Output> xs,
                                                       absl::Span<const Output> grad_ys = {},
                                                       SourceLocation where = SourceLocation::Current());
absl::StatusOr<std::vector<Output>> AddGradients(GraphBuilder& graph, absl::Span<const Output> ys,
                                                 absl::Span<const Output> xs,
                                                 absl::Span<const Output> grad_ys = {},
                                                 SourceLocation where = SourceLocation::Current());

}  // namespace weir
