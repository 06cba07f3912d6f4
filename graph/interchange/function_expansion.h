// Calls of functions become the nodes of the functions.
//
// Before the nodes of a GraphDef are added to a graph, each call of a function of its library is replaced:
// PartitionedCall, StatefulPartitionedCall, and nodes whose op is a function's name, by the function's nodes;
// If, Case and While (and their stateless kin) by the nodes of their branches or bodies between Switch and
// Merge, or in a loop of Enter, Merge, Switch, NextIteration and Exit. So a step is pruned, placed and run as
// if the functions had never been. For becomes a loop too, a RemoteCall whose target is a constant the
// function's nodes on that device, and SymbolicGradient the nodes of the function and of its gradient.
//
// * Where the call was stands a node of its name, with its outputs: an Identity, an IdentityN, or a NoOp. It
//   can be fed, fetched and colocated with as the call could. Of several outputs a step computes those that
//   it needs (graph/rewrite/prune.h). The node runs after the effects of the call (the
//   function's control results, or the stateful nodes of a called function that has none), so these happen
//   also when no output is used. In a branch or a loop what no result needs is left out, as TensorFlow does,
//   unless it is a control result.
// * The nodes of a function are named "CALL/_call/NODE", "CALL/_then/NODE", "CALL/_else/NODE",
//   "CALL/_branch2/NODE", "CALL/_cond/NODE", "CALL/_body/NODE"; what is added has names "CALL/_SOMETHING".
// * What a node of a function leaves open of its device, the call's device says.
// * Nodes that have no argument among their inputs run after the call's control inputs and, in branches and
//   loops, after an argument, so a call in a branch that is not taken does nothing. A node after which they
//   can run stands for an argument that is a variable's handle.
// * A call with effects waits for nodes with effects that lead to its arguments, whether its function uses
//   these or not.
// * A call in a v1 loop into which a constant Enter leads waits for all of its inputs: that value is there in
//   the iteration whose condition is false, too.
// * A value that a loop hands on unchanged is led in once. A variable's handle is never switched.
//
// A call that cannot be expanded stays, with the reason. Calls may be nested 100 deep and become as many
// nodes and bytes as the import's options say; a function that calls itself is refused. The memory that the
// nodes take is admitted as they are made; when that is refused, the expansion ends.
//
// Functions that a kernel calls (a dataset's map, an iterator's dataset) are not made part of the graph: a
// node of a known op that names functions of the library gets their bodies as attrs
// (graph/function_bodies.h), in which calls are expanded in the same way. Each body counts against the same
// limits.
//
// Semantics: TensorFlow's common_runtime/inline_function_utils, lower_if_op, lower_case_op, lower_while_op.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/interchange/function_calls.h"
#include "graph/interchange/function_library.h"
#include "graph/interchange/graph_def.h"

namespace weir {

class FunctionExpansion {
 public:
  // Borrows all. `graph` has what was imported before.
  FunctionExpansion(const tensorflow::GraphDef& def, const Graph& graph, FunctionLibrary& library,
                    const ImportOptions& options);

  // Whether the GraphDef has a call, or a node that names a function of the library.
  static bool IsNeeded(const tensorflow::GraphDef& def, const OpRegistry& ops,
                       const FunctionLibrary& library);

  // The GraphDef without calls, and without its library; or why its nodes were not admitted. Called once.
  absl::StatusOr<tensorflow::GraphDef> Expanded();

  // Why calls stayed, by name.
  const absl::flat_hash_map<std::string, absl::Status>& failures() const { return failures_; }

 private:
  // What an argument of a body is.
  struct Source {
    std::string input;  // as a NodeDef names it
    // Whether it is there only when the body is to run. A node of which no input is gated waits for the
    // gates, and so does a call of which any input is not.
    bool is_gated = true;
    std::string node;  // runs when the argument is there; empty: that is when the gates have run
  };
  struct Region {
    std::string function;
    std::string prefix;  // of the names of its nodes
    std::vector<Source> arguments;
    std::vector<std::string> gates;  // nodes that run when the body is to run
    std::string device;
    bool is_call = false;  // no branch, and no part of a loop
  };
  struct Results {
    std::vector<Source> outputs;
    std::vector<std::string> effects;  // nodes
  };
  struct Branch {
    const AttrProto* function = nullptr;
    std::string label;     // "then"
    std::string selector;  // a bool, as a NodeDef names it
    int port = 1;          // the output of a Switch by the selector, where the branch is taken
  };

  bool IsCall(const tensorflow::NodeDef& node) const;
  // The nodes of the GraphDef, and of the graph, that have effects or run after some.
  absl::flat_hash_set<std::string> NodesAfterEffects() const;
  // Whether it is the call of a function with effects.
  bool AwaitsEffects(const tensorflow::NodeDef& node) const;
  // The call, with control edges from those that it takes a value of.
  static tensorflow::NodeDef AwaitingEffects(tensorflow::NodeDef call,
                                             const absl::flat_hash_set<std::string>& after_effects);
  // Functions of the library that the node's kernel calls.
  absl::Status AttachBodies(tensorflow::NodeDef* node);
  // What becomes of calls of functions that have a gradient of their own in the library.
  enum class OwnGradients { kExpand, kKeep };
  absl::StatusOr<std::string> GraphOfBody(const FunctionBody& body, const std::string& function,
                                          OwnGradients own_gradients = OwnGradients::kExpand);
  absl::Status Expand(tensorflow::NodeDef node);
  absl::Status ExpandCall(const tensorflow::NodeDef& call, absl::string_view function,
                          const AttrProtos& attrs);
  absl::Status ExpandCall(tensorflow::NodeDef call, absl::string_view function, const FunctionBody& body);
  // Where a constant Enter leads into the call, and other inputs may be missing: makes the call wait for all
  // of its inputs, as one node would. `types` are theirs.
  absl::Status AwaitAllInputs(const std::vector<tensorflow::DataType>& types, tensorflow::NodeDef* call);
  // Adds a call, or a SymbolicGradient, of a function with a gradient of its own as one node, while it is
  // kept (function_call_ops.h). Its function is `attrs`' and is called `function`.
  absl::Status KeepCall(const tensorflow::NodeDef& call, absl::string_view function, const AttrProtos& attrs);
  bool IsKept(absl::string_view function) const {
    return own_gradients_ == OwnGradients::kKeep && !library_.GradientOf(function).empty();
  }
  // Adds what nothing becomes of.
  absl::Status AddPlain(tensorflow::NodeDef node);
  absl::Status ExpandRemoteCall(const tensorflow::NodeDef& call, const std::string& target);
  absl::Status ExpandGradient(const tensorflow::NodeDef& call);
  // The function that takes a function's arguments and what flows into its results, and gives what flows into
  // the arguments. It calls functions that have gradients of their own, and those.
  absl::StatusOr<FunctionBody> GradientBody(const FunctionBody& body, const std::string& function);
  absl::Status ExpandIf(const tensorflow::NodeDef& call);
  absl::Status ExpandCase(const tensorflow::NodeDef& call);
  absl::Status ExpandWhile(const tensorflow::NodeDef& call);
  absl::Status ExpandFor(const tensorflow::NodeDef& call);
  // A node that fails, with that text and those ints, where the bool does not hold.
  absl::Status AddCheck(const tensorflow::NodeDef& call, absl::string_view name, const std::string& condition,
                        absl::string_view shown, const std::vector<std::string>& ints,
                        const std::string& after);
  // One part of a loop; borrows the body.
  struct LoopPart {
    std::string function;
    const FunctionBody& body;
  };
  // A loop whose variables begin as `inputs`. The call's results are the variables from `first_result` on.
  absl::Status AddLoop(const tensorflow::NodeDef& call, const CallInputs& inputs, const LoopPart& condition,
                       const LoopPart& body, size_t first_result);
  absl::Status AddBranches(const tensorflow::NodeDef& call, const std::vector<Branch>& branches);
  // One branch, between Switches and what the Merges take. `done` runs after its effects; empty: it has none.
  absl::Status AddBranch(const tensorflow::NodeDef& call, const Branch& branch, const FunctionBody& body,
                         std::vector<std::string>* outputs, std::string* done);

  absl::StatusOr<Results> AddBody(const FunctionBody& body, const Region& region);
  absl::Status AddBodyNode(const tensorflow::NodeDef& node, const Region& region,
                           const absl::flat_hash_set<absl::string_view>& names);
  static Source ResultOf(const std::string& result, const Region& region);
  // Remembers the value of a node that is a constant string, or the Identity of one.
  void NoteString(const tensorflow::NodeDef& node);
  void HoldString(const std::string& node, std::string value);
  // The node that stands where the call was.
  absl::Status AddResult(const tensorflow::NodeDef& call, const std::vector<std::string>& outputs,
                         const std::vector<tensorflow::DataType>& types,
                         const std::vector<std::string>& after);
  absl::StatusOr<std::shared_ptr<const FunctionBody>> Body(const tensorflow::NodeDef& call,
                                                           absl::string_view function,
                                                           const AttrProtos& attrs);
  // The same for an attr, whose kind is checked.
  absl::StatusOr<std::shared_ptr<const FunctionBody>> Body(const tensorflow::NodeDef& call,
                                                           const AttrProto* function, absl::string_view attr);

  absl::Status TooMuch(absl::string_view what) const;
  // Has the nodes that are there admitted.
  absl::Status Admit();
  // Adds a node; its name must be free.
  absl::Status Add(tensorflow::NodeDef node);
  absl::Status Add(const tensorflow::NodeDef& call, absl::string_view op, const std::string& name,
                   const std::vector<std::string>& inputs, const std::vector<std::string>& after,
                   tensorflow::DataType type);

  const tensorflow::GraphDef& def_;
  const Graph& graph_;
  FunctionLibrary& library_;
  const ImportOptions& options_;
  tensorflow::GraphDef expanded_;
  absl::flat_hash_set<std::string> names_;
  std::vector<std::string> calling_;  // functions, from the call of the graph inwards
  size_t outer_calls_ = 0;            // those of them that lead to the body that this expands
  bool is_conditional_ = false;       // whether what is added may be in a branch or a loop
  int64_t num_nodes_ = 0;             // that were added for calls, also those of calls that failed
  int64_t num_bytes_ = 0;             // of them, about
  int64_t held_bytes_ = 0;            // what those that are there take as nodes of a graph, about
  int64_t admitted_bytes_ = 0;        // of held_bytes_ and more
  absl::Status refusal_;              // of more
  absl::flat_hash_map<std::string, std::string> strings_;  // of nodes: see NoteString
  absl::flat_hash_set<std::string> constant_enters_;       // of v1 loops
  OwnGradients own_gradients_ = OwnGradients::kExpand;
  // Of the functions that were made nodes, one that has a gradient of its own in the library.
  std::string has_own_gradient_;
  absl::flat_hash_map<std::string, absl::Status> failures_;
};

}  // namespace weir
