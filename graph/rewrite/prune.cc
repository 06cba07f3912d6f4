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

  // Copies what the roots depend on, sources before consumers; loops of v1 control flow are closed
  // afterwards.
  absl::Status CopyNeeded(absl::Span<const Output> fetches, absl::Span<Node* const> targets) {
    const std::vector<bool> needed = FindNeeded(fetches, targets);
    for (const auto& node : graph_.nodes()) {
      if (needed[node->id()]) copies_[node->id()] = pruned_->AddCopy(*node, {}, {});
    }
    for (const auto& node : graph_.nodes()) {
      if (needed[node->id()]) WEIR_RETURN_IF_ERROR(Connect(*node));
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

  absl::Status Connect(const Node& node) {
    std::vector<Output> inputs;
    inputs.reserve(node.num_inputs());
    for (const Output& input : node.inputs()) {
      Node* const arg = ArgOf(input);
      inputs.push_back(arg == nullptr ? Output{copies_[input.node->id()], input.index} : Output{arg, 0});
    }
    WEIR_RETURN_IF_ERROR(LeaveOutUnneeded(node, inputs));
    std::vector<Node*> control;
    for (const Node* before : node.control_inputs()) {
      if (!IsFedPlaceholder(*before)) control.push_back(copies_[before->id()]);
    }
    pruned_->Connect(copies_[node.id()], std::move(inputs), std::move(control));
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::unique_ptr<Graph> pruned_;
  std::vector<Node*> copies_;  // by id in graph_
  absl::flat_hash_map<Output, Node*> args_;
  std::vector<bool> is_fed_;  // by id in graph_: nodes of which some output is fed
  // Of results of calls of which not all outputs are needed.
  absl::flat_hash_map<const Node*, std::vector<bool>> needed_inputs_;
};

}  // namespace

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
