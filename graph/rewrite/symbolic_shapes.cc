#include "graph/rewrite/symbolic_shapes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "graph/loops.h"
#include "graph/shape_inference.h"

namespace weir {
namespace {

// Ops whose output has input 0's shape, though their shape functions say more than that.
bool IsLikeFirstInput(const std::string& op, int output) {
  return op == "BiasAdd" || op == "Softmax" || op == "LogSoftmax" ||
         (output == 0 && absl::StartsWith(op, "FusedBatchNorm"));
}

// The input that asks for the output's shape; -1 where there is none.
int ShapeInput(const std::string& op) {
  if (op == "Reshape" || op == "BroadcastTo") return 1;
  const bool is_first = op == "Fill" || op == "AvgPoolGrad" || op == "Conv2DBackpropInput" ||
                        op == "DepthwiseConv2dNativeBackpropInput";
  return is_first ? 0 : -1;
}

// Ops on batches of images, batch first in either format.
bool KeepsBatch(const std::string& op) {
  return op == "Conv2D" || op == "DepthwiseConv2dNative" || op == "MaxPool" || op == "AvgPool";
}

}  // namespace

SymbolicShapes::SymbolicShapes(const std::vector<Node*>& order) {
  for (const Node* node : order) {
    if (node->id() >= static_cast<int>(of_nodes_.size())) of_nodes_.resize(node->id() + 1);
    for (int i = 0; i < node->num_outputs(); ++i) {
      Symbols symbols = SymbolsOf(*node, i);
      of_nodes_[node->id()].push_back(std::move(symbols));
    }
  }
}

bool SymbolicShapes::AreEqual(const Output& a, const Output& b) const {
  if (a == b) return true;
  const Symbols *x = Find(a), *y = Find(b);
  return x != nullptr && y != nullptr && *x == *y;
}

const SymbolicShapes::Symbols* SymbolicShapes::Find(const Output& output) const {
  const int id = output.node->id();
  if (id >= static_cast<int>(of_nodes_.size())) return nullptr;
  const std::vector<Symbols>& outputs = of_nodes_[id];
  return output.index < static_cast<int>(outputs.size()) ? &outputs[output.index] : nullptr;
}

SymbolicShapes::Symbols SymbolicShapes::Fresh(const PartialShape& shape) {
  Symbols fresh{.has_rank = shape.has_rank()};
  if (!fresh.has_rank) fresh.dims.push_back(NewSymbol());
  for (const int64_t dim : shape.dims()) {
    fresh.dims.push_back(dim == PartialShape::kUnknownDim ? NewSymbol() : dim);
  }
  return fresh;
}

SymbolicShapes::Symbols SymbolicShapes::Known(const PartialShape& shape, Symbols otherwise) {
  if (!shape.has_rank()) return otherwise;
  if (!otherwise.has_rank || shape.dims().size() != otherwise.dims.size()) return Fresh(shape);
  for (size_t i = 0; i < otherwise.dims.size(); ++i) {
    const int64_t dim = shape.dims()[i];
    if (dim != PartialShape::kUnknownDim) otherwise.dims[i] = dim;
  }
  return otherwise;
}

// Where the two differ and neither is 1, only a step can tell: the fresh symbol stays.
SymbolicShapes::Symbols SymbolicShapes::Broadcast(const Symbols& a, const Symbols& b, const Symbols& fresh) {
  if (a == b) return a;
  if (!a.has_rank || !b.has_rank || !fresh.has_rank) return fresh;
  Symbols result = fresh;
  const auto from_back = [](const Symbols& s, size_t i) {
    return i < s.dims.size() ? s.dims[s.dims.size() - 1 - i] : int64_t{1};
  };
  for (size_t i = 0; i < result.dims.size(); ++i) {
    int64_t& dim = result.dims[result.dims.size() - 1 - i];
    if (dim >= 0) continue;
    const int64_t x = from_back(a, i), y = from_back(b, i);
    if (x == y || y == 1) dim = x;
    if (x == 1) dim = y;
  }
  return result;
}

// Of two shapes that are equal in every step: what is known, and the symbols that came first, those of the
// forward pass.
SymbolicShapes::Symbols SymbolicShapes::Merge(const Symbols& a, const Symbols& b) {
  if (!a.has_rank || !b.has_rank || a.dims.size() != b.dims.size()) return a.has_rank ? a : b;
  Symbols merged = a;
  for (size_t i = 0; i < merged.dims.size(); ++i) merged.dims[i] = std::max(a.dims[i], b.dims[i]);
  return merged;
}

SymbolicShapes::Symbols SymbolicShapes::SymbolsOf(const Node& node, int output) {
  const PartialShape& shape = node.output_shape(output);
  const OpDef& op = node.op().def();
  const auto input = [&](int i) { return i < node.num_inputs() ? Find(node.input(i)) : nullptr; };
  // What control flow gives comes from one branch or another, from one iteration or another.
  if (IsControlFlow(node) || input(0) == nullptr) return Fresh(shape);
  const Symbols& first = *input(0);
  if (op.infer_shapes == UnchangedShape || IsLikeFirstInput(op.name, output)) return Known(shape, first);
  if (op.infer_shapes == MergedShape) {
    Symbols merged = first;
    for (int i = 1; i < node.num_inputs(); ++i) {
      if (input(i) != nullptr) merged = Merge(merged, *input(i));
    }
    return Known(shape, merged);
  }
  if (const int asking = ShapeInput(op.name); asking >= 0) {
    const Node& producer = *node.input(asking).node;
    const Symbols* const like = producer.op_name() == "Shape" ? Find(producer.input(0)) : nullptr;
    return like != nullptr ? Known(shape, *like) : Fresh(shape);
  }
  if (op.infer_shapes == BroadcastBinaryShape && input(1) != nullptr) {
    return Broadcast(first, *input(1), Fresh(shape));
  }
  return WithDimensionsOf(node, Fresh(shape));
}

// Of ops that hand on single dimensions.
SymbolicShapes::Symbols SymbolicShapes::WithDimensionsOf(const Node& node, Symbols fresh) const {
  const auto hand_on = [&](int from, int from_dim, int to_dim) {
    const Symbols* const symbols = Find(node.input(from));
    const bool has_both = fresh.has_rank && symbols != nullptr && symbols->has_rank &&
                          from_dim < static_cast<int>(symbols->dims.size()) &&
                          to_dim < static_cast<int>(fresh.dims.size());
    if (has_both && fresh.dims[to_dim] < 0) fresh.dims[to_dim] = symbols->dims[from_dim];
  };
  if (KeepsBatch(node.op_name())) hand_on(0, 0, 0);
  if (node.op_name() == "MatMul") {
    hand_on(0, node.attr<bool>("transpose_a") ? 1 : 0, 0);
    hand_on(1, node.attr<bool>("transpose_b") ? 0 : 1, 1);
  }
  return fresh;
}

}  // namespace weir
