#include "distributed/master/client_graph.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/input_name.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// The node of "node:1", "node" and "^node"; the output where it is asked for. What names no output is taken
// for the name of a node, which nobody has.
absl::string_view NodeOf(absl::string_view name, int* output = nullptr) {
  const absl::StatusOr<InputName> parsed = ParseInputName(name);
  if (!parsed.ok()) return name;
  if (output != nullptr) *output = parsed->output;
  return parsed->node;
}

std::string Shown(absl::string_view name) {
  constexpr size_t kMaxShown = 300;
  return std::string(name.substr(0, kMaxShown));
}

}  // namespace

absl::Status ClientGraph::CheckNames(const tensorflow::GraphDef& graph_def) const {
  absl::flat_hash_set<absl::string_view> added;
  for (const auto& node : graph_def.node()) {
    if (graph_.FindNode(node.name()) != nullptr || graph_.FindLeftOut(node.name()) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("GraphDef argument to Extend includes node '", Shown(node.name()),
                       "', which was created by a previous call to Create or Extend in this session."));
    }
    if (added.insert(node.name()).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("Node '", Shown(node.name()), "' is not unique"));
  }
  for (const auto& node : graph_def.node()) {
    for (const std::string& input : node.input()) {
      const absl::string_view source = NodeOf(input);
      if (added.contains(source) || graph_.FindNode(source) != nullptr ||
          graph_.FindLeftOut(source) != nullptr) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("Node '", Shown(node.name()), "': Unknown input node '", Shown(input), "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status ClientGraph::Add(const tensorflow::GraphDef& graph_def) {
  WEIR_RETURN_IF_ERROR(CheckNames(graph_def));
  std::vector<SkippedNode> skipped;
  ImportOptions options;
  options.skipped = &skipped;
  WEIR_RETURN_IF_ERROR(admit_(static_cast<int64_t>(graph_def.ByteSizeLong())));
  options.admit_tensors = admit_;
  return ImportGraphDef(graph_def, options, &graph_);
}

absl::Status ClientGraph::Reason(const LeftOutNode& node) const {
  // "OP NODE": graph/interchange says so of an op that nobody knows, which a node or a function has.
  const absl::optional<absl::Cord> unknown = node.reason.GetPayload("weir/unknown_op");
  if (!unknown) return node.reason;
  const std::pair<std::string, std::string> op_and_node =
      absl::StrSplit(std::string(*unknown), absl::MaxSplits(' ', 1));
  if (op_and_node.first == "PyFunc" || op_and_node.first == "PyFuncStateless" ||
      op_and_node.first == "EagerPyFunc") {
    return absl::InvalidArgumentError(absl::StrCat(
        "Could not find callback of '", Shown(op_and_node.first),
        "' in the registry: a Python function (py_func, numpy_function, py_function) is in the program "
        "that made it, and not in the server on ",
        host_, ".\n\t [[{{node ", Shown(op_and_node.second), "}}]]"));
  }
  return absl::NotFoundError(
      absl::StrCat("Op type not registered '", Shown(op_and_node.first), "' in binary running on ", host_,
                   ": this server has no op of that name.\n\t [[{{node ", Shown(op_and_node.second), "}}]]"));
}

absl::Status ClientGraph::CheckFeed(const std::string& name) const {
  int output = 0;
  const absl::string_view node_name = NodeOf(name, &output);
  if (const LeftOutNode* left_out = graph_.FindLeftOut(node_name)) return Reason(*left_out);
  const Node* node = graph_.FindNode(node_name);
  if (node == nullptr) {
    return absl::NotFoundError(absl::StrCat("FeedInputs: unable to find feed output ", Shown(name)));
  }
  if (output >= 0 && output < node->num_outputs()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("FeedInputs: ", Shown(name), " should have output index < ", node->num_outputs()));
}

absl::Status ClientGraph::CheckFetch(const std::string& name) const {
  const absl::string_view node_name = NodeOf(name);
  if (const LeftOutNode* left_out = graph_.FindLeftOut(node_name)) return Reason(*left_out);
  const Node* node = graph_.FindNode(node_name);
  if (node == nullptr) {
    return absl::NotFoundError(absl::StrCat("FetchOutputs node ", Shown(name), ": not found"));
  }
  if (graph_.FindValue(name).ok()) return absl::OkStatus();
  if (node->num_outputs() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "FetchOutputs ", Shown(name), ": output index too large, must be < ", node->num_outputs()));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Tried to fetch data for '", Shown(name),
      "', which produces no output.  To run to a node but not fetch ", "any data, pass '", Shown(name),
      "' as an argument to the 'target_node_names' argument of the Session::Run API."));
}

absl::Status ClientGraph::CheckTarget(std::string* name) const {
  const absl::string_view node_name = NodeOf(*name);
  if (const LeftOutNode* left_out = graph_.FindLeftOut(node_name)) return Reason(*left_out);
  if (graph_.FindNode(node_name) == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("PruneForTargets: Some target nodes not found: ", Shown(*name), " "));
  }
  *name = std::string(node_name);
  return absl::OkStatus();
}

absl::Status ClientGraph::Check(StepNames* names) const {
  if (names->fetches.empty() && names->targets.empty()) {
    return absl::InvalidArgumentError("Must specify at least one target to fetch or execute.");
  }
  const auto whole = [](const std::string& name) {
    int output = 0;
    const absl::string_view node = NodeOf(name, &output);
    return absl::StrCat(node, ":", output);
  };
  absl::flat_hash_set<std::string> fed;
  for (const std::string& name : names->feeds) {
    WEIR_RETURN_IF_ERROR(CheckFeed(name));
    if (fed.insert(whole(name)).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("Endpoint \"", Shown(name), "\" fed more than once."));
  }
  for (const std::string& name : names->fetches) {
    WEIR_RETURN_IF_ERROR(CheckFetch(name));
    if (!fed.contains(whole(name))) continue;
    return absl::InvalidArgumentError(absl::StrCat(Shown(name), " is both fed and fetched."));
  }
  for (std::string& name : names->targets) WEIR_RETURN_IF_ERROR(CheckTarget(&name));
  return absl::OkStatus();
}

}  // namespace weir
