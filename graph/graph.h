// A static dataflow graph: nodes, edges, and what belongs to the model beside them (variables, collections).
//
// Every node of a Graph is valid: its op is registered, its attrs are complete and allowed, its inputs have
// the types that the schema asks for, its output shapes are inferred. AddNode checks this; the functions that
// change nodes later have preconditions that keep it. Cycles are possible only through SetInput (loops of v1
// control flow).
//
// Thread safety: reads are concurrent; changes need outside locking. Nodes live as long as the graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/node.h"
#include "graph/op_registry.h"

namespace weir {

// One argument of an op: a tensor, or a list of tensors for an argument "N * T".
class InputArg {
 public:
  InputArg(Output output) : outputs_{output} {}
  InputArg(std::vector<Output> outputs) : outputs_(std::move(outputs)), is_list_(true) {}

  const std::vector<Output>& outputs() const { return outputs_; }
  bool is_list() const { return is_list_; }

 private:
  std::vector<Output> outputs_;
  bool is_list_ = false;
};

// All that describes a node to be added.
struct NodeSpec {
  std::string op;
  std::string name;  // unique in the graph
  std::vector<InputArg> inputs;
  std::vector<Node*> control_inputs;
  AttrMap attrs;  // attrs that inputs determine (T, N) and defaults may be left out
  DeviceName device;
  SourceLocation source;
};

// Which part of a variable in several parts a variable is (TensorFlow's SaveSliceInfoDef).
struct VariableSlice {
  std::string full_name;  // in checkpoints, where all parts are slices of one tensor
  Shape full_shape;
  std::vector<int64_t> offset;  // of its first element: one for each dimension
  Shape shape;                  // its own

  // What save and restore ops call it: "5 2 3,2:0,2".
  std::string ToString() const;
};

// A variable of the model, as checkpoints and optimizers see it (TensorFlow's VariableDef).
struct VariableDef {
  std::string variable_name;       // the name in checkpoints: "dense/kernel"
  std::string handle_name;         // the VarHandleOp's output: "dense/kernel:0"
  std::string initializer_name;    // the op that sets the initial value
  std::string snapshot_name;       // the output that reads it
  std::string initial_value_name;  // the output it is set to
  bool trainable = true;
  std::optional<VariableSlice> slice;  // of a part only
};

// A node that could not be imported (graph/interchange).
struct LeftOutNode {
  std::string name;
  absl::Status reason;     // "op 'Foo' of node 'x' is not registered"
  std::string definition;  // its NodeDef, serialized
};

class Graph {
 public:
  explicit Graph(const OpRegistry& ops) : ops_(&ops) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const OpRegistry& ops() const { return *ops_; }

  // Validates against the schema, infers types, attrs and shapes. Errors (InvalidArgument, NotFound for an
  // unknown op, AlreadyExists for a used name) begin with "OP 'NAME': " and end with the source line; nothing
  // is added then.
  absl::StatusOr<Node*> AddNode(NodeSpec spec);

  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  absl::Span<const std::unique_ptr<Node>> nodes() const { return nodes_; }
  Node* node(int id) const { return nodes_[id].get(); }
  Node* FindNode(absl::string_view name) const;  // null when there is none
  // "name" or "name:1"; NotFound with the nearest names, OutOfRange for an index the node does not have.
  absl::StatusOr<Output> FindOutput(absl::string_view name) const;
  // The same for somebody who wants a value: where an output has a stand-in, that one.
  absl::StatusOr<Output> FindValue(absl::string_view name) const;
  // NotFound with the nearest names; for a node that was left out, the reason.
  absl::StatusOr<Node*> LookupNode(absl::string_view name) const;

  // Nodes in an order in which inputs come before their consumers. InvalidArgument names the nodes of a cycle
  // that does not go through NextIteration.
  absl::StatusOr<std::vector<Node*>> TopologicalOrder() const;

  // Changes by rewrites and the placer.
  void SetInput(Node* node, int index, Output source);  // precondition: same dtype
  void AddControlInput(Node* node, Node* before);
  // Replaces all edges into a node. Precondition: inputs of the right types.
  void Connect(Node* node, std::vector<Output> inputs, std::vector<Node*> control_inputs);
  void SetAttr(Node* node, absl::string_view name, AttrValue value);
  void SetRequestedDevice(Node* node, DeviceName device) { node->requested_device_ = std::move(device); }
  void SetAssignedDevice(Node* node, DeviceName device) { node->assigned_device_ = std::move(device); }
  // Drops every node for which keep[id] is false. Precondition: no kept node has a dropped input. Ids change.
  void KeepOnly(const std::vector<bool>& keep);

  // A copy with the same names, devices, shapes, variables and collections; node i corresponds to node i.
  std::unique_ptr<Graph> Clone() const;
  // Adds a copy of `node` (of any graph with the same ops) with the given inputs, under the same name,
  // without inferring again. Precondition: the name is free, inputs have the right types.
  Node* AddCopy(const Node& node, std::vector<Output> inputs, std::vector<Node*> control_inputs);

  // Stand-ins: `of` was a reference to a variable where this graph was imported from (graph/interchange), and
  // its node may not have that output now. `read` is the variable's value, the output of a ReadVariableOp;
  // its first control input, where it has one, is the node that passed the reference on.
  void SetStandIn(Output of, Output read) { stand_ins_[of] = read; }
  std::optional<Output> StandIn(Output of) const;
  bool has_stand_ins() const { return !stand_ins_.empty(); }

  // What imports had to leave out. Names are unique among these and the nodes: AddNode refuses theirs.
  void AddLeftOut(LeftOutNode node) { left_out_.emplace(node.name, std::move(node)); }
  const LeftOutNode* FindLeftOut(absl::string_view name) const;  // null when there is none
  const std::map<std::string, LeftOutNode, std::less<>>& left_out() const { return left_out_; }

  std::vector<VariableDef>& variables() { return variables_; }
  const std::vector<VariableDef>& variables() const { return variables_; }
  // TensorFlow's node collections ("summaries", "global_step", "train_op"...): node or output names by
  // collection.
  std::map<std::string, std::vector<std::string>>& collections() { return collections_; }
  const std::map<std::string, std::vector<std::string>>& collections() const { return collections_; }

 private:
  absl::StatusOr<Output> ParseOutput(absl::string_view name) const;

  const OpRegistry* ops_;
  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<std::string, Node*> by_name_;
  absl::flat_hash_map<Output, Output> stand_ins_;
  std::map<std::string, LeftOutNode, std::less<>> left_out_;
  std::vector<VariableDef> variables_;
  std::map<std::string, std::vector<std::string>> collections_;
};

}  // namespace weir
