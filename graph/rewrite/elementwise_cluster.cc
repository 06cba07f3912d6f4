#include "graph/rewrite/elementwise_cluster.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/fused_ops.h"
#include "graph/shape_inference.h"

namespace weir {
namespace {

// Ops of one or two operands of the dtype that they give, without attrs that count; and AddN, a sum of sums.
constexpr const char* kNames[] = {"Abs",        "Add",
                                  "AddN",       "AddV2",
                                  "Ceil",       "Cos",
                                  "Div",        "DivNoNan",
                                  "Elu",        "EluGrad",
                                  "Erf",        "Erfc",
                                  "Exp",        "Expm1",
                                  "Floor",      "FloorDiv",
                                  "FloorMod",   "Inv",
                                  "InvGrad",    "Log",
                                  "Log1p",      "Maximum",
                                  "Minimum",    "Mul",
                                  "MulNoNan",   "Neg",
                                  "Pow",        "RealDiv",
                                  "Reciprocal", "ReciprocalGrad",
                                  "Relu",       "Relu6",
                                  "Relu6Grad",  "ReluGrad",
                                  "Rint",       "Round",
                                  "Rsqrt",      "RsqrtGrad",
                                  "Selu",       "SeluGrad",
                                  "Sigmoid",    "SigmoidGrad",
                                  "Sign",       "Sin",
                                  "Softplus",   "SoftplusGrad",
                                  "Softsign",   "SoftsignGrad",
                                  "Sqrt",       "SqrtGrad",
                                  "Square",     "SquaredDifference",
                                  "Sub",        "Tanh",
                                  "TanhGrad",   "Xdivy",
                                  "Xlogy"};

bool IsOneElement(const Output& operand, const Output& result) {
  const PartialShape& shape = operand.shape();
  if (shape.rank() == 0) return true;
  if (!shape.is_fully_known() || shape.rank() > result.shape().rank()) return false;
  return std::all_of(shape.dims().begin(), shape.dims().end(), [](int64_t dim) { return dim == 1; });
}

int NumOps(const Node& node) { return std::max(1, node.num_inputs() - 1); }

class Search {
 public:
  Search(const ElementwiseClusterOps& ops, Node& last, ClusterQuestions& questions)
      : ops_(ops), last_(last), questions_(questions) {}

  ElementwiseCluster Run() {
    if (!IsFloating(last_.output_type(0)) || !Fits(last_)) return {};
    Join(last_);
    // From the last node to the first: when it is a node's turn, all of its readers that can join have
    // joined.
    while (!candidates_.empty()) {
      const auto latest = std::prev(candidates_.end());
      Node* const node = latest->second;
      candidates_.erase(latest);
      if (MayJoin(*node)) Join(*node);
    }
    if (nodes_.size() < 2) return {};
    std::reverse(nodes_.begin(), nodes_.end());
    return Write();
  }

 private:
  // Operands have the shape of the result, or one element where the op takes that.
  bool Fits(const Node& node) const {
    if (!ops_.Contains(node) || !node.control_inputs().empty()) return false;
    if (NumOps(node) > kMaxFusedElementwiseOps || (node.op_name() == "AddN" && node.num_inputs() < 2)) {
      return false;
    }
    const bool broadcasts = node.op().def().infer_shapes == BroadcastBinaryShape;
    const Output result = last_.output(0);
    return std::all_of(node.inputs().begin(), node.inputs().end(), [&](const Output& input) {
      return (broadcasts && IsOneElement(input, result)) || questions_.HaveOneShape(input, result);
    });
  }

  bool MayJoin(Node& node) const {
    return ops_.Contains(node) && num_ops_ + NumOps(node) <= kMaxFusedElementwiseOps &&
           node.output_type(0) == last_.output_type(0) && node.assigned_device() == last_.assigned_device() &&
           questions_.IsReadWithin(node, members_) &&
           questions_.HaveOneShape(node.output(0), last_.output(0)) && Fits(node);
  }

  void Join(Node& node) {
    nodes_.push_back(&node);
    members_.insert(&node);
    num_ops_ += NumOps(node);
    for (const Output& input : node.inputs()) {
      candidates_.emplace(questions_.Position(*input.node), input.node);
    }
  }

  ElementwiseCluster Write() {
    ElementwiseCluster cluster;
    absl::flat_hash_map<Output, int64_t> operands;
    for (const Node* const node : nodes_) {
      for (const Output& input : node->inputs()) {
        const bool is_new = !members_.contains(input.node) &&
                            operands.emplace(input, static_cast<int64_t>(cluster.inputs.size())).second;
        if (is_new) cluster.inputs.push_back(input);
      }
    }
    const int64_t num_inputs = static_cast<int64_t>(cluster.inputs.size());
    const auto add = [&](std::string op, int64_t x, int64_t y) {
      cluster.ops.push_back(std::move(op));
      cluster.operands.insert(cluster.operands.end(), {x, y});
      return num_inputs + static_cast<int64_t>(cluster.ops.size()) - 1;
    };
    for (Node* const node : nodes_) {
      const std::string op = node->op_name() == "AddN" ? "AddV2" : node->op_name();
      int64_t result = operands.at(node->input(0));
      if (node->num_inputs() == 1) result = add(op, result, kNoOperand);
      for (int i = 1; i < node->num_inputs(); ++i) result = add(op, result, operands.at(node->input(i)));
      operands.emplace(node->output(0), result);
    }
    cluster.nodes = std::move(nodes_);
    return cluster;
  }

  const ElementwiseClusterOps& ops_;
  Node& last_;
  ClusterQuestions& questions_;
  std::vector<Node*> nodes_;
  absl::flat_hash_set<const Node*> members_;
  std::map<int, Node*> candidates_;  // by position
  int num_ops_ = 0;
};

}  // namespace

ElementwiseClusterOps::ElementwiseClusterOps(const OpRegistry& registry) {
  for (const char* const name : kNames) {
    if (const Op* const op = registry.Find(name)) ops_.insert(op);
  }
}

absl::Span<const char* const> ElementwiseClusterOps::Names() { return kNames; }

ElementwiseCluster ElementwiseClusterOps::FindCluster(Node& last, ClusterQuestions& questions) const {
  return Search(*this, last, questions).Run();
}

}  // namespace weir
