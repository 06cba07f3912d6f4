// Which nodes of a graph, or of a function's body, run after nodes with effects.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "graph/interchange/function_library.h"
#include "graph/interchange/input_name.h"

namespace weir {

// Adds to `after` the names of those nodes that have effects, or run after nodes that it has. `Nodes` is any
// range of NodeDef.
template <typename Nodes>
void ReachFromEffects(const FunctionLibrary& library, const Nodes& nodes,
                      absl::flat_hash_set<std::string>* after) {
  std::vector<std::string> reached(after->begin(), after->end());
  const auto reach = [&](const std::string& name) {
    if (after->insert(name).second) reached.push_back(name);
  };
  absl::flat_hash_map<absl::string_view, std::vector<const tensorflow::NodeDef*>> readers;
  for (const tensorflow::NodeDef& node : nodes) {
    for (const std::string& input : node.input()) readers[InputNode(input)].push_back(&node);
    if (library.HasEffects(node.op())) reach(node.name());
  }
  while (!reached.empty()) {
    const auto found = readers.find(reached.back());
    reached.pop_back();
    if (found == readers.end()) continue;
    for (const tensorflow::NodeDef* reader : found->second) reach(reader->name());
  }
}

}  // namespace weir
