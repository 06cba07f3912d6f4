// The functions that come with a GraphDef: found by name, and instantiated.
//
// A FunctionDef is a signature, nodes, and what its results are. Its nodes name their inputs otherwise than
// those of a graph do: "arg", "node:output_arg:2" ("node:output_arg" is all of that argument), "^node". Attrs
// may be placeholders of attrs that a call gives. A body (FunctionBody) has neither: it is what one call
// becomes, up to the names of its nodes and the values of its arguments.
//
// Source of the format: TensorFlow's core/framework/function.proto.
//
// Thread safety: none; one import has one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/op_registry.h"

namespace weir {

using AttrProto = tensorflow::AttrValue;
using AttrProtos = google::protobuf::Map<std::string, AttrProto>;

struct FunctionBody {
  // The tensors that it takes. An argument of the signature that is a list is several of them.
  struct Argument {
    std::string name;
    tensorflow::DataType type;
  };
  std::vector<Argument> arguments;
  // Inputs are named as in a GraphDef ("node:1"), and arguments by the number in `arguments`: "#0", "^#0".
  std::vector<tensorflow::NodeDef> nodes;
  std::vector<std::string> results;  // named as inputs are
  std::vector<tensorflow::DataType> result_types;
  std::vector<std::string> effects;  // nodes that run even if no result needs them: control results
  // Of a function without control results: the nodes with effects. A call runs them; a branch or a loop runs
  // those that its results need.
  std::vector<std::string> stateful;
  bool has_effects = false;  // some node does, whether a result needs it or not
  // Names of nodes that have effects or run after some; of a body without effects or without calls none.
  absl::flat_hash_set<std::string> after_effects;
  int64_t num_bytes = 0;  // of the nodes, about
};

// The number of the argument that "#3" names; -1 for another input.
int ArgumentNumber(absl::string_view input);

class FunctionLibrary {
 public:
  // Borrows both. InvalidArgument for a function without a name, or two of one name that differ.
  static absl::StatusOr<FunctionLibrary> Create(const tensorflow::FunctionDefLibrary& functions,
                                                const OpRegistry& ops);

  // Null when there is none.
  const tensorflow::FunctionDef* Find(absl::string_view name) const;

  // Whether a node of that op changes something, or may: a stateful op, or the call of a function that is,
  // but no handle, no read, and nothing that is fed.
  bool HasEffects(absl::string_view op) const;

  // The function that the library has as the gradient of this one; empty when it names none.
  std::string GradientOf(absl::string_view name) const;

  // How many nodes a call of the function becomes at least, with the calls in it: a few functions that call
  // one another twice each are very many nodes.
  int64_t NumNodesOfCall(absl::string_view name);

  // The body for a call that gives these attrs, or why there is none; the same for equal attrs. Only attrs of
  // the signature count. NotFound: there is no such function; InvalidArgument: an attr that the call lacks,
  // two nodes of one name, nodes in a cycle, an input that nothing in it gives, a result that is missing;
  // ResourceExhausted: too many bodies, or attrs and names that a body would repeat too often.
  absl::StatusOr<std::shared_ptr<const FunctionBody>> Instantiate(absl::string_view name,
                                                                  const AttrProtos& attrs);

 private:
  explicit FunctionLibrary(const OpRegistry& ops) : ops_(&ops) {}

  // The function that the node calls, other than as a branch or in a loop; null for none.
  const tensorflow::FunctionDef* CalledBy(const tensorflow::NodeDef& node) const;

  const OpRegistry* ops_;
  absl::flat_hash_map<absl::string_view, const tensorflow::FunctionDef*> functions_;
  absl::flat_hash_map<absl::string_view, absl::string_view> gradients_;
  // By name and attrs, also those that cannot be made.
  absl::flat_hash_map<std::string, absl::StatusOr<std::shared_ptr<const FunctionBody>>> bodies_;
  absl::flat_hash_map<const tensorflow::FunctionDef*, int64_t> num_nodes_of_call_;
  int64_t num_nodes_ = 0;  // of bodies that were made, also of those that failed
  int64_t num_bytes_ = 0;  // of bodies
};

}  // namespace weir
