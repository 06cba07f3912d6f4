#include "tests/random_graphs/graph_case.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/types/status_macros.h"
#include "ops/register_ops.h"

namespace weir::random_graphs {
namespace {

class CaseCopy {
 public:
  CaseCopy(const GraphCase& original, const Edits& edits) : original_(original), edits_(edits) {
    copy_.builder = std::make_unique<GraphBuilder>(StandardOps());
    copy_.num_steps = original.num_steps;
    for (const auto& [output, value] : edits.constants) constants_.emplace(output, value);
    for (const auto& [output, value] : original.feeds) fed_.insert(output);
    fed_.insert(original.fetches.begin(), original.fetches.end());  // what is fetched cannot be fed
  }

  absl::StatusOr<GraphCase> Make() {
    FindNeeded();
    WEIR_RETURN_IF_ERROR(AddConstants());
    for (const Node* node : Order()) {
      if (needed_.contains(node)) WEIR_RETURN_IF_ERROR(Add(*node));
    }
    for (const auto& [node, copy] : copies_) WEIR_RETURN_IF_ERROR(Connect(*node, copy));
    WEIR_RETURN_IF_ERROR(graph().TopologicalOrder().status());
    WEIR_RETURN_IF_ERROR(CopySignature());
    return std::move(copy_);
  }

 private:
  Graph& graph() { return copy_.builder->graph(); }

  std::vector<const Node*> Order() const {
    if (!edits_.order.empty()) return edits_.order;
    std::vector<const Node*> order;
    for (const auto& node : original_.graph().nodes()) order.push_back(node.get());
    return order;
  }

  // What a consumer of `output` reads in the copy, as an output of the original.
  Output Source(Output output) const {
    for (int i = 0; i < 100; ++i) {
      auto found = edits_.replaced.find(output);
      if (found == edits_.replaced.end()) break;
      output = found->second;
    }
    return output;
  }

  void FindNeeded() {
    std::vector<const Node*> stack;
    const auto need = [&](const Node* node) {
      if (node != nullptr && needed_.insert(node).second) stack.push_back(node);
    };
    const auto need_output = [&](const Output& output) {
      if (output && !constants_.contains(Source(output))) need(Source(output).node);
    };
    const auto drain = [&] {
      while (!stack.empty()) {
        const Node* node = stack.back();
        stack.pop_back();
        for (const Output& input : node->inputs()) need_output(input);
        for (const Node* before : node->control_inputs()) {
          if (!edits_.dropped_control.contains({before, node})) need(before);
        }
      }
    };
    for (const GradientRequest& gradient : original_.gradients) {
      need_output(gradient.y);
      need_output(gradient.grad_y);
      for (const Output& x : gradient.xs) need_output(x);
      if (edits_.differentiates_again) continue;
      for (const Output& result : gradient.results) need_output(result);
    }
    if (!edits_.differentiates_again) {
      for (const Output& fetch : original_.fetches) need_output(fetch);
      for (const Node* target : original_.targets) need(target);
    }
    drain();
    if (original_.initializer == nullptr) return;
    // Of the variables only those that are read or written.
    for (const Node* assign : original_.initializer->control_inputs()) {
      if (!needed_.contains(assign->input(0).node)) continue;
      need(assign);
      initializers_.push_back(assign);
    }
    drain();
  }

  absl::Status AddConstants() {
    for (const auto& [output, value] : constants_) {
      WEIR_ASSIGN_OR_RETURN(
          Node * node,
          graph().AddNode({.op = "Const",
                           .name = absl::StrCat("constant/", output.node->name(), "_", output.index),
                           .attrs = {{"value", value}, {"dtype", value.dtype()}}}));
      constant_nodes_.emplace(output, node);
    }
    return absl::OkStatus();
  }

  absl::Status Add(const Node& node) {
    const bool becomes_feed = edits_.feeds_constants && node.op_name() == "Const" &&
                              node.control_inputs().empty() &&
                              !fed_.contains(Output{const_cast<Node*>(&node), 0});
    Node* copy = nullptr;
    if (becomes_feed) {
      const Tensor& value = node.attr<Tensor>("value");
      WEIR_ASSIGN_OR_RETURN(
          copy,
          graph().AddNode({.op = "Placeholder",
                           .name = node.name(),
                           .attrs = {{"dtype", value.dtype()}, {"shape", PartialShape(value.shape())}}}));
      copy_.feeds.emplace_back(copy->output(0), value);
      is_feed_.insert(&node);
    } else {
      copy = graph().AddCopy(node, {}, {});
    }
    copies_.emplace_back(&node, copy);
    by_original_.emplace(&node, copy);
    if (edits_.device) graph().SetRequestedDevice(copy, edits_.device(node));
    return absl::OkStatus();
  }

  absl::StatusOr<Output> Copied(const Output& output) {
    if (!output) return Output();
    const Output source = Source(output);
    if (auto constant = constant_nodes_.find(source); constant != constant_nodes_.end())
      return constant->second->output(0);
    auto found = by_original_.find(source.node);
    if (found == by_original_.end())
      return absl::InvalidArgumentError(absl::StrCat("'", source.name(), "' is not copied"));
    if (source.index >= found->second->num_outputs())
      return absl::InvalidArgumentError(absl::StrCat("no output '", source.name(), "'"));
    return found->second->output(source.index);
  }

  absl::Status Connect(const Node& node, Node* copy) {
    if (is_feed_.contains(&node)) return absl::OkStatus();
    std::vector<Output> inputs;
    for (int i = 0; i < node.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const Output input, Copied(node.input(i)));
      if (input.dtype() != node.input_type(i)) return absl::InvalidArgumentError("dtypes differ");
      inputs.push_back(input);
    }
    std::vector<Node*> control;
    for (const Node* before : node.control_inputs()) {
      auto found = by_original_.find(before);
      if (found != by_original_.end() && !edits_.dropped_control.contains({before, &node}))
        control.push_back(found->second);
    }
    graph().Connect(copy, std::move(inputs), std::move(control));
    return absl::OkStatus();
  }

  absl::Status CopySignature() {
    for (const auto& [output, value] : original_.feeds) {
      auto found = by_original_.find(output.node);
      if (found != by_original_.end()) copy_.feeds.emplace_back(found->second->output(output.index), value);
    }
    if (!initializers_.empty()) {
      NodeSpec spec = {.op = "NoOp", .name = original_.initializer->name()};
      for (const Node* assign : initializers_) spec.control_inputs.push_back(by_original_.at(assign));
      if (auto found = by_original_.find(original_.initializer); found != by_original_.end()) {
        copy_.initializer = found->second;
      } else {
        WEIR_ASSIGN_OR_RETURN(copy_.initializer, graph().AddNode(std::move(spec)));
      }
    }
    if (edits_.differentiates_again) return Differentiate();
    for (const Output& fetch : original_.fetches) {
      WEIR_ASSIGN_OR_RETURN(const Output copy, Copied(fetch));
      copy_.fetches.push_back(copy);
    }
    for (const Node* target : original_.targets) copy_.targets.push_back(by_original_.at(target));
    for (const GradientRequest& gradient : original_.gradients) {
      WEIR_ASSIGN_OR_RETURN(GradientRequest copy, CopyRequest(gradient));
      for (const Output& result : gradient.results) {
        WEIR_ASSIGN_OR_RETURN(const Output copied, Copied(result));
        copy.results.push_back(copied);
      }
      copy_.gradients.push_back(std::move(copy));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<GradientRequest> CopyRequest(const GradientRequest& gradient) {
    GradientRequest copy;
    WEIR_ASSIGN_OR_RETURN(copy.y, Copied(gradient.y));
    WEIR_ASSIGN_OR_RETURN(copy.grad_y, Copied(gradient.grad_y));
    for (const Output& x : gradient.xs) {
      WEIR_ASSIGN_OR_RETURN(const Output copied, Copied(x));
      copy.xs.push_back(copied);
    }
    return copy;
  }

  absl::Status Differentiate() {
    for (const GradientRequest& gradient : original_.gradients) {
      WEIR_ASSIGN_OR_RETURN(GradientRequest copy, CopyRequest(gradient));
      const std::vector<Output> grad_ys =
          copy.grad_y ? std::vector<Output>{copy.grad_y} : std::vector<Output>{};
      WEIR_ASSIGN_OR_RETURN(copy.results, AddGradients(*copy_.builder, {copy.y}, copy.xs, grad_ys));
      for (const Output& result : copy.results) {
        if (result && !IsFedInCopy(result)) copy_.fetches.push_back(result);
      }
      copy_.gradients.push_back(std::move(copy));
    }
    return absl::OkStatus();
  }

  bool IsFedInCopy(const Output& output) const {
    for (const auto& [fed, value] : copy_.feeds) {
      if (fed == output) return true;
    }
    return false;
  }

  const GraphCase& original_;
  const Edits& edits_;
  GraphCase copy_;
  absl::flat_hash_map<Output, Tensor> constants_;
  absl::flat_hash_set<Output> fed_;  // or fetched
  absl::flat_hash_set<const Node*> needed_;
  std::vector<const Node*> initializers_;
  std::vector<std::pair<const Node*, Node*>> copies_;
  absl::flat_hash_map<const Node*, Node*> by_original_;
  absl::flat_hash_map<Output, Node*> constant_nodes_;
  absl::flat_hash_set<const Node*> is_feed_;
};

}  // namespace

absl::StatusOr<GraphCase> CopyCase(const GraphCase& original, const Edits& edits) {
  return CaseCopy(original, edits).Make();
}

}  // namespace weir::random_graphs
