// The graph of a client's session: what is added to it, and whether what a step names is there.
//
// Nodes that cannot be imported, for their op is none of Weir's, are left out; a step that needs one hears
// why. Errors have TensorFlow's codes and begin with its texts.
//
// Thread safety: none; the session that has it locks. What strangers may take of the task is limited
// (peer_limits.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "distributed/master/step_messages.h"
#include "graph/graph.h"
#include "graph/op_registry.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace weir {

class ClientGraph {
 public:
  // Called with what the graph will take in memory, about, before it does; its error ends the addition.
  using Admit = std::function<absl::Status(int64_t num_bytes)>;

  // `host`: where the server runs, for errors.
  ClientGraph(const OpRegistry& ops, std::string host, Admit admit)
      : graph_(ops), host_(std::move(host)), admit_(std::move(admit)) {}

  const Graph& graph() const { return graph_; }

  // All of it or nothing. InvalidArgument: a name that is there already, an input that no node has, a cycle,
  // a graph that asks for a later version.
  absl::Status Add(const tensorflow::GraphDef& graph_def);

  // NotFound for what is not in the graph, or needs an op that Weir lacks; InvalidArgument for names that no
  // step can have together. Targets may be named as outputs ("node:0"): they become nodes.
  absl::Status Check(StepNames* names) const;

 private:
  absl::Status CheckNames(const tensorflow::GraphDef& graph_def) const;
  absl::Status CheckFeed(const std::string& name) const;
  absl::Status CheckFetch(const std::string& name) const;
  absl::Status CheckTarget(std::string* name) const;
  // Why a node was left out.
  absl::Status Reason(const LeftOutNode& node) const;

  Graph graph_;
  const std::string host_;
  const Admit admit_;
};

}  // namespace weir
