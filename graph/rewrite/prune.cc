#include "graph/rewrite/prune.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"

namespace weir {
namespace {

bool HasForgottenShape(const Node& node) {
  if (node.op_name() != "VarHandleOp" || !node.resource_type(0)) return false;
  const AttrValue* const declared = node.FindAttr("shape");
  return declared != nullptr && node.resource_type(0)->shape.has_rank() &&
         *declared == AttrValue(PartialShape());
}

class SignaturePruner {
 public:
  explicit SignaturePruner(const Graph& graph)
      : graph_(graph),
        pruned_(std::make_unique<Graph>(graph.ops())),
        copies_(graph.num_nodes(), nullptr),
        is_fed_(graph.num_nodes(), false) {}

  absl::Status AddFeeds(absl::Span<const Output> feeds) {
    for (size_t i = 0; i < feeds.size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(
          Node * arg, pruned_->AddNode({.op = kArgOp,
                                        .name = FreeName("_arg", feeds[i], i),
                                        .attrs = {{"T", feeds[i].dtype()},
                                                  {"index", static_cast<int64_t>(i)},
                                                  {kShapesAttr, std::vector<PartialShape>{feeds[i].shape()}}},
                                        .device = feeds[i].node->requested_device(),
                                        .source = feeds[i].node->source()}));
      if (!args_.emplace(feeds[i], arg).second) {
        return absl::InvalidArgumentError(absl::StrCat("'", feeds[i].name(), "' is fed twice"));
      }
      is_fed_[feeds[i].node->id()] = true;
    }
    return absl::OkStatus();
  }

  // Copies what the roots depend on. What depends on a feed whose value may have been known is inferred anew,
  // sources before consumers; loops of v1 control flow are closed afterwards.
  absl::Status CopyNeeded(absl::Span<const Output> fetches, absl::Span<Node* const> targets) {
    const std::vector<bool> needed = FindNeeded(fetches, targets);
    FindOutdated();
    for (const auto& node : graph_.nodes()) {
      if (needed[node->id()] && !IsOutdated(*node)) {
        copies_[node->id()] = pruned_->AddCopy(*node, {}, {});
      }
    }
    // Before what is inferred anew, which looks at the values of its sources.
    for (const auto& node : graph_.nodes()) {
      if (needed[node->id()] && !IsOutdated(*node)) WEIR_RETURN_IF_ERROR(Connect(*node));
    }
    if (!outdated_.empty()) WEIR_RETURN_IF_ERROR(InferAnew(needed));
    for (const auto& [node, before] : later_controls_) {
      pruned_->AddControlInput(copies_[node->id()], copies_[before->id()]);
    }
    return absl::OkStatus();
  }

  absl::Status AddFetches(absl::Span<const Output> fetches) {
    for (size_t i = 0; i < fetches.size(); ++i) {
      if (args_.contains(fetches[i])) {
        return absl::InvalidArgumentError(absl::StrCat("'", fetches[i].name(), "' is both fed and fetched"));
      }
      const Output source = {copies_[fetches[i].node->id()], fetches[i].index};
      WEIR_RETURN_IF_ERROR(pruned_
                               ->AddNode({.op = kRetvalOp,
                                          .name = FreeName("_retval", fetches[i], i),
                                          .inputs = {source},
                                          .attrs = {{"index", static_cast<int64_t>(i)},
                                                    {"_class", std::vector<std::string>{absl::StrCat(
                                                                   "loc:@", source.node->name())}}},
                                          .source = source.node->source()})
                               .status());
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Graph> Take() { return std::move(pruned_); }

 private:
  static constexpr int kAllInputs = -1;

  // The outputs of a call are independent of one another, however many tensors its results carry.
  static bool IsResultOfCall(const Node& node) {
    return node.op_name() == "IdentityN" && node.FindAttr(kResultsOfCallAttr) != nullptr;
  }

  // By id in graph_. Notes which inputs of results of calls are needed, where not all are.
  std::vector<bool> FindNeeded(absl::Span<const Output> fetches, absl::Span<Node* const> targets) {
    std::vector<bool> needed(graph_.num_nodes(), false);
    std::vector<std::pair<const Node*, int>> stack;  // a node, and which of its inputs
    const auto need = [&](const Node* node) {
      const bool is_partly_needed = needed_inputs_.erase(node) > 0;
      if (needed[node->id()] && !is_partly_needed) return;
      needed[node->id()] = true;
      stack.emplace_back(node, kAllInputs);
    };
    const auto need_controls = [&](const Node& node) {
      for (const Node* before : node.control_inputs()) {
        if (!IsFedPlaceholder(*before)) need(before);
      }
    };
    // Control inputs are needed once, its inputs one by one.
    const auto need_output = [&](const Output& output) {
      const Node* const node = output.node;
      if (!IsResultOfCall(*node)) return need(node);
      const auto known = needed_inputs_.find(node);
      if (needed[node->id()] && known == needed_inputs_.end()) return;
      std::vector<bool>& inputs = known == needed_inputs_.end() ? needed_inputs_[node] : known->second;
      const auto need_input = [&](int i) {
        if (inputs[i]) return;
        inputs[i] = true;
        stack.emplace_back(node, i);
      };
      if (!needed[node->id()]) {
        needed[node->id()] = true;
        inputs.resize(node->num_inputs());
        for (int i = 0; i < node->num_inputs(); ++i) {
          if (!CanBeLeftOut(node->input(i).dtype())) need_input(i);
        }
        need_controls(*node);
      }
      need_input(output.index);
    };
    for (const Output& fetch : fetches) need_output(fetch);
    for (Node* target : targets) need(target);
    while (!stack.empty()) {
      const auto [node, input] = stack.back();
      stack.pop_back();
      if (input != kAllInputs) {
        if (ArgOf(node->input(input)) == nullptr) need_output(node->input(input));
        continue;
      }
      for (const Output& each : node->inputs()) {
        if (ArgOf(each) == nullptr) need_output(each);
      }
      need_controls(*node);
    }
    return needed;
  }

  // What has no constant has no stand-in.
  static bool CanBeLeftOut(DType dtype) { return dtype != DType::kResource && dtype != DType::kVariant; }

  // What an input that nobody needs is connected to: an empty constant, which is dead, and in a loop, where
  // `beside` is.
  absl::StatusOr<Output> UnneededInput(const Node& node, int index, const Output& beside) {
    const DType dtype = node.input(index).dtype();
    WEIR_ASSIGN_OR_RETURN(
        Node* const constant,
        pruned_->AddNode({.op = "Const",
                          .name = FreeName("_unneeded", {const_cast<Node*>(&node), index}, index),
                          .control_inputs = {beside.node},
                          .attrs = {{"value", Tensor(dtype, Shape({0}))},
                                    {"dtype", dtype},
                                    {"_class", std::vector<std::string>{absl::StrCat("loc:@", node.name())}}},
                          .device = node.requested_device(),
                          .source = node.source()}));
    return constant->output(0);
  }

  // What leads to inputs that nobody needs is not there, or need not run for this node.
  absl::Status LeaveOutUnneeded(const Node& node, std::vector<Output>& inputs) {
    const auto found = needed_inputs_.find(&node);
    if (found == needed_inputs_.end()) return absl::OkStatus();
    const std::vector<bool>& needed = found->second;
    // Handles come from outside of branches and loops, and all of them are needed.
    size_t beside = needed.size();
    for (size_t i = needed.size(); i-- > 0;) {
      if (needed[i] && (beside == needed.size() || CanBeLeftOut(inputs[i].dtype()))) beside = i;
    }
    for (size_t i = 0; i < needed.size(); ++i) {
      if (needed[i] || ArgOf(node.input(static_cast<int>(i))) != nullptr) continue;
      WEIR_ASSIGN_OR_RETURN(inputs[i], UnneededInput(node, static_cast<int>(i), inputs[beside]));
    }
    return absl::OkStatus();
  }

  std::string FreeName(absl::string_view prefix, const Output& output, size_t index) const {
    std::string name = absl::StrCat(prefix, "_", output.node->name(), "_", output.index, "_", index);
    while (graph_.FindNode(name) != nullptr) name += "_";
    return name;
  }

  // Its value is there before the step begins, so control edges from it order nothing.
  bool IsFedPlaceholder(const Node& node) const {
    return (node.op_name() == "Placeholder" || node.op_name() == "PlaceholderV2") &&
           ArgOf({const_cast<Node*>(&node), 0}) != nullptr;
  }

  // What stands in for a fed output; null for all others. Nearly all, so they are told apart without a
  // look-up.
  Node* ArgOf(const Output& output) const {
    if (!is_fed_[output.node->id()]) return nullptr;
    const auto found = args_.find(output);
    return found == args_.end() ? nullptr : found->second;
  }

  bool IsOutdated(const Node& node) const { return !outdated_.empty() && outdated_[node.id()]; }

  // The shapes of these nodes may come from the value of what is fed, where that of a placeholder was never
  // known, or from that of a variable.
  void FindOutdated() {
    std::vector<const Node*> open, variables;
    for (const auto& [output, arg] : args_) {
      if (!IsFedPlaceholder(*output.node)) open.push_back(output.node);
    }
    for (const auto& node : graph_.nodes()) {
      if (HasForgottenShape(*node)) variables.push_back(node.get());
    }
    open.insert(open.end(), variables.begin(), variables.end());
    if (open.empty()) return;
    std::vector<std::vector<const Node*>> consumers(graph_.num_nodes());
    for (const auto& node : graph_.nodes()) {
      for (const Output& input : node->inputs()) consumers[input.node->id()].push_back(node.get());
    }
    outdated_.resize(graph_.num_nodes(), false);
    for (const Node* variable : variables) outdated_[variable->id()] = true;
    while (!open.empty()) {
      const Node* const node = open.back();
      open.pop_back();
      for (const Node* consumer : consumers[node->id()]) {
        if (outdated_[consumer->id()]) continue;
        outdated_[consumer->id()] = true;
        open.push_back(consumer);
      }
    }
  }

  absl::Status InferAnew(const std::vector<bool>& needed) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    std::vector<const Node*> merges;
    for (const Node* node : order) {
      if (!needed[node->id()] || !IsOutdated(*node)) continue;
      WEIR_ASSIGN_OR_RETURN(Edges edges, EdgesOf(*node));
      bool is_open = false;
      for (Output& input : edges.inputs) {
        if (input) continue;
        // The end of a loop is not there yet: what enters the loop has its type.
        is_open = true;
        input = *std::find_if(edges.inputs.begin(), edges.inputs.end(),
                              [](const Output& each) { return !!each; });
      }
      WEIR_ASSIGN_OR_RETURN(Node* const copy, pruned_->AddNode({.op = node->op_name(),
                                                                .name = node->name(),
                                                                .inputs = AsArguments(*node, edges.inputs),
                                                                .control_inputs = std::move(edges.control),
                                                                .attrs = node->attrs(),
                                                                .device = node->requested_device(),
                                                                .source = node->source()}));
      pruned_->SetAssignedDevice(copy, node->assigned_device());
      copies_[node->id()] = copy;
      if (is_open) merges.push_back(node);
    }
    for (const Node* merge : merges) WEIR_RETURN_IF_ERROR(Connect(*merge));
    return absl::OkStatus();
  }

  // As the op's schema has them: one by one, or in lists.
  static std::vector<InputArg> AsArguments(const Node& node, const std::vector<Output>& inputs) {
    std::vector<InputArg> arguments;
    auto next = inputs.begin();
    for (const ArgDef& arg : node.op().inputs()) {
      size_t count = 1;
      if (!arg.number_attr.empty()) count = static_cast<size_t>(node.attr<int64_t>(arg.number_attr));
      if (!arg.type_list_attr.empty()) count = node.attr<std::vector<DType>>(arg.type_list_attr).size();
      const bool is_list = !arg.number_attr.empty() || !arg.type_list_attr.empty();
      arguments.push_back(is_list ? InputArg(std::vector<Output>(next, next + count)) : InputArg(*next));
      next += count;
    }
    return arguments;
  }

  struct Edges {
    std::vector<Output> inputs;
    std::vector<Node*> control;
  };

  absl::Status Connect(const Node& node) {
    WEIR_ASSIGN_OR_RETURN(Edges edges, EdgesOf(node));
    pruned_->Connect(copies_[node.id()], std::move(edges.inputs), std::move(edges.control));
    return absl::OkStatus();
  }

  // In the new graph. What has no copy yet is no node, and no control input yet.
  absl::StatusOr<Edges> EdgesOf(const Node& node) {
    std::vector<Output> inputs;
    inputs.reserve(node.num_inputs());
    for (const Output& input : node.inputs()) {
      Node* const arg = ArgOf(input);
      inputs.push_back(arg == nullptr ? Output{copies_[input.node->id()], input.index} : Output{arg, 0});
    }
    WEIR_RETURN_IF_ERROR(LeaveOutUnneeded(node, inputs));
    std::vector<Node*> control;
    for (const Node* before : node.control_inputs()) {
      if (IsFedPlaceholder(*before)) continue;
      if (copies_[before->id()] != nullptr) {
        control.push_back(copies_[before->id()]);
      } else {
        later_controls_.emplace_back(&node, before);
      }
    }
    return Edges{std::move(inputs), std::move(control)};
  }

  const Graph& graph_;
  std::unique_ptr<Graph> pruned_;
  std::vector<Node*> copies_;  // by id in graph_
  absl::flat_hash_map<Output, Node*> args_;
  std::vector<bool> is_fed_;    // by id in graph_: nodes of which some output is fed
  std::vector<bool> outdated_;  // by id in graph_; empty: none
  std::vector<std::pair<const Node*, const Node*>> later_controls_;  // a node, and one that it comes after
  // Of results of calls of which not all outputs are needed.
  absl::flat_hash_map<const Node*, std::vector<bool>> needed_inputs_;
};

}  // namespace

int64_t NumForgottenShapes(const Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [](const auto& node) { return HasForgottenShape(*node); });
}

absl::StatusOr<std::unique_ptr<Graph>> PruneToSignature(const Graph& graph, absl::Span<const Output> feeds,
                                                        absl::Span<const Output> fetches,
                                                        absl::Span<Node* const> targets) {
  SignaturePruner pruner(graph);
  WEIR_RETURN_IF_ERROR(pruner.AddFeeds(feeds));
  WEIR_RETURN_IF_ERROR(pruner.CopyNeeded(fetches, targets));
  WEIR_RETURN_IF_ERROR(pruner.AddFetches(fetches));
  return pruner.Take();
}

}  // namespace weir
