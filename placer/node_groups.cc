#include "placer/node_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace weir {
namespace {

// Union-find over node ids.
class Sets {
 public:
  explicit Sets(int count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void Join(int a, int b) { parent_[std::max(Find(a), Find(b))] = std::min(Find(a), Find(b)); }

 private:
  std::vector<int> parent_;
};

}  // namespace

NodeGroups::NodeGroups(const Graph& graph) {
  Sets sets(graph.num_nodes());
  absl::flat_hash_map<std::string, int> first_to_name;  // a node pruned from this step, by its name
  for (const auto& node : graph.nodes()) {
    for (const std::string& name : node->colocation_names()) {
      const Node* other = graph.FindNode(name);
      const int with = other != nullptr ? other->id() : first_to_name.emplace(name, node->id()).first->second;
      sets.Join(node->id(), with);
    }
    for (const Output& input : node->inputs()) {
      if (input.dtype() == DType::kResource) sets.Join(node->id(), input.node->id());
    }
  }
  std::map<int, std::vector<Node*>> members;
  for (const auto& node : graph.nodes()) members[sets.Find(node->id())].push_back(node.get());
  for (auto& [root, nodes] : members) groups_.push_back(std::move(nodes));
}

}  // namespace weir
