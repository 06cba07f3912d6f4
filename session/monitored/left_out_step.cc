#include "session/monitored/left_out_step.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Where a value comes from, of which ops of control flow have made others.
const Node* SourceOf(const Node* node) {
  static const auto* const passing = new absl::flat_hash_set<absl::string_view>{
      "Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"};
  absl::flat_hash_set<const Node*> seen;  // loops
  while (passing->contains(node->op_name()) && node->num_inputs() > 0 && seen.insert(node).second) {
    node = node->input(0).node;
  }
  return node;
}

// Whether it changes the variable whose value that is.
bool Changes(const Node& node, const Output& value) {
  if (value.node == nullptr || node.num_outputs() > 0 || node.num_inputs() == 0) return false;
  const Node* const read = SourceOf(value.node);
  return read->num_inputs() > 0 && SourceOf(node.input(0).node) == SourceOf(read->input(0).node);
}

}  // namespace

absl::Status LeaveOutTargets(const Graph& graph, const Output& global_step, RunArgs& args) {
  absl::flat_hash_set<const Node*> targets;
  for (const TargetRef& target : args.targets) {
    WEIR_ASSIGN_OR_RETURN(const Node* node, target.Resolve(graph));
    targets.insert(node);
  }
  args.targets.clear();
  std::vector<const Node*> open;
  absl::flat_hash_set<const Node*> seen;
  const auto visit = [&](const Node* node) {
    if (seen.insert(node).second) open.push_back(node);
  };
  for (const TensorRef& fetch : args.fetches) {
    WEIR_ASSIGN_OR_RETURN(const Output output, fetch.ResolveFetch(graph));
    visit(output.node);
  }
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    if (targets.count(node) > 0 || Changes(*node, global_step)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the step that was lost has been done by others, so '", node->name(),
                       "' must not run again, but a fetch depends on it"));
    }
    for (int i = 0; i < node->num_inputs(); ++i) visit(node->input(i).node);
    for (const Node* before : node->control_inputs()) visit(before);
  }
  return absl::OkStatus();
}

}  // namespace weir
