#include "graph/rewrite/constant_folding.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/loops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

class Folder {
 public:
  Folder(Graph& graph, const NodeEvaluator& evaluate, const ConstantFoldingOptions& options)
      : graph_(graph), evaluate_(evaluate), options_(options) {}

  absl::Status Fold() {
    WEIR_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.TopologicalOrder());
    const size_t num_nodes = order.size();
    std::vector<bool> is_folded(num_nodes, false);
    FindConditional(order);
    for (Node* node : order) {
      if (node->op_name() == "Const" && node->control_inputs().empty()) {
        values_.emplace(node->output(0), node->attr<Tensor>("value"));
      } else if (std::optional<std::vector<Tensor>> outputs = Evaluate(*node)) {
        is_folded[node->id()] = true;
        for (int i = 0; i < node->num_outputs(); ++i) values_.emplace(node->output(i), (*outputs)[i]);
      }
    }
    for (Node* node : order) {
      if (!is_folded[node->id()]) WEIR_RETURN_IF_ERROR(UseConstants(*node, is_folded));
    }
    is_folded.resize(graph_.num_nodes(), false);
    is_folded.flip();
    graph_.KeepOnly(is_folded);
    return absl::OkStatus();
  }

 private:
  std::optional<std::vector<Tensor>> Evaluate(const Node& node) {
    if (!IsCandidate(node)) return std::nullopt;
    if (is_conditional_[node.id()]) return std::nullopt;
    // Those that it comes before come after its input, too.
    if (!is_waited_for_[node.id()]) {
      if (std::optional<Tensor> known = KnownFromShape(node)) return std::vector<Tensor>{*std::move(known)};
    }
    if (IsKnownToBeLarge(node)) return std::nullopt;
    std::vector<Tensor> inputs;
    for (const Output& input : node.inputs()) {
      auto value = values_.find(input);
      if (value == values_.end()) return std::nullopt;
      inputs.push_back(value->second);
    }
    absl::StatusOr<std::vector<Tensor>> outputs = evaluate_(node, inputs);
    if (!outputs.ok()) return std::nullopt;
    for (const Tensor& output : *outputs) {
      if (static_cast<int64_t>(output.num_bytes()) > options_.max_bytes_per_constant) return std::nullopt;
    }
    return *std::move(outputs);
  }

  // Marks what may be dead or belong to a loop: a constant in its place would always be there. And what
  // others wait for, without its value.
  void FindConditional(const std::vector<Node*>& order) {
    is_conditional_.resize(order.size(), false);
    is_waited_for_.resize(order.size(), false);
    for (const Node* node : order) {
      for (const Node* before : node->control_inputs()) is_waited_for_[before->id()] = true;
      const auto may_be_dead = [this](const Node* before) { return is_conditional_[before->id()]; };
      is_conditional_[node->id()] =
          IsControlFlow(*node) ||
          std::any_of(node->inputs().begin(), node->inputs().end(),
                      [&](const Output& input) { return may_be_dead(input.node); }) ||
          std::any_of(node->control_inputs().begin(), node->control_inputs().end(), may_be_dead);
    }
  }

  static bool IsCandidate(const Node& node) {
    if (node.op().is_stateful() || node.num_inputs() == 0 || node.num_outputs() == 0) return false;
    if (!node.control_inputs().empty() || node.op_name() == "PlaceholderWithDefault") return false;
    return std::all_of(node.output_types().begin(), node.output_types().end(), IsPlainBytes);
  }

  // Before there is memory for it, and time is spent.
  bool IsKnownToBeLarge(const Node& node) const {
    for (int i = 0; i < node.num_outputs(); ++i) {
      const PartialShape& shape = node.output_shape(i);
      if (!shape.is_fully_known()) continue;
      const int64_t size = static_cast<int64_t>(DTypeSize(node.output_type(i)));
      if (shape.ToShape().num_elements() > options_.max_bytes_per_constant / size) return true;
    }
    return false;
  }

  static std::optional<Tensor> KnownFromShape(const Node& node) {
    const std::string& op = node.op_name();
    if (op != "Shape" && op != "Size" && op != "Rank") return std::nullopt;
    const PartialShape& shape = node.input(0).shape();
    if (op == "Rank" && shape.has_rank()) return Tensor::Scalar<int32_t>(shape.rank());
    if (op == "Rank" || !shape.is_fully_known()) return std::nullopt;
    const bool is_wide = node.output_type(0) == DType::kInt64;
    if (op == "Size") return Integers({}, {shape.ToShape().num_elements()}, is_wide);
    return Integers(Shape({shape.rank()}), shape.dims(), is_wide);
  }

  static std::optional<Tensor> Integers(const Shape& shape, absl::Span<const int64_t> values, bool is_wide) {
    if (is_wide) return Tensor::FromSpan<int64_t>(shape, values);
    if (std::any_of(values.begin(), values.end(), [](int64_t value) { return value > INT32_MAX; }))
      return std::nullopt;
    return Tensor::FromSpan<int32_t>(shape, std::vector<int32_t>(values.begin(), values.end()));
  }

  absl::Status UseConstants(Node& node, const std::vector<bool>& is_folded) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output input = node.input(i);
      const int id = input.node->id();
      if (id >= static_cast<int>(is_folded.size()) || !is_folded[id]) continue;
      WEIR_ASSIGN_OR_RETURN(Output constant, ConstantFor(input));
      graph_.SetInput(&node, i, constant);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Output> ConstantFor(const Output& output) {
    auto [known, is_new] = constants_.emplace(output, Output());
    if (!is_new) return known->second;
    std::string name = absl::StrCat(output.node->name(), "/folded_", output.index);
    while (graph_.FindNode(name) != nullptr) name += "_";
    const Tensor& value = values_.at(output);
    WEIR_ASSIGN_OR_RETURN(Node * constant,
                          graph_.AddNode({.op = "Const",
                                          .name = std::move(name),
                                          .attrs = {{"value", value}, {"dtype", value.dtype()}},
                                          .device = output.node->requested_device(),
                                          .source = output.node->source()}));
    return known->second = constant->output(0);
  }

  Graph& graph_;
  const NodeEvaluator& evaluate_;
  const ConstantFoldingOptions& options_;
  std::vector<bool> is_conditional_;  // by node id
  std::vector<bool> is_waited_for_;   // by node id
  absl::flat_hash_map<Output, Tensor> values_;
  absl::flat_hash_map<Output, Output> constants_;
};

}  // namespace

absl::Status FoldConstants(Graph& graph, const NodeEvaluator& evaluate,
                           const ConstantFoldingOptions& options) {
  return Folder(graph, evaluate, options).Fold();
}

}  // namespace weir
