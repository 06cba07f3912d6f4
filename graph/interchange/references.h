// TensorFlow 1's reference variables as resource variables.
//
// A node of Variable or VariableV2 has a reference as its output: nodes that take references (Assign,
// ScatterAdd, ApplyAdam...) change the variable, and pass the reference on; all others read its value when
// they run. Weir has handles instead (VarHandleOp), which are ordinary tensors. So a GraphDef is rewritten
// before its nodes are added to a graph:
//
// * Variable becomes VarHandleOp, Assign becomes AssignVariableOp, ApplyAdam becomes ResourceApplyAdam...,
//   under the same names, devices and colocations. TemporaryVariable, the variable of one step, has ops of
//   our own (WeirTemporaryVariable). RefSwitch, RefMerge, RefEnter and their like become Switch, Merge, Enter
//   of the handle, and RefIdentity a NoOp.
// * A node that needs the value gets a ReadVariableOp of its own, "NODE/ref_read_INPUT". In TensorFlow a
//   value is read when its consumer runs. So the read runs after the node that passed the reference on, after
//   the consumer's control inputs and, when the consumer is on the variable's device, after those of its
//   other inputs that run after an update or a Switch. So nothing is read there for a consumer that does not
//   run because a branch is not taken. A consumer on another device gets the value sent, here as in
//   TensorFlow, as soon as it can be read, whether it runs or not: only its control inputs hold that up. One
//   that has several of both puts a NoOp between them, "NODE/ref_order"; an output of a Switch or a RefSwitch
//   gets an Identity, "NODE/ref_gate_INPUT".
// * Identity of a reference ("v/read") becomes the read itself, unless it is on another device. In TensorFlow
//   its output is the variable's buffer, not a copy: who runs after an update sees what that has written. So
//   a consumer that may be on the same device and runs after any update has a read of its own here, too. The
//   same holds for what passes the buffer on: Identity, StopGradient, PreventGradient, CheckNumerics,
//   EnsureShape; Reshape, ExpandDims and Squeeze, which give what was read their shape ("NODE/ref_shaped_0");
//   a Switch; a constant Enter, beside which the handle gets one of its own ("ENTER/ref_handle"). The reads
//   have an attr, by which a later GraphDef knows them.
// * Not followed are Merge, Exit and an Enter that is not constant, and ops that pass the buffer on only for
//   some values or shapes (Slice, StridedSlice, Transpose...): what follows them is as old as they are.
//   Neither is a shape given to a variable whose own may change. A feed in place of "v/read" does not reach a
//   consumer with a read of its own.
// * An Assign without validate_shape may give a variable any shape, so that its handle declares none. Where
//   the variable was imported before, its handle forgets the shape that it declared: what is pruned from the
//   graph after that is inferred anew (graph/rewrite/prune.h).
// * Who asks for the reference by name ("v:0", "Assign:0") gets the value: a read "NODE/ref_value" is the
//   output's stand-in (Graph::SetStandIn).
// * Ops whose handles are references to strings (FIFOQueue, HashTable...) become their successors
//   (old_handles.h), and what passes such a handle on passes the resource on (passed_handles.h).
//
// Semantics: TensorFlow's core/framework/op_kernel (inputs that are references are read when the kernel runs)
// and ops/state_ops.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/interchange/passed_handles.h"

namespace tensorflow {
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace weir {

// The op that takes the place of one with references; empty for an op without them.
std::string CounterpartOfReference(absl::string_view op);

class ReferenceLowering {
 public:
  // Borrows both. `graph` has what was imported before; its stand-ins are references, too.
  ReferenceLowering(const tensorflow::GraphDef& def, const Graph& graph);

  // Whether the GraphDef has anything to rewrite.
  bool is_needed() const { return is_needed_; }

  // The GraphDef without references. A node that cannot be rewritten (its op has no counterpart that is
  // registered, or takes a reference and is given a value) stays as it is.
  tensorflow::GraphDef Lowered();

  // After the nodes of Lowered() were added: makes variables that were there before forget their shapes.
  void ForgetShapes(Graph* graph) const;

  // After the nodes of Lowered() were added: tells the graph which outputs have stand-ins.
  void AddStandIns(Graph* graph) const;

 private:
  // The variable that a reference refers to, and what runs before it is read.
  struct Reference {
    std::string handle;      // as a NodeDef names an input
    std::string after;       // a node, or empty
    int dtype = 0;           // a tensorflow::DataType
    std::string device;      // as asked for
    bool is_shaped = false;  // whoever reads it wants the elements in another shape
  };
  // The Enter of a handle.
  struct HandleEnter {
    const tensorflow::NodeDef* enter = nullptr;  // that of the buffer, beside which it is
    std::string outside;                         // the handle that it leads in
    std::string variable;                        // that of the variable, outside of all loops
    std::string device;
    bool is_added = false;
  };
  // An output that was a reference, and the node that reads it.
  struct StandIn {
    std::string node;
    int output = 0;
    std::string read;
  };

  const tensorflow::NodeDef* Find(absl::string_view name) const;
  // Which nodes lead back to the variable: only those that pass references on, or also those whose outputs
  // share the variable's buffer.
  enum class Way { kReferences, kBuffers };

  // What the input of a node refers to; nullopt when it is an ordinary tensor.
  std::optional<Reference> Resolve(absl::string_view input, Way way = Way::kReferences);
  std::optional<Reference> ResolveSource(absl::string_view node, int output, Way way) const;
  // The name of `outside`'s handle in the loop that `enter` leads into.
  std::string HandleInLoop(const tensorflow::NodeDef& enter, const Reference& outside);
  void AddHandleInLoop(const std::string& handle);
  void AddHandle(const std::string& handle, const HandleEnter& added);
  bool Lower(const tensorflow::NodeDef& node, tensorflow::NodeDef* lowered);
  bool LowerInputs(const tensorflow::NodeDef& node, const Op& op, tensorflow::NodeDef* lowered);
  void LowerHandle(const tensorflow::NodeDef& node, const Op& op, tensorflow::NodeDef* lowered);
  bool LowerIdentity(const tensorflow::NodeDef& node, tensorflow::NodeDef* lowered);
  bool ReadInputs(const tensorflow::NodeDef& node, tensorflow::NodeDef* lowered);
  // Adds reads of the inputs of `reader` that are references and of which it needs the values. The names of
  // the reads by input; inputs that are not read have none.
  absl::flat_hash_map<int, std::string> AddReads(const tensorflow::NodeDef& reader,
                                                 absl::FunctionRef<bool(int)> takes_handle);
  // What `reader` reads when it is run; nullopt when the input is to be taken as it is.
  std::optional<Reference> ReadAtUse(const tensorflow::NodeDef& reader, const std::string& input);
  // The reads of the references wait for those nodes. `order`: the name of a NoOp between them.
  void AddReadsAfter(const tensorflow::NodeDef& reader,
                     const std::vector<std::pair<int, Reference>>& references, std::vector<std::string> after,
                     absl::string_view order, absl::flat_hash_map<int, std::string>* reads);
  // What its reads wait for: of its data inputs those that run after an update or a Switch.
  std::vector<std::string> ProducersBefore(const tensorflow::NodeDef& reader);
  // What this input is of, when it is an output of a Switch; 0 of any other one.
  int TypeOfSwitch(const std::string& input) const;
  // A node that runs when this output of a Switch, which has that type, is alive.
  std::string AddGate(const tensorflow::NodeDef& reader, int input, int dtype);
  void FindNodesAfter();
  // Those that an Assign sets without validate_shape: what the variable's own shape says holds no more then.
  void FindVariablesOfAnyShape();
  bool RunsAfterUpdate(absl::string_view node) const;
  bool CanBeShaped(const Reference& reference) const;
  std::string AddShaped(const tensorflow::NodeDef& reader, int input, const std::string& read,
                        const Reference& reference);
  void AddRead(const std::string& name, const Reference& reference, const std::vector<std::string>& after);
  void AddStandInsOf(const tensorflow::NodeDef& node);

  const tensorflow::GraphDef& def_;
  const Graph& graph_;
  const PassedHandles passed_handles_;
  bool is_needed_ = false;
  bool has_references_in_loops_ = false;
  absl::flat_hash_map<absl::string_view, const tensorflow::NodeDef*> nodes_;
  // Of nodes that pass a reference or a buffer on.
  absl::flat_hash_map<std::pair<std::string, Way>, std::optional<Reference>> resolved_;
  absl::flat_hash_map<std::string, HandleEnter> handles_in_loops_;  // by name
  absl::flat_hash_set<std::string> gates_;
  absl::flat_hash_set<std::string> any_shape_;             // handles of variables
  absl::flat_hash_set<absl::string_view> after_updates_;   // updates, and all that runs after one
  absl::flat_hash_set<absl::string_view> after_switches_;  // likewise
  tensorflow::GraphDef* lowered_ = nullptr;
  std::vector<StandIn> stand_ins_;
};

}  // namespace weir
