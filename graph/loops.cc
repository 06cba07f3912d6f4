#include "graph/loops.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

bool IsEnter(const Node& node) { return node.op_name() == "Enter"; }
bool IsExit(const Node& node) { return node.op_name() == "Exit"; }
bool IsNextIteration(const Node& node) { return node.op_name() == "NextIteration"; }
bool IsMerge(const Node& node) { return node.op_name() == "Merge"; }

class LoopFinder {
 public:
  explicit LoopFinder(const Graph& graph) : graph_(graph) {
    loops_.runs_in.resize(graph.num_nodes(), kNoLoop);
    loops_.gives_to.resize(graph.num_nodes(), kNoLoop);
  }

  absl::StatusOr<Loops> Find() {
    WEIR_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.TopologicalOrder());
    for (const Node* node : order) WEIR_RETURN_IF_ERROR(Place(*node));
    for (const Node* node : order) WEIR_RETURN_IF_ERROR(CheckInputs(*node));
    return std::move(loops_);
  }

 private:
  absl::Status Place(const Node& node) {
    WEIR_ASSIGN_OR_RETURN(const int loop, LoopOfInputs(node));
    loops_.runs_in[node.id()] = loop;
    if (loop == kNoLoop && (IsExit(node) || IsNextIteration(node))) {
      return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " is in no loop"));
    }
    if (IsEnter(node)) {
      WEIR_ASSIGN_OR_RETURN(loops_.gives_to[node.id()], Inner(loop, node.attr<std::string>("frame_name")));
    } else {
      loops_.gives_to[node.id()] = IsExit(node) ? loops_.loops[loop].parent : loop;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> LoopOfInputs(const Node& node) const {
    const Node* first = nullptr;
    absl::Status status;
    const auto look_at = [&](const Node* before) {
      if (IsNextIteration(*before)) return;
      if (first == nullptr) first = before;
      if (loops_.gives_to[before->id()] == loops_.gives_to[first->id()]) return;
      status = absl::InvalidArgumentError(
          absl::StrCat(node.Describe(), " has inputs from different loops: ", first->Describe(), " is ",
                       Where(loops_.gives_to[first->id()]), ", ", before->Describe(), " ",
                       Where(loops_.gives_to[before->id()])));
    };
    for (const Output& input : node.inputs()) look_at(input.node);
    for (const Node* before : node.control_inputs()) look_at(before);
    if (!status.ok()) return status;
    return first == nullptr ? kNoLoop : loops_.gives_to[first->id()];
  }

  // What TopologicalOrder and LoopOfInputs leave out, once the loop of every node is known.
  absl::Status CheckInputs(const Node& node) const {
    for (const Node* before : node.control_inputs()) {
      if (IsNextIteration(*before)) {
        return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " must run after ",
                                                       before->Describe(),
                                                       ", which belongs to the next iteration"));
      }
    }
    const Node* enter = nullptr;
    for (const Output& input : node.inputs()) {
      const Node& before = *input.node;
      if (IsMerge(node) && IsEnter(before) && enter != nullptr && enter != &before) {
        return absl::InvalidArgumentError(absl::StrCat(node.Describe(), " takes the values of two nodes, ",
                                                       enter->Describe(), " and ", before.Describe(),
                                                       ": a loop begins with one"));
      }
      if (IsEnter(before)) enter = &before;
      if (IsNextIteration(before) &&
          (!IsMerge(node) || loops_.runs_in[node.id()] != loops_.runs_in[before.id()])) {
        return absl::InvalidArgumentError(absl::StrCat(before.Describe(), " is an input of ", node.Describe(),
                                                       "; it may only lead to a Merge of its own loop"));
      }
      if (IsEnter(before) && !before.attr<bool>("is_constant") && !IsMerge(node)) {
        return absl::InvalidArgumentError(absl::StrCat(
            before.Describe(), " is an input of ", node.Describe(),
            "; without is_constant its value is there in the first iteration only, for a Merge"));
      }
    }
    return absl::OkStatus();
  }

  std::string Where(int loop) const {
    return loop == kNoLoop ? "in none" : absl::StrCat("in '", loops_.loops[loop].name, "'");
  }

  absl::StatusOr<int> Inner(int parent, const std::string& name) {
    const auto [known, is_new] =
        by_name_.emplace(std::pair(parent, name), static_cast<int>(loops_.loops.size()));
    if (!is_new) return known->second;
    loops_.loops.push_back({name, parent});
    depths_.push_back(parent == kNoLoop ? 1 : depths_[parent] + 1);
    if (depths_.back() <= kMaxLoopDepth) return known->second;
    return absl::InvalidArgumentError(absl::StrCat("the loop '", name, "' is inside of ", kMaxLoopDepth,
                                                   " others, and no loop may be deeper than that"));
  }

  const Graph& graph_;
  Loops loops_;
  std::map<std::pair<int, std::string>, int> by_name_;
  std::vector<int> depths_;  // of loops_.loops; 1: outside of all others
};

}  // namespace

absl::StatusOr<Loops> FindLoops(const Graph& graph) { return LoopFinder(graph).Find(); }

absl::Status CheckFetch(const Loops& loops, const Node& fetch) {
  if (loops.loops.empty() || loops.runs_in[fetch.id()] == kNoLoop) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", fetch.input(0).name(), "' is inside the loop '",
                                                 loops.loops[loops.runs_in[fetch.id()]].name,
                                                 "' and cannot be fetched; the results of the loop can"));
}

bool IsControlFlow(const Node& node) {
  return node.op_name() == "Switch" || IsMerge(node) || IsEnter(node) || IsExit(node) ||
         IsNextIteration(node);
}

bool HasControlFlow(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return IsControlFlow(*node); });
}

}  // namespace weir
