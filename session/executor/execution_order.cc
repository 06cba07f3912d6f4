#include "session/executor/execution_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <utility>

#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Calls `visit` with each node that must run before, in the same iteration of a loop.
template <typename Visit>
void VisitPredecessors(const Node& node, Visit visit) {
  const auto unless_earlier = [&](const Node* before) {
    if (before->op_name() != "NextIteration") visit(*before);  // in the iteration before
  };
  for (const Output& input : node.inputs()) unless_earlier(input.node);
  for (const Node* before : node.control_inputs()) unless_earlier(before);
}

int Urgency(const Node& node) {
  if (node.op_name() == kRecvOp || (node.op_name() == kArgOp && IsLate(node))) return 0;
  return node.op_name() == kSendOp || (node.op_name() == kRetvalOp && IsLate(node)) ? 1 : 2;
}

// Whether a node may run earlier than it was built: it touches nothing and decides nothing.
bool MayMove(const Node& node) {
  static constexpr const char* kDeciding[] = {"Switch",        "Merge",    "Enter",         "Exit",
                                              "NextIteration", "LoopCond", "ControlTrigger"};
  return !node.op().is_stateful() &&
         std::find(std::begin(kDeciding), std::end(kDeciding), node.op_name()) == std::end(kDeciding);
}

// Whether it is in its slot before the step begins.
bool IsThere(const Node& node) {
  if (node.op_name() == kArgOp) return !IsLate(node);
  return node.op_name() == "Const" && node.control_inputs().empty();
}

class EarlyStarts {
 public:
  EarlyStarts(const Graph& graph, std::vector<const Node*> order)
      : order_(std::move(order)),
        target_(graph.num_nodes(), kNobody),
        time_(graph.num_nodes(), 0),
        turn_(graph.num_nodes(), kAtOnce),
        ready_at_(graph.num_nodes(), kAtOnce) {}

  std::vector<const Node*> Find(absl::FunctionRef<bool(const Node&)> starts_early) {
    std::vector<bool> is_early(target_.size());
    for (const Node* node : order_) is_early[node->id()] = starts_early(*node);
    FindTargets(is_early);
    FindTimes(is_early);
    std::stable_sort(order_.begin(), order_.end(), [this](const Node* a, const Node* b) {
      return std::pair(time_[a->id()], turn_[a->id()]) < std::pair(time_[b->id()], turn_[b->id()]);
    });
    return std::move(order_);
  }

 private:
  static constexpr int kNobody = -1;
  static constexpr int kSeveral = -2;  // or somebody who has no hurry
  static constexpr int kAtOnce = -1;

  // For whom each node is made: its users are asked before it.
  void FindTargets(const std::vector<bool>& is_early) {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node& node = **it;
      int& target = target_[node.id()];
      if (is_early[node.id()]) {
        target = kSeveral;
      } else if (target == kNobody || !MayMove(node)) {
        target = kSeveral;
      }
      const int told = is_early[node.id()] ? node.id() : target;
      VisitPredecessors(node, [&](const Node& before) {
        int& known = target_[before.id()];
        known = known == kNobody || known == told ? told : kSeveral;
      });
    }
  }

  // When each node runs, counted in places of the order. What is made for one starter alone runs where it
  // stands, or where the last thing that is not has been made, whichever comes first: so it comes after all
  // that it needs, and the others stay as they were among one another. Of several starters that could be made
  // now, the first one is done with before the next one.
  void FindTimes(const std::vector<bool>& is_early) {
    for (int place = 0; place < static_cast<int>(order_.size()); ++place) {
      const Node& node = *order_[place];
      const int id = node.id();
      time_[id] = IsThere(node) ? kAtOnce : place;
      const int starter = is_early[id] ? id : target_[id];
      if (starter == kSeveral) continue;
      VisitPredecessors(node, [&](const Node& before) {
        if (target_[before.id()] == kSeveral) {
          ready_at_[starter] = std::max(ready_at_[starter], time_[before.id()]);
        }
      });
      if (!is_early[id]) continue;
      time_[id] = std::min(place, ready_at_[id]);
      turn_[id] = place;
    }
    for (const Node* node : order_) {
      const int target = target_[node->id()];
      if (target == kSeveral) continue;
      time_[node->id()] = std::min(time_[node->id()], ready_at_[target]);
      turn_[node->id()] = turn_[target];
    }
  }

  std::vector<const Node*> order_;
  std::vector<int> target_;    // by node: the early starter that alone needs it
  std::vector<int> time_;      // by node
  std::vector<int> turn_;      // by node, among those of one time: the place of its early starter
  std::vector<int> ready_at_;  // by early starter: the time of the last thing that is not made for it alone
};

}  // namespace

bool IsLate(const Node& node) { return node.FindAttr(kEdgeAttr) != nullptr; }

absl::StatusOr<std::vector<const Node*>> BuildOrder(const Graph& graph) {
  WEIR_RETURN_IF_ERROR(graph.TopologicalOrder().status());  // names the nodes of a cycle
  std::vector<int> pending(graph.num_nodes(), 0);
  std::vector<std::vector<int>> users(graph.num_nodes());
  for (const auto& node : graph.nodes()) {
    VisitPredecessors(*node, [&](const Node& before) {
      users[before.id()].push_back(node->id());
      ++pending[node->id()];
    });
  }
  using Entry = std::pair<int, int>;  // urgency, id
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  const auto push = [&](int id) { ready.emplace(Urgency(*graph.node(id)), id); };
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (pending[id] == 0) push(id);
  }
  std::vector<const Node*> order;
  while (!ready.empty()) {
    const int id = ready.top().second;
    ready.pop();
    order.push_back(graph.node(id));
    for (const int user : users[id]) {
      if (--pending[user] == 0) push(user);
    }
  }
  return order;
}

std::vector<const Node*> StartEarly(const Graph& graph, std::vector<const Node*> order,
                                    absl::FunctionRef<bool(const Node&)> starts_early) {
  return EarlyStarts(graph, std::move(order)).Find(starts_early);
}

}  // namespace weir
