#include "session/feed_dependencies.h"

#include "graph/loops.h"
#include "graph/runtime_ops.h"

namespace weir {
namespace {

// By node id, of every Exit: what its loop begins with. A loop that is malformed is an error later on.
std::vector<std::vector<int32_t>> EntersOfExits(const Graph& graph) {
  std::vector<std::vector<int32_t>> result(graph.num_nodes());
  const absl::StatusOr<Loops> loops = FindLoops(graph);
  if (!loops.ok()) return result;
  std::vector<std::vector<int32_t>> of_loops(loops->loops.size());
  for (const auto& node : graph.nodes()) {
    if (node->op_name() == "Enter") of_loops[loops->gives_to[node->id()]].push_back(node->id());
  }
  for (const auto& node : graph.nodes()) {
    if (node->op_name() == "Exit") result[node->id()] = of_loops[loops->runs_in[node->id()]];
  }
  return result;
}

}  // namespace

FeedDependencies::FeedDependencies(const Graph& pruned, int num_feeds, int num_fetches)
    : feed_of_(pruned.num_nodes(), kNone), fetched_(num_fetches), is_needed_(num_feeds, false) {
  std::vector<std::vector<int32_t>> enters;
  if (HasControlFlow(pruned)) enters = EntersOfExits(pruned);
  for (const auto& node : pruned.nodes()) {
    first_input_.push_back(static_cast<int32_t>(inputs_.size()));
    for (const Output& input : node->inputs()) inputs_.push_back(input.node->id());
    for (const Node* before : node->control_inputs()) inputs_.push_back(before->id());
    if (!enters.empty()) {
      inputs_.insert(inputs_.end(), enters[node->id()].begin(), enters[node->id()].end());
    }
    const bool is_arg = node->op_name() == kArgOp;
    if (!is_arg && node->op_name() != kRetvalOp) continue;
    const auto index = static_cast<int32_t>(node->attr<int64_t>("index"));
    (is_arg ? feed_of_[node->id()] : fetched_[index]) = is_arg ? index : node->id();
  }
  first_input_.push_back(static_cast<int32_t>(inputs_.size()));
  for (const int32_t input : inputs_) {
    if (feed_of_[input] != kNone) is_needed_[feed_of_[input]] = true;
  }
}

int FeedDependencies::FindMissing(int fetch, const std::vector<bool>& has_come,
                                  std::vector<bool>* is_complete) const {
  is_complete->resize(feed_of_.size());
  std::vector<int32_t> seen = {fetched_[fetch]};
  (*is_complete)[fetched_[fetch]] = true;
  int missing = kNone;
  for (size_t next = 0; next < seen.size() && missing == kNone; ++next) {
    const int32_t node = seen[next];
    if (feed_of_[node] != kNone && !has_come[feed_of_[node]]) missing = feed_of_[node];
    for (int32_t i = first_input_[node]; i < first_input_[node + 1]; ++i) {
      if ((*is_complete)[inputs_[i]]) continue;
      (*is_complete)[inputs_[i]] = true;
      seen.push_back(inputs_[i]);
    }
  }
  if (missing != kNone) {
    for (const int32_t node : seen) (*is_complete)[node] = false;
  }
  return missing;
}

}  // namespace weir
