#include "graph/rewrite/prune.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

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
  void CopyNeeded(absl::Span<const Output> fetches, absl::Span<Node* const> targets) {
    std::vector<bool> needed(graph_.num_nodes(), false);
    std::vector<const Node*> stack;
    const auto need = [&](const Node* node) {
      if (!needed[node->id()]) {
        needed[node->id()] = true;
        stack.push_back(node);
      }
    };
    for (const Output& fetch : fetches) need(fetch.node);
    for (Node* target : targets) need(target);
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      for (const Output& input : node->inputs()) {
        if (ArgOf(input) == nullptr) need(input.node);
      }
      for (const Node* before : node->control_inputs()) {
        if (!IsFedPlaceholder(*before)) need(before);
      }
    }
    for (const auto& node : graph_.nodes()) {
      if (needed[node->id()]) copies_[node->id()] = pruned_->AddCopy(*node, {}, {});
    }
    for (const auto& node : graph_.nodes()) {
      if (needed[node->id()]) Connect(*node);
    }
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

  void Connect(const Node& node) {
    std::vector<Output> inputs;
    inputs.reserve(node.num_inputs());
    for (const Output& input : node.inputs()) {
      Node* const arg = ArgOf(input);
      inputs.push_back(arg == nullptr ? Output{copies_[input.node->id()], input.index} : Output{arg, 0});
    }
    std::vector<Node*> control;
    for (const Node* before : node.control_inputs()) {
      if (!IsFedPlaceholder(*before)) control.push_back(copies_[before->id()]);
    }
    pruned_->Connect(copies_[node.id()], std::move(inputs), std::move(control));
  }

  const Graph& graph_;
  std::unique_ptr<Graph> pruned_;
  std::vector<Node*> copies_;  // by id in graph_
  absl::flat_hash_map<Output, Node*> args_;
  std::vector<bool> is_fed_;  // by id in graph_: nodes of which some output is fed
};

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> PruneToSignature(const Graph& graph, absl::Span<const Output> feeds,
                                                        absl::Span<const Output> fetches,
                                                        absl::Span<Node* const> targets) {
  SignaturePruner pruner(graph);
  WEIR_RETURN_IF_ERROR(pruner.AddFeeds(feeds));
  pruner.CopyNeeded(fetches, targets);
  WEIR_RETURN_IF_ERROR(pruner.AddFetches(fetches));
  return pruner.Take();
}

}  // namespace weir
