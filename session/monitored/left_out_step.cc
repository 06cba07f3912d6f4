#include "session/monitored/left_out_step.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/done_by_others.h"
#include "session/executor/update_ledger.h"

namespace weir {

absl::Status LeaveOutTargets(const Graph& graph, RunArgs& args) {
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
    if (targets.count(node) > 0 || IsUpdateOfVariable(UpdateKey(*node))) {
      return DoneByOthersError(absl::StrCat("the step that was lost has been done by others, so '",
                                            node->name(), "' must not run again, but a fetch depends on it"));
    }
    for (int i = 0; i < node->num_inputs(); ++i) visit(node->input(i).node);
    for (const Node* before : node->control_inputs()) visit(before);
  }
  return absl::OkStatus();
}

}  // namespace weir
