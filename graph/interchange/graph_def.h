// Graphs to and from TensorFlow's GraphDef, binary and text: how models are exchanged with Python,
// TensorBoard and other processes.
//
// Import checks everything against the op registry and infers all shapes again; whatever is wrong is an error
// that names the node, and the graph stays as it was. Nodes may come in any order. A data edge from
// NextIteration to Merge may close a loop; any other cycle is an error that names the nodes on it. Calls of
// functions of the GraphDef's library, If, Case and While become the functions' nodes, and a node of the
// call's name with its outputs (function_expansion.h); an export has those nodes and no library. Debug info
// is not imported. Reference variables become resource variables (references.h): under "v:0" the graph then
// has the handle, and Graph::FindValue gives the value.
//
// Functions without state; safe from any thread on different graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace tensorflow {
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace weir {

// A node that was left out of an import, and why: "op 'Foo' of node 'x' is not registered".
struct SkippedNode {
  std::string name;
  absl::Status reason;
};

struct ImportOptions {
  // When set, nodes that cannot be imported (unknown ops, attrs that cannot be read, inputs that do not fit),
  // and all that depend on them, are left out and listed here (in their order in the GraphDef) instead of
  // failing the import: a client's graph may hold more than its steps need. The graph remembers them: who
  // asks for one, or imports more nodes that depend on it, hears the reason, and the export has them again.
  // A node that only the shapes and values of its inputs speak against is not left out: it takes them through
  // nodes of its own (PlaceholderWithDefault, "NAME/any_shape_0") that know neither, and its kernel decides.
  std::vector<SkippedNode>* skipped = nullptr;

  // Whether nodes may have the ops that the runtime puts into the graphs of steps (runtime_ops.h,
  // fused_ops.h): those of its own messages, never those of a user or client, whose attrs kernels would
  // trust.
  bool lets_runtime_ops_in = false;

  // When set, asked for room for what a few bytes of a message may stand for, each time for so many bytes
  // more: for the nodes that calls of functions become, while they are made, and before any node of the graph
  // is made for the tensors among the nodes' attrs. An error ends the import.
  std::function<absl::Status(int64_t num_bytes)> admit_tensors;

  // What the calls may become, together: nodes, and bytes of their messages. A call that would be more cannot
  // be imported.
  int64_t max_call_nodes = 1'000'000;
  int64_t max_call_bytes = int64_t{512} << 20;
};

// Adds the nodes of `graph_def` to *graph; their inputs may be nodes that are there already. On an error
// nothing is added. NotFound: an unknown op, or an input that no node has (with the nearest names);
// AlreadyExists: a name that is used twice; InvalidArgument: anything else that does not fit the schema, a
// cycle, a device string that does not parse.
absl::Status ImportGraphDef(const tensorflow::GraphDef& graph_def, const ImportOptions& options,
                            Graph* graph);

struct ExportOptions {
  // Write where the placer put each node (where it did), not what its author asked for.
  bool use_assigned_devices = false;
};

// InvalidArgument, naming the node, for attrs that no GraphDef can hold (a tensor above 2 GiB).
absl::Status ExportGraphDef(const Graph& graph, const ExportOptions& options,
                            tensorflow::GraphDef* graph_def);
// One node of it.
absl::Status ExportNodeDef(const Node& node, const ExportOptions& options, tensorflow::NodeDef* node_def);

// The same with the message in its serialized or text form. Serialized twice, an unchanged graph gives the
// same bytes. Bytes or text that do not parse are InvalidArgument; for text the error says where.
absl::StatusOr<std::unique_ptr<Graph>> GraphFromGraphDefBytes(absl::string_view bytes, const OpRegistry& ops,
                                                              const ImportOptions& options = {});
absl::StatusOr<std::unique_ptr<Graph>> GraphFromGraphDefText(const std::string& text, const OpRegistry& ops,
                                                             const ImportOptions& options = {});
absl::StatusOr<std::string> GraphDefBytes(const Graph& graph, const ExportOptions& options = {});
absl::StatusOr<std::string> GraphDefText(const Graph& graph, const ExportOptions& options = {});

}  // namespace weir
