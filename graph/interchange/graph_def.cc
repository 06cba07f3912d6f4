#include "graph/interchange/graph_def.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/interchange/attr_value_proto.h"
#include "graph/interchange/function_expansion.h"
#include "graph/interchange/function_library.h"
#include "graph/interchange/input_name.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/references.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/nearest_names.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

// The version of TensorFlow's graphs that Weir's ops follow: what TensorFlow 2.21 writes.
constexpr int kProducer = 2474;

// An input of a node of the GraphDef.
struct Edge {
  int producer = -1;         // the position of its source in the GraphDef, or
  Node* existing = nullptr;  // a node that was in the graph before
  int output = 0;
  bool is_control = false;
  bool closes_loop = false;  // from NextIteration to Merge
};

// The payload of a reason that is an op that nobody knows: the op, and the node that has it ("Foo x"). It
// goes on to all that depend on the node; distributed/master reads it.
constexpr char kUnknownOp[] = "weir/unknown_op";

absl::Status Annotate(const absl::Status& status, const NodeDef& def) {
  absl::Status annotated(status.code(), absl::StrCat(def.op(), " '", def.name(), "': ", status.message()));
  if (const auto unknown = status.GetPayload(kUnknownOp)) annotated.SetPayload(kUnknownOp, *unknown);
  return annotated;
}

// Why calls of functions could not become nodes, by name.
using FailedCalls = absl::flat_hash_map<std::string, absl::Status>;

// Of how many unknown ops it is said which known ones have names like theirs.
constexpr size_t kMaxSuggestions = 16;

// What a node that no message has takes in memory.
constexpr int64_t kNodeBytes = 2048;

class GraphImport {
 public:
  GraphImport(const GraphDef& def, const ImportOptions& options, const FailedCalls& failed_calls,
              Graph* graph)
      : def_(def),
        options_(options),
        failed_calls_(failed_calls),
        graph_(*graph),
        edges_(def.node_size()),
        skip_reasons_(def.node_size()) {}

  absl::Status Run() {
    WEIR_RETURN_IF_ERROR(CheckVersions());
    WEIR_RETURN_IF_ERROR(IndexNames());
    WEIR_RETURN_IF_ERROR(ResolveInputs());
    WEIR_RETURN_IF_ERROR(FindUnknownOps());
    num_before_ = graph_.num_nodes();
    absl::Status status;
    do {
      LeaveOutConsumers();
      RemoveAdded();
      const absl::StatusOr<std::vector<int>> order = Order();
      status = order.ok() ? AddNodes(*order) : order.status();
    } while (status.ok() && !LeftOutIsClosed());
    if (!status.ok()) {
      RemoveAdded();
      return status;
    }
    NoteLeftOut();
    return absl::OkStatus();
  }

 private:
  absl::Status CheckVersions() const {
    if (def_.versions().min_consumer() > kProducer) {
      return absl::InvalidArgumentError(absl::StrCat("the GraphDef asks for a consumer of version ",
                                                     def_.versions().min_consumer(), ", this one is ",
                                                     kProducer));
    }
    const auto& bad_consumers = def_.versions().bad_consumers();
    if (std::find(bad_consumers.begin(), bad_consumers.end(), kProducer) != bad_consumers.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the GraphDef refuses consumers of version ", kProducer, ", which this one is"));
    }
    return absl::OkStatus();
  }

  absl::Status IndexNames() {
    for (int i = 0; i < def_.node_size(); ++i) {
      const NodeDef& node = def_.node(i);
      if (!positions_.emplace(node.name(), i).second || graph_.FindNode(node.name()) != nullptr ||
          graph_.FindLeftOut(node.name()) != nullptr) {
        return Annotate(absl::AlreadyExistsError("the graph already has a node of this name"), node);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ResolveInputs() {
    for (int i = 0; i < def_.node_size(); ++i) {
      for (const std::string& input : def_.node(i).input()) {
        absl::StatusOr<Edge> edge = Resolve(input, def_.node(i));
        if (edge.ok()) {
          edges_[i].push_back(*edge);
        } else {
          WEIR_RETURN_IF_ERROR(LeaveOut(i, Annotate(edge.status(), def_.node(i))));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Edge> Resolve(absl::string_view input, const NodeDef& consumer) const {
    WEIR_ASSIGN_OR_RETURN(const InputName name, ParseInputName(input));
    Edge edge;
    edge.output = name.output;
    edge.is_control = name.is_control;
    if (const auto place = positions_.find(name.node); place != positions_.end()) {
      edge.producer = place->second;
      const std::string& op = def_.node(edge.producer).op();
      edge.closes_loop =
          !edge.is_control && absl::EndsWith(op, "NextIteration") && absl::EndsWith(consumer.op(), "Merge");
      return edge;
    }
    edge.existing = graph_.FindNode(name.node);
    if (edge.existing != nullptr) return edge;
    if (const LeftOutNode* node = graph_.FindLeftOut(name.node)) return node->reason;
    std::vector<absl::string_view> known;
    for (const NodeDef& node : def_.node()) known.push_back(node.name());
    return absl::NotFoundError(
        absl::StrCat("its input '", input, "' is no node of the graph", DidYouMean(name.node, known)));
  }

  absl::Status FindUnknownOps() {
    for (int i = 0; i < def_.node_size(); ++i) {
      if (const auto failed = failed_calls_.find(def_.node(i).name()); failed != failed_calls_.end()) {
        WEIR_RETURN_IF_ERROR(LeaveOut(i, failed->second));
        continue;
      }
      const Op* const op = graph_.ops().Find(def_.node(i).op());
      if (op != nullptr && (options_.lets_runtime_ops_in || !IsRuntimeOp(op->name()))) continue;
      if (op != nullptr) {
        WEIR_RETURN_IF_ERROR(LeaveOut(
            i, Annotate(absl::InvalidArgumentError("its op is one that only the runtime itself may use"),
                        def_.node(i))));
        continue;
      }
      absl::Status reason = Annotate(WhyUnknown(def_.node(i).op()), def_.node(i));
      reason.SetPayload(kUnknownOp, absl::Cord(absl::StrCat(def_.node(i).op(), " ", def_.node(i).name())));
      WEIR_RETURN_IF_ERROR(LeaveOut(i, std::move(reason)));
    }
    return absl::OkStatus();
  }

  // With the names that it may have meant, which are looked for among those of all ops: for the first ops.
  absl::Status WhyUnknown(absl::string_view op) {
    if (op == "PyFunc" || op == "PyFuncStateless" || op == "EagerPyFunc") {
      return absl::InvalidArgumentError(
          absl::StrCat("'", op,
                       "' calls a Python function (py_func, numpy_function, py_function), which is in the "
                       "program that made the graph, and not here"));
    }
    if (const auto known = unknown_ops_.find(op); known != unknown_ops_.end()) return known->second;
    if (unknown_ops_.size() >= kMaxSuggestions) {
      return absl::NotFoundError(absl::StrCat("no op is named '", op, "'"));
    }
    return unknown_ops_.try_emplace(op, graph_.ops().Lookup(op).status()).first->second;
  }

  // The reason is the import's error, where nothing may be left out.
  absl::Status LeaveOut(int i, absl::Status reason) {
    if (options_.skipped == nullptr) return reason;
    skip_reasons_[i].Update(reason);
    return absl::OkStatus();
  }

  // What depends on a node that is left out, is left out for the same reason.
  void LeaveOutConsumers() {
    std::vector<int> left_out;
    for (int i = 0; i < def_.node_size(); ++i) {
      if (!skip_reasons_[i].ok()) left_out.push_back(i);
    }
    if (left_out.empty()) return;
    const std::vector<std::vector<int>> consumers = Consumers(/*through_loops=*/true);
    for (size_t next = 0; next < left_out.size(); ++next) {
      for (int consumer : consumers[left_out[next]]) {
        if (!skip_reasons_[consumer].ok()) continue;
        skip_reasons_[consumer] = skip_reasons_[left_out[next]];
        left_out.push_back(consumer);
      }
    }
  }

  // Whether no node was added that depends on one that could not be: consumers are added later and are left
  // out, but the start of a loop is added before its end.
  bool LeftOutIsClosed() const {
    for (int i = 0; i < def_.node_size(); ++i) {
      for (const Edge& edge : edges_[i]) {
        if (added_[i] != nullptr && edge.producer >= 0 && added_[edge.producer] == nullptr) return false;
      }
      if (added_[i] != nullptr && !skip_reasons_[i].ok()) return false;
    }
    return true;
  }

  void RemoveAdded() {
    added_.assign(def_.node_size(), nullptr);
    if (graph_.num_nodes() == num_before_) return;
    std::vector<bool> keep(graph_.num_nodes(), false);
    std::fill_n(keep.begin(), num_before_, true);
    graph_.KeepOnly(keep);
  }

  void NoteLeftOut() {
    for (int i = 0; i < def_.node_size(); ++i) {
      if (skip_reasons_[i].ok()) continue;
      const NodeDef& node = def_.node(i);
      options_.skipped->push_back({node.name(), skip_reasons_[i]});
      graph_.AddLeftOut({node.name(), skip_reasons_[i], node.SerializeAsString()});
    }
  }

  // Of each node, once for each edge. Without `through_loops` those that close a loop do not count.
  std::vector<std::vector<int>> Consumers(bool through_loops) const {
    std::vector<std::vector<int>> consumers(def_.node_size());
    for (int i = 0; i < def_.node_size(); ++i) {
      for (const Edge& edge : edges_[i]) {
        if (edge.producer >= 0 && (through_loops || !edge.closes_loop)) consumers[edge.producer].push_back(i);
      }
    }
    return consumers;
  }

  // Producers first, otherwise as in the GraphDef, so that a sorted one keeps its order.
  absl::StatusOr<std::vector<int>> Order() const {
    std::vector<int> num_pending(def_.node_size(), 0);
    std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
    int num_wanted = 0;
    for (int i = 0; i < def_.node_size(); ++i) {
      if (!skip_reasons_[i].ok()) continue;
      ++num_wanted;
      for (const Edge& edge : edges_[i]) num_pending[i] += edge.producer >= 0 && !edge.closes_loop;
      if (num_pending[i] == 0) ready.push(i);
    }
    const std::vector<std::vector<int>> consumers = Consumers(/*through_loops=*/false);
    std::vector<int> order;
    while (!ready.empty()) {
      const int i = ready.top();
      ready.pop();
      order.push_back(i);
      for (int consumer : consumers[i]) {
        if (!skip_reasons_[consumer].ok()) continue;
        if (--num_pending[consumer] == 0) ready.push(consumer);
      }
    }
    if (static_cast<int>(order.size()) < num_wanted) return Cycle(num_pending);
    return order;
  }

  // Walks back from a pending node, from pending producer to pending producer, until one comes a second time.
  absl::Status Cycle(const std::vector<int>& num_pending) const {
    const auto is_pending = [&](int i) { return num_pending[i] > 0 && skip_reasons_[i].ok(); };
    int current = 0;
    while (!is_pending(current)) ++current;
    std::vector<int> path;
    std::vector<bool> seen(def_.node_size(), false);
    while (!seen[current]) {
      seen[current] = true;
      path.push_back(current);
      for (const Edge& edge : edges_[current]) {
        if (edge.producer < 0 || edge.closes_loop || !is_pending(edge.producer)) continue;
        current = edge.producer;
        break;
      }
    }
    std::vector<std::string> names;
    for (auto i = std::find(path.begin(), path.end(), current); i != path.end(); ++i) {
      names.push_back(def_.node(*i).name());
    }
    names.push_back(def_.node(current).name());
    std::reverse(names.begin(), names.end());
    constexpr size_t kMaxNames = 10;
    if (names.size() > kMaxNames) names.erase(names.begin() + kMaxNames / 2, names.end() - kMaxNames / 2);
    return absl::InvalidArgumentError(absl::StrCat("the graph has a cycle: ", absl::StrJoin(names, " -> ")));
  }

  absl::Status AddNodes(const std::vector<int>& order) {
    for (int i : order) {
      absl::StatusOr<Node*> node = AddNode(i);
      WEIR_RETURN_IF_ERROR(refusal_);
      if (node.ok()) {
        added_[i] = *node;
      } else {
        WEIR_RETURN_IF_ERROR(LeaveOut(i, node.status()));
      }
    }
    for (int i : order) {
      if (absl::Status status = CloseLoops(i); !status.ok()) WEIR_RETURN_IF_ERROR(LeaveOut(i, status));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Node*> AddNode(int i) {
    for (const Edge& edge : edges_[i]) {
      if (edge.producer >= 0 && !skip_reasons_[edge.producer].ok()) return skip_reasons_[edge.producer];
    }
    absl::StatusOr<NodeSpec> spec = Spec(i);
    if (!spec.ok()) return Annotate(spec.status(), def_.node(i));
    // Its errors name the node already.
    absl::StatusOr<Node*> node = graph_.AddNode(*std::move(spec));
    if (options_.skipped == nullptr || !absl::IsInvalidArgument(node.status())) return node;
    if (spec = Spec(i); !MayBeOfAnyShapes(*spec)) return node;
    return AddOfAnyShapes(*std::move(spec));
  }

  // Who made the GraphDef inferred shapes by other rules. Where only ours refuse a node, its kernel says what
  // is wrong, in the steps that need it: its inputs go through nodes that know no shape and no value.
  absl::StatusOr<Node*> AddOfAnyShapes(NodeSpec spec) {
    absl::flat_hash_map<Output, Output> hidden;
    const auto hide = [&](const Output& output) -> absl::StatusOr<Output> {
      if (output.dtype() == DType::kResource || output.dtype() == DType::kVariant) return output;
      if (const auto known = hidden.find(output); known != hidden.end()) return known->second;
      if (options_.admit_tensors) refusal_ = options_.admit_tensors(kNodeBytes);
      WEIR_RETURN_IF_ERROR(refusal_);
      WEIR_ASSIGN_OR_RETURN(Node* const any_shape,
                            graph_.AddNode({.op = "PlaceholderWithDefault",
                                            .name = absl::StrCat(spec.name, "/any_shape_", hidden.size()),
                                            .inputs = {output},
                                            .attrs = {{"shape", PartialShape()}},
                                            .device = spec.device}));
      return hidden.try_emplace(output, any_shape->output(0)).first->second;
    };
    WEIR_RETURN_IF_ERROR(ReplaceInputs(hide, &spec));
    return graph_.AddNode(std::move(spec));
  }

  // Asked of a graph of its own, so that this one has no nodes for what is refused all the same.
  bool MayBeOfAnyShapes(NodeSpec spec) const {
    Graph trial(graph_.ops());
    absl::flat_hash_map<DType, Output> inputs;
    const auto unknown = [&](const Output& output) -> absl::StatusOr<Output> {
      if (!output || output.index >= output.node->num_outputs()) return absl::NotFoundError("no output");
      if (const auto known = inputs.find(output.dtype()); known != inputs.end()) return known->second;
      WEIR_ASSIGN_OR_RETURN(Node* const input,
                            trial.AddNode({.op = "Placeholder",
                                           .name = absl::StrCat(spec.name, "/", inputs.size()),
                                           .attrs = {{"dtype", output.dtype()}}}));
      return inputs.try_emplace(output.dtype(), input->output(0)).first->second;
    };
    spec.control_inputs.clear();
    return ReplaceInputs(unknown, &spec).ok() && trial.AddNode(std::move(spec)).ok();
  }

  static absl::Status ReplaceInputs(absl::FunctionRef<absl::StatusOr<Output>(const Output&)> replace,
                                    NodeSpec* spec) {
    for (InputArg& input : spec->inputs) {
      std::vector<Output> outputs;
      for (const Output& output : input.outputs()) {
        WEIR_ASSIGN_OR_RETURN(outputs.emplace_back(), replace(output));
      }
      input = input.is_list() ? InputArg(std::move(outputs)) : InputArg(outputs[0]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<NodeSpec> Spec(int i) const {
    const NodeDef& node = def_.node(i);
    const Op& op = *graph_.ops().Find(node.op());
    NodeSpec spec;
    spec.op = node.op();
    spec.name = node.name();
    WEIR_ASSIGN_OR_RETURN(spec.device, DeviceName::Parse(node.device()));
    WEIR_ASSIGN_OR_RETURN(spec.attrs, Attrs(node, op));
    std::vector<Output> data;
    absl::flat_hash_set<const Node*> before;
    // The end of a loop is not there yet: the value that enters the loop has its type and stands in for it.
    const auto entering = std::find_if(edges_[i].begin(), edges_[i].end(), [](const Edge& edge) {
      return !edge.is_control && !edge.closes_loop;
    });
    const Output stand_in = entering == edges_[i].end() ? Output() : Source(*entering, Output());
    for (const Edge& edge : edges_[i]) {
      if (edge.is_control) {
        Node* const source = edge.existing != nullptr ? edge.existing : added_[edge.producer];
        if (before.insert(source).second) spec.control_inputs.push_back(source);
      } else {
        data.push_back(Source(edge, stand_in));
      }
    }
    WEIR_ASSIGN_OR_RETURN(spec.inputs, GroupInputs(op, spec.attrs, data));
    return spec;
  }

  Output Source(const Edge& edge, Output stand_in) const {
    if (edge.existing != nullptr) return {edge.existing, edge.output};
    Node* const added = added_[edge.producer];
    return added == nullptr ? stand_in : Output{added, edge.output};
  }

  absl::Status CloseLoops(int i) {
    for (size_t index = 0; index < edges_[i].size(); ++index) {
      const Edge& edge = edges_[i][index];
      if (!edge.closes_loop) continue;
      Node* end = added_[edge.producer];
      Node* merge = added_[i];
      if (end == nullptr || merge == nullptr) continue;  // left out
      if (edge.output >= end->num_outputs() ||
          end->output_type(edge.output) != merge->input_type(static_cast<int>(index))) {
        return absl::InvalidArgumentError(
            absl::StrCat(merge->Describe(), ": its input from ", end->Describe(),
                         " has another type than the one that enters the loop"));
      }
      graph_.SetInput(merge, static_cast<int>(index), end->output(edge.output));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<AttrMap> Attrs(const NodeDef& node, const Op& op) {
    AttrMap attrs;
    for (const auto& [name, proto] : node.attr()) {
      // Shapes are inferred anew; what another runtime noted would be stale after the first rewrite.
      if (name == "_output_shapes") continue;
      absl::StatusOr<AttrValue> value = AttrValueFromProto(proto);
      if (absl::StartsWith(name, "_") && !value.ok()) continue;  // a note to another runtime
      if (op.FindAttr(name) == nullptr && !absl::StartsWith(name, "_") && value.ok() && IsEmpty(*value)) {
        continue;  // later versions of TensorFlow added it to the op; empty, it means the old behaviour
      }
      if (!value.ok()) {
        return absl::Status(value.status().code(),
                            absl::StrCat("attr ", name, " cannot be read: ", value.status().message()));
      }
      attrs.emplace(name, *std::move(value));
    }
    return attrs;
  }

  static bool IsEmpty(const AttrValue& value) {
    return value == AttrValue(false) || value == AttrValue(0) || value == AttrValue("") ||
           value == AttrValue(0.0f) || value == AttrValue(std::vector<int64_t>());
  }

  // Cuts the flat list of inputs into the schema's arguments.
  static absl::StatusOr<std::vector<InputArg>> GroupInputs(const Op& op, const AttrMap& attrs,
                                                           const std::vector<Output>& data) {
    std::vector<InputArg> inputs;
    size_t next = 0;
    for (const ArgDef& arg : op.inputs()) {
      const int64_t count = arg.is_list() ? ListLength(op, arg, attrs, data.size()) : 1;
      if (count < 0 || static_cast<uint64_t>(count) > data.size() - next) return WrongCount(op, data.size());
      if (arg.is_list()) {
        inputs.emplace_back(std::vector<Output>(data.begin() + next, data.begin() + next + count));
      } else {
        inputs.emplace_back(data[next]);
      }
      next += count;
    }
    if (next != data.size()) return WrongCount(op, data.size());
    return inputs;
  }

  static absl::Status WrongCount(const Op& op, size_t num_inputs) {
    return absl::InvalidArgumentError(absl::StrCat("has ", num_inputs,
                                                   " inputs, which do not fit its schema (",
                                                   absl::StrJoin(op.def().inputs, ", "), ") and attrs"));
  }

  // What the attr says; where it is missing, an only list takes all inputs that are left.
  static int64_t ListLength(const Op& op, const ArgDef& arg, const AttrMap& attrs, size_t num_inputs) {
    const auto attr = attrs.find(arg.type_list_attr.empty() ? arg.number_attr : arg.type_list_attr);
    if (attr != attrs.end()) {
      if (const auto* types = attr->second.get_if<std::vector<DType>>()) return types->size();
      if (const auto* number = attr->second.get_if<int64_t>()) return *number;
      return 0;  // an empty list of another kind
    }
    const int64_t num_single = std::count_if(op.inputs().begin(), op.inputs().end(),
                                             [](const ArgDef& other) { return !other.is_list(); });
    const bool is_only_list = num_single + 1 == static_cast<int64_t>(op.inputs().size());
    return is_only_list ? static_cast<int64_t>(num_inputs) - num_single : -1;
  }

  const GraphDef& def_;
  const ImportOptions& options_;
  const FailedCalls& failed_calls_;
  Graph& graph_;
  absl::flat_hash_map<absl::string_view, int> positions_;  // of the GraphDef's nodes, by name
  std::vector<std::vector<Edge>> edges_;                   // of each node of the GraphDef
  std::vector<absl::Status> skip_reasons_;                 // not OK: the node is left out
  absl::flat_hash_map<absl::string_view, absl::Status> unknown_ops_;
  absl::Status refusal_;  // not OK: there was no room for a node
  int num_before_ = 0;    // nodes of the graph
  std::vector<Node*> added_;
};

absl::StatusOr<std::unique_ptr<Graph>> ImportNew(const GraphDef& def, const OpRegistry& ops,
                                                 const ImportOptions& options) {
  auto graph = std::make_unique<Graph>(ops);
  WEIR_RETURN_IF_ERROR(ImportGraphDef(def, options, graph.get()));
  return graph;
}

}  // namespace

static int64_t NumTensorBytes(const GraphDef& graph_def) {
  int64_t sum = 0;
  for (const NodeDef& node : graph_def.node()) {
    for (const auto& [name, value] : node.attr()) {
      if (!value.has_tensor()) continue;
      const int64_t more = NumTensorBytes(value.tensor());
      sum =
          more > std::numeric_limits<int64_t>::max() - sum ? std::numeric_limits<int64_t>::max() : sum + more;
    }
  }
  return sum;
}

// Imports a GraphDef whose calls of functions have become nodes.
static absl::Status ImportNodes(const GraphDef& graph_def, const ImportOptions& options,
                                const FailedCalls& failed_calls, Graph* graph) {
  if (options.admit_tensors) WEIR_RETURN_IF_ERROR(options.admit_tensors(NumTensorBytes(graph_def)));
  ReferenceLowering references(graph_def, *graph);
  if (!references.is_needed()) return GraphImport(graph_def, options, failed_calls, graph).Run();
  const GraphDef lowered = references.Lowered();
  WEIR_RETURN_IF_ERROR(GraphImport(lowered, options, failed_calls, graph).Run());
  references.ForgetShapes(graph);
  references.AddStandIns(graph);
  return absl::OkStatus();
}

absl::Status ImportGraphDef(const GraphDef& graph_def, const ImportOptions& options, Graph* graph) {
  WEIR_ASSIGN_OR_RETURN(FunctionLibrary library, FunctionLibrary::Create(graph_def.library(), graph->ops()));
  if (FunctionExpansion::IsNeeded(graph_def, graph->ops(), library)) {
    FunctionExpansion expansion(graph_def, *graph, library, options);
    WEIR_ASSIGN_OR_RETURN(const GraphDef expanded, expansion.Expanded());
    WEIR_RETURN_IF_ERROR(ImportNodes(expanded, options, expansion.failures(), graph));
  } else {
    WEIR_RETURN_IF_ERROR(ImportNodes(graph_def, options, {}, graph));
  }
  if (options.skipped == nullptr || options.skipped->empty()) return absl::OkStatus();
  // Nodes of functions, and reads that the lowering of references added, are nobody's nodes.
  absl::flat_hash_set<absl::string_view> given;
  for (const NodeDef& node : graph_def.node()) given.insert(node.name());
  auto& skipped = *options.skipped;
  skipped.erase(std::remove_if(skipped.begin(), skipped.end(),
                               [&](const SkippedNode& node) { return !given.contains(node.name); }),
                skipped.end());
  return absl::OkStatus();
}

absl::Status ExportNodeDef(const Node& node, const ExportOptions& options, NodeDef* def) {
  def->set_name(node.name());
  def->set_op(node.op_name());
  const bool is_assigned = options.use_assigned_devices && !node.assigned_device().is_empty();
  def->set_device((is_assigned ? node.assigned_device() : node.requested_device()).ToString());
  for (const Output& input : node.inputs()) def->add_input(InputNameOf(input.node->name(), input.index));
  for (const Node* before : node.control_inputs()) def->add_input(absl::StrCat("^", before->name()));
  for (const auto& [name, value] : node.attrs()) {
    if (absl::Status status = AttrValueToProto(value, &(*def->mutable_attr())[name]); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(node.Describe(), ": attr ", name, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status ExportGraphDef(const Graph& graph, const ExportOptions& options, GraphDef* graph_def) {
  graph_def->Clear();
  graph_def->mutable_versions()->set_producer(kProducer);
  for (const auto& node : graph.nodes())
    WEIR_RETURN_IF_ERROR(ExportNodeDef(*node, options, graph_def->add_node()));
  for (const auto& [name, node] : graph.left_out()) {
    WEIR_RETURN_IF_ERROR(
        ParseMessageBytes(node.definition, absl::StrCat("the node '", name, "'"), graph_def->add_node()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Graph>> GraphFromGraphDefBytes(absl::string_view bytes, const OpRegistry& ops,
                                                              const ImportOptions& options) {
  GraphDef def;
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(bytes, "the GraphDef", &def));
  return ImportNew(def, ops, options);
}

absl::StatusOr<std::unique_ptr<Graph>> GraphFromGraphDefText(const std::string& text, const OpRegistry& ops,
                                                             const ImportOptions& options) {
  GraphDef def;
  WEIR_RETURN_IF_ERROR(ParseMessageText(text, "the GraphDef", &def));
  return ImportNew(def, ops, options);
}

absl::StatusOr<std::string> GraphDefBytes(const Graph& graph, const ExportOptions& options) {
  GraphDef def;
  WEIR_RETURN_IF_ERROR(ExportGraphDef(graph, options, &def));
  return MessageBytes(def, "the graph");
}

absl::StatusOr<std::string> GraphDefText(const Graph& graph, const ExportOptions& options) {
  GraphDef def;
  WEIR_RETURN_IF_ERROR(ExportGraphDef(graph, options, &def));
  return MessageText(def);
}

}  // namespace weir
