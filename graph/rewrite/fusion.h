// Puts one node in the place of several that run one after another on one device, where that device's type
// has a kernel that does their work in one pass over the data.
//
//   act(BiasAdd(MatMul(a, b), bias))              -> _FusedMatMul; BiasAdd may be an Add of a vector
//   [Relu](BiasAdd(Conv2D(x, w), bias))           -> _FusedConv2D
//   Relu(FusedBatchNormV3(x) [+ side])            -> _FusedBatchNormEx
//   FusedBatchNormGradV3(ReluGrad(dy, y), x)      -> _FusedBatchNormGradEx; where others read ReluGrad's
//                                                    result too, it is one of the fused node's outputs
//   elementwise ops that only read one another    -> _FusedElementwise (elementwise_cluster.h)
//   act: none, or Relu, Relu6, Elu, LeakyRelu, Tanh, Sigmoid
//
// An intermediate result that anything else reads, a fetch or a control edge included, keeps its node; who
// asks for its shape only reads the fused node's output where that has the same shape. A side input has the
// shape of x in every step, or the nodes stay (symbolic_shapes.h). All nodes of a pattern have one device and
// (the first one excepted) no control inputs. In training the patterns still fit: gradients of activations
// read what the activation gave, not what it took.
//
// A fused node waits for what all of its nodes read. Where that would make a tensor wait that others read, a
// normalization's mean for the side input or a shape for the rest of a formula, it is done only if Waits
// allows it, and if the tensor comes to wait for no queue or the like that it did not wait for before
// (waiting_nodes.h). Of patterns that would wait for one another none is fused.
//
// Float, half and bfloat16 are fused, elementwise ops of double too. Results are the same bits, except for
// _FusedConv2D's, which is made only where RewriteOptions::may_change_rounding allows it.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/rewrite/rewrite_options.h"

namespace weir {

// True when that type of device ("CPU") has a kernel for the node.
using HasKernelFor = std::function<bool(const Node& node, absl::string_view device_type)>;

// Whether a tensor may come to depend on more than it did. Not in a step that is fed while it runs, where
// what is awaited may be computed by the caller from that very tensor.
enum class Waits { kMayGrow, kMustNotGrow };

// `graph`: placed. It is replaced by another one when something was fused; a fused node stands where the last
// of its nodes stood, under that one's name with "/fused" behind. InvalidArgument for a graph with a cycle.
absl::Status FuseNodes(std::unique_ptr<Graph>& graph, const HasKernelFor& has_kernel,
                       const RewriteOptions& options = {}, Waits waits = Waits::kMayGrow);

}  // namespace weir
