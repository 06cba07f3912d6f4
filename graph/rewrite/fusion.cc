#include "graph/rewrite/fusion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/fused_name.h"
#include "graph/fused_ops.h"
#include "graph/loops.h"
#include "graph/rewrite/consumers.h"
#include "graph/rewrite/cycles.h"
#include "graph/rewrite/elementwise_cluster.h"
#include "graph/rewrite/known_shape.h"
#include "graph/rewrite/symbolic_shapes.h"
#include "graph/rewrite/waiting_nodes.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// How far the search for a path goes before a fusion is given up.
constexpr int kMaxSearched = 1000;

bool IsActivation(const std::string& op) {
  return op == "Relu" || op == "Relu6" || op == "Elu" || op == "LeakyRelu" || op == "Tanh" || op == "Sigmoid";
}

// Ops that read of a tensor its shape only.
bool ReadsOnlyShape(const std::string& op) {
  return op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank";
}

class Fuser : private ClusterQuestions {
 public:
  Fuser(const HasKernelFor& has_kernel, const RewriteOptions& options, Waits waits,
        std::unique_ptr<Graph>& graph)
      : has_kernel_(has_kernel),
        options_(options),
        waits_may_grow_(waits == Waits::kMayGrow),
        graph_(graph),
        cluster_ops_(graph->ops()) {}

  absl::Status Fuse() {
    if (!HasSomethingToFuse()) return absl::OkStatus();
    consumers_.emplace(*graph_);
    WEIR_ASSIGN_OR_RETURN(order_, graph_->TopologicalOrder());
    num_nodes_ = graph_->num_nodes();
    position_.resize(num_nodes_);
    for (int i = 0; i < num_nodes_; ++i) position_[order_[i]->id()] = i;
    stands_for_.resize(num_nodes_, nullptr);
    ends_as_.resize(num_nodes_, nullptr);
    has_control_flow_ = HasControlFlow(*graph_);
    waiting_.emplace(order_);
    // From the end, so that the longest pattern is found first.
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      if (!IsFused(**node) && MayEndPattern(**node)) FuseAt(**node);
    }
    if (options_.fuses_elementwise) {
      for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
        if (cluster_ops_.Contains(**node) && !IsFused(**node)) FuseElementwise(**node);
      }
    }
    // The second time, if there is one, nothing is given up any more.
    while (!new_outputs_.empty()) {
      if (Rebuild()) return absl::OkStatus();
    }
    std::vector<bool> keep(graph_->num_nodes(), false);
    std::fill_n(keep.begin(), num_nodes_, true);
    graph_->KeepOnly(keep);
    return absl::OkStatus();
  }

 private:
  // Every pattern has one of these ops, or two of elementwise clusters.
  bool HasSomethingToFuse() const {
    std::vector<const Op*> ops;
    for (const char* name : {"MatMul", "Conv2D", "FusedBatchNormV3", "FusedBatchNormGradV3"}) {
      if (const Op* op = graph_->ops().Find(name)) ops.push_back(op);
    }
    return std::any_of(graph_->nodes().begin(), graph_->nodes().end(), [&](const auto& node) {
      return std::find(ops.begin(), ops.end(), &node->op()) != ops.end() ||
             (options_.fuses_elementwise && cluster_ops_.Contains(*node));
    });
  }

  static bool MayEndPattern(const Node& node) {
    const std::string& op = node.op_name();
    return op == "BiasAdd" || op == "Add" || op == "AddV2" || IsActivation(op) ||
           op == "FusedBatchNormGradV3";
  }

  void FuseAt(Node& node) {
    const std::string& op = node.op_name();
    if (op == "FusedBatchNormGradV3") return FuseBatchNormGrad(node);
    if (op == "Relu" && FuseBatchNorm(node)) return;
    FuseBias(node);
  }

  bool IsFused(const Node& node) const { return stands_for_[node.id()] != nullptr; }

  // --- What fits a pattern. ---

  bool AreTogether(const Node& a, const Node& b) const {
    return a.assigned_device() == b.assigned_device() && !IsFused(a) && !IsFused(b);
  }

  // The node of that op whose first output is the input, which nothing else reads. Who asks for its shape
  // reads the fused node's output, of the same shape; so no such reader may come before `node`.
  Node* OnlyReadProducer(Node& node, int input, absl::string_view op) {
    const Output& source = node.input(input);
    if (source.index != 0 || source.node->op_name() != op || !AreTogether(node, *source.node)) return nullptr;
    int num_readers = 0;
    for (const Consumers::Edge& edge : consumers_->Of(*source.node)) {
      if (edge.is_control()) return nullptr;
      if (edge.output != 0) continue;
      const bool may_read_later = MayReadShapeLater(*edge.consumer) && HaveOneShape(source, node.output(0)) &&
                                  !waiting_->WaitsForMore(node, *source.node) &&
                                  !MayReach(*edge.consumer, {&node});
      if (!may_read_later) ++num_readers;
    }
    return num_readers == 1 ? source.node : nullptr;
  }

  // The consumer can take the shape of a later tensor instead. With conditionals, that tensor may never be
  // computed.
  bool MayReadShapeLater(const Node& consumer) const {
    return waits_may_grow_ && !has_control_flow_ && ReadsOnlyShape(consumer.op_name());
  }

  bool HaveOneShape(const Output& a, const Output& b) override {
    if (a == b || HaveOneKnownShape(a.shape(), b.shape())) return true;
    if (!symbolic_shapes_) symbolic_shapes_.emplace(order_);
    return symbolic_shapes_->AreEqual(a, b);
  }

  bool IsReadWithin(Node& node, const absl::flat_hash_set<const Node*>& cluster) override {
    if (IsFused(node)) return false;
    const bool waits_for_more = std::any_of(cluster.begin(), cluster.end(), [&](const Node* member) {
      return waiting_->WaitsForMore(*member, node);
    });
    const auto edges = consumers_->Of(node);
    return std::all_of(edges.begin(), edges.end(), [&](const Consumers::Edge& edge) {
      if (edge.is_control()) return false;
      if (cluster.contains(edge.consumer)) return true;
      return MayReadShapeLater(*edge.consumer) && !waits_for_more &&
             !MayReach(*edge.consumer, {cluster.begin(), cluster.end()});
    });
  }

  int Position(const Node& node) override { return position_[node.id()]; }

  // Of nodes behind the first one. Where a pattern waits for more than its inputs it is left alone.
  static bool HasOnlyData(const Node& node) { return node.control_inputs().empty(); }

  // False when it is sure that no path leads from `from` to one of `to`: a node that did the work of both
  // would wait for itself.
  bool MayReach(const Node& from, const std::vector<const Node*>& to) const {
    std::vector<const Node*> stack(to.begin(), to.end());
    absl::flat_hash_set<const Node*> seen;
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (node == &from) return true;
      // Whatever comes from a node stands behind it in the order.
      if (position_[node->id()] < position_[from.id()]) continue;
      if (!seen.insert(node).second) continue;
      if (static_cast<int>(seen.size()) > kMaxSearched) return true;
      for (const Output& input : node->inputs()) stack.push_back(input.node);
      stack.insert(stack.end(), node->control_inputs().begin(), node->control_inputs().end());
    }
    return false;
  }

  // --- The patterns. ---

  // The bias of BiasAdd, or of a sum that adds a vector to every row; -1 where there is none.
  static int BiasInput(const Node& add, int product) {
    if (add.op_name() == "BiasAdd") return product == 0 ? 1 : -1;
    const PartialShape& bias = add.input(1 - product).shape();
    const PartialShape& matrix = add.input(product).shape();
    const bool is_vector = bias.rank() == 1 && matrix.rank() == 2 && bias.dim(0) >= 0;
    return is_vector && bias.dim(0) == matrix.dim(1) ? 1 - product : -1;
  }

  void FuseBias(Node& last) {
    Node* add = &last;
    if (IsActivation(last.op_name())) {
      for (const char* op : {"BiasAdd", "AddV2", "Add"}) {
        if ((add = OnlyReadProducer(last, 0, op)) != nullptr) break;
      }
      if (add == nullptr || !HasOnlyData(last)) return;
    }
    if (!HasOnlyData(*add)) return;
    const bool is_sum = add->op_name() != "BiasAdd";
    for (int input = 0; input < (is_sum ? 2 : 1); ++input) {
      const int bias = BiasInput(*add, input);
      if (bias < 0) continue;
      Node* product = OnlyReadProducer(*add, input, "MatMul");
      if (product != nullptr) return FuseMatMul(*product, *add, bias, last);
      product = is_sum ? nullptr : OnlyReadProducer(*add, input, "Conv2D");
      if (product != nullptr) return FuseConvolution(*product, *add, last);
    }
  }

  static std::vector<std::string> FusedOps(const Node& add, const Node& last) {
    std::vector<std::string> ops = {"BiasAdd"};
    if (&add != &last) ops.push_back(last.op_name());
    return ops;
  }

  static void AddActivationAttrs(const Node& last, AttrMap& attrs) {
    if (last.op_name() == "LeakyRelu") attrs.emplace("leakyrelu_alpha", last.attr<float>("alpha"));
  }

  void FuseMatMul(Node& product, Node& add, int bias, Node& last) {
    AttrMap attrs = {{"transpose_a", product.attr<bool>("transpose_a")},
                     {"transpose_b", product.attr<bool>("transpose_b")},
                     {"num_args", 1},
                     {"fused_ops", FusedOps(add, last)}};
    AddActivationAttrs(last, attrs);
    Node* const fused =
        AddFused(kFusedMatMulOp, {product.input(0), product.input(1), OneInput(add.input(bias))},
                 std::move(attrs), product, last);
    if (fused != nullptr) Replace({&product, &add}, last, *fused);
  }

  void FuseConvolution(Node& product, Node& add, Node& last) {
    const bool is_supported = &last == &add || last.op_name() == "Relu";
    if (!is_supported || !options_.may_change_rounding ||
        add.attr<std::string>("data_format") != product.attr<std::string>("data_format")) {
      return;
    }
    AttrMap attrs = {{"num_args", 1}, {"fused_ops", FusedOps(add, last)}};
    for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations"}) {
      attrs.emplace(name, *product.FindAttr(name));
    }
    AddActivationAttrs(last, attrs);
    Node* const fused = AddFused(
        kFusedConv2DOp, {product.input(0), product.input(1), OneInput(add.input(1)), std::vector<Output>()},
        std::move(attrs), product, last);
    if (fused != nullptr) Replace({&product, &add}, last, *fused);
  }

  bool FuseBatchNorm(Node& relu) {
    if (!HasOnlyData(relu)) return false;
    if (Node* const norm = OnlyReadProducer(relu, 0, "FusedBatchNormV3")) {
      return FuseBatchNorm(*norm, nullptr, Output(), relu);
    }
    for (const char* op : {"AddV2", "Add"}) {
      Node* const add = OnlyReadProducer(relu, 0, op);
      if (add == nullptr || !HasOnlyData(*add) || has_control_flow_) continue;
      for (int input = 0; input < 2; ++input) {
        Node* const norm = OnlyReadProducer(*add, input, "FusedBatchNormV3");
        const Output side = add->input(1 - input);
        if (norm == nullptr || !HaveOneShape(norm->output(0), side)) continue;
        const bool may_wait = waits_may_grow_ && !waiting_->WaitsForMore(*add, *norm);
        if (!may_wait && consumers_->Of(*norm).size() > 1) continue;
        if (MayReach(*norm, {side.node})) continue;
        if (FuseBatchNorm(*norm, add, side, relu)) return true;
      }
    }
    return false;
  }

  bool FuseBatchNorm(Node& norm, Node* add, Output side, Node& relu) {
    std::vector<InputArg> inputs(norm.inputs().begin(), norm.inputs().end());
    std::vector<Output> sides;
    if (add != nullptr) sides.push_back(side);
    const int num_sides = static_cast<int>(sides.size());
    inputs.push_back(std::move(sides));
    AttrMap attrs = {
        {"U", norm.attr<DType>("U")}, {"num_side_inputs", num_sides}, {"activation_mode", "Relu"}};
    for (const char* name : {"epsilon", "exponential_avg_factor", "data_format", "is_training"}) {
      attrs.emplace(name, *norm.FindAttr(name));
    }
    Node* const fused = AddFused(kFusedBatchNormOp, std::move(inputs), std::move(attrs), norm, relu);
    if (fused == nullptr) return false;
    Replace({&norm, add}, relu, *fused);
    for (int i = 1; i < norm.num_outputs(); ++i) new_outputs_[norm.output(i)] = fused->output(i);
    return true;
  }

  void FuseBatchNormGrad(Node& grad) {
    const Output dy = grad.input(0), reserved = grad.input(3);
    Node* const relu_grad = dy.node;
    if (relu_grad->op_name() != "ReluGrad" || !AreTogether(grad, *relu_grad) || !HasOnlyData(grad)) return;
    // The fused op wants to know the offset: that of the normalization whose moments these are.
    const std::string& norm_op = reserved.node->op_name();
    if (norm_op != "FusedBatchNormV3" || reserved.index != 3) return;
    const Output offset = reserved.node->input(2);
    const std::vector<const Node*> others = {grad.input(1).node, grad.input(2).node, grad.input(3).node,
                                             grad.input(4).node, grad.input(5).node, offset.node};
    const auto edges = consumers_->Of(*relu_grad);
    const bool is_shared = edges.size() > 1;
    if (is_shared && (!waits_may_grow_ || has_control_flow_ || waiting_->WaitsForMore(grad, *relu_grad) ||
                      MayReach(*relu_grad, others) ||
                      std::any_of(edges.begin(), edges.end(),
                                  [](const Consumers::Edge& edge) { return edge.is_control(); }))) {
      return;
    }
    AttrMap attrs = {
        {"U", grad.attr<DType>("U")}, {"num_side_inputs", is_shared ? 1 : 0}, {"activation_mode", "Relu"}};
    for (const char* name : {"epsilon", "data_format", "is_training"}) {
      attrs.emplace(name, *grad.FindAttr(name));
    }
    std::vector<InputArg> inputs(grad.inputs().begin(), grad.inputs().end());
    inputs[0] = relu_grad->input(0);
    inputs.push_back(offset);
    inputs.push_back(relu_grad->input(1));
    Node* const fused =
        AddFused(kFusedBatchNormGradOp, std::move(inputs), std::move(attrs), *relu_grad, grad);
    if (fused == nullptr) return;
    Replace({relu_grad}, grad, *fused);
    for (int i = 1; i < grad.num_outputs(); ++i) new_outputs_[grad.output(i)] = fused->output(i);
    if (is_shared) new_outputs_[relu_grad->output(0)] = fused->output(grad.num_outputs());
  }

  void FuseElementwise(Node& last) {
    const bool has_company = std::any_of(
        last.inputs().begin(), last.inputs().end(),
        [&](const Output& input) { return cluster_ops_.Contains(*input.node) && !IsFused(*input.node); });
    if (!has_company) return;
    ElementwiseCluster cluster = cluster_ops_.FindCluster(last, *this);
    if (cluster.nodes.empty()) return;
    AttrMap attrs = {{"ops", std::move(cluster.ops)}, {"operands", std::move(cluster.operands)}};
    Node* const fused = AddFused(kFusedElementwiseOp, {InputArg(std::move(cluster.inputs))}, std::move(attrs),
                                 *cluster.nodes.front(), last);
    if (fused == nullptr) return;
    cluster.nodes.pop_back();
    Replace(cluster.nodes, last, *fused);
  }

  // --- The graph that comes of it. ---

  static InputArg OneInput(Output output) { return InputArg(std::vector<Output>{output}); }

  // Null where the schema or the device has none. The node keeps the control inputs of the pattern's first.
  Node* AddFused(const char* op, std::vector<InputArg> inputs, AttrMap attrs, const Node& first,
                 const Node& last) {
    std::string name = absl::StrCat(last.name(), kFusedSuffix);
    while (graph_->FindNode(name) != nullptr) name += "_";
    const absl::StatusOr<Node*> fused =
        graph_->AddNode({.op = op,
                         .name = std::move(name),
                         .inputs = std::move(inputs),
                         .control_inputs = {first.control_inputs().begin(), first.control_inputs().end()},
                         .attrs = std::move(attrs),
                         .device = last.requested_device(),
                         .source = last.source()});
    if (!fused.ok()) return nullptr;
    graph_->SetAssignedDevice(*fused, last.assigned_device());
    return has_kernel_(**fused, *last.assigned_device().type) ? *fused : nullptr;
  }

  // The nodes (null ones are none) and `last`, whose first output the fused node gives. Of the others' first
  // outputs only the shape is read still.
  void Replace(absl::Span<Node* const> nodes, Node& last, Node& fused) {
    ends_as_[last.id()] = &fused;
    stands_for_[last.id()] = &fused;
    new_outputs_[last.output(0)] = fused.output(0);
    for (Node* node : nodes) {
      if (node == nullptr) continue;
      stands_for_[node->id()] = &fused;
      new_outputs_[node->output(0)] = fused.output(0);
    }
  }

  // The same nodes in the same order, which tells executors what to run first, with each fused node where its
  // pattern ended. False, and the graph is not changed, if that has a cycle: MayReach looks at one pattern at
  // a time, but two that feed each other would wait for each other. Those are given up.
  bool Rebuild() {
    auto rebuilt = std::make_unique<Graph>(graph_->ops());
    std::vector<Node*> copies(graph_->num_nodes(), nullptr);
    std::vector<Node*> originals;
    for (int id = 0; id < num_nodes_; ++id) {
      Node* const node = IsFused(*graph_->node(id)) ? ends_as_[id] : graph_->node(id);
      if (node == nullptr) continue;
      copies[node->id()] = rebuilt->AddCopy(*node, {}, {});
      originals.push_back(node);
    }
    for (const Node* node : originals) {
      std::vector<Output> inputs;
      inputs.reserve(node->num_inputs());
      for (const Output& input : node->inputs()) {
        const auto moved = new_outputs_.find(input);
        const Output source = moved == new_outputs_.end() ? input : moved->second;
        inputs.push_back({copies[source.node->id()], source.index});
      }
      std::vector<Node*> control_inputs;
      for (Node* before : node->control_inputs()) {
        const Node* const source =
            before->id() < num_nodes_ && IsFused(*before) ? stands_for_[before->id()] : before;
        control_inputs.push_back(copies[source->id()]);
      }
      rebuilt->Connect(copies[node->id()], std::move(inputs), std::move(control_inputs));
    }
    rebuilt->variables() = graph_->variables();
    rebuilt->collections() = graph_->collections();
    if (!rebuilt->TopologicalOrder().ok()) {
      GiveUp(NodesOnCycles(*rebuilt), originals);
      return false;
    }
    graph_ = std::move(rebuilt);
    return true;
  }

  // The fused ones of `nodes` that are on a cycle: there is one on each.
  void GiveUp(const std::vector<bool>& is_on_cycle, const std::vector<Node*>& nodes) {
    absl::flat_hash_set<const Node*> given_up;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (is_on_cycle[i] && nodes[i]->id() >= num_nodes_) given_up.insert(nodes[i]);
    }
    for (int id = 0; id < num_nodes_; ++id) {
      if (given_up.contains(stands_for_[id])) stands_for_[id] = ends_as_[id] = nullptr;
    }
    absl::erase_if(new_outputs_, [&](const auto& moved) { return given_up.contains(moved.second.node); });
  }

  const HasKernelFor& has_kernel_;
  const RewriteOptions options_;
  const bool waits_may_grow_;
  std::unique_ptr<Graph>& graph_;
  std::optional<Consumers> consumers_;  // of the graph as it was placed
  const ElementwiseClusterOps cluster_ops_;
  std::optional<WaitingNodes> waiting_;            // the same
  std::optional<SymbolicShapes> symbolic_shapes_;  // the same, when asked for
  std::vector<Node*> order_;                       // the same
  int num_nodes_ = 0;                              // without the fused ones
  std::vector<int> position_;                      // by node id: in a topological order
  std::vector<Node*> stands_for_;                  // by node id: the fused node that does its work
  std::vector<Node*> ends_as_;                     // the same for the last nodes of patterns
  absl::flat_hash_map<Output, Output> new_outputs_;
  bool has_control_flow_ = false;
};

}  // namespace

absl::Status FuseNodes(std::unique_ptr<Graph>& graph, const HasKernelFor& has_kernel,
                       const RewriteOptions& options, Waits waits) {
  if (!options.is_enabled) return absl::OkStatus();
  return Fuser(has_kernel, options, waits, graph).Fuse();
}

}  // namespace weir
