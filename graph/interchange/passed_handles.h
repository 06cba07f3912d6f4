// Nodes that only pass a handle on that was a reference to a string in TensorFlow 1 (old_handles.h):
// RefSwitch, RefEnter, RefIdentity..., and Identity, Switch and their like.
//
// Such a handle is imported as a resource, which these nodes pass on as any tensor: "RefSwitch" becomes
// "Switch", and its type, which was a string's, a resource's. (TensorFlow's Identity of such a reference
// gives the strings that the handle consists of, which only TensorFlow's own kernels can use.) Barriers and
// accumulators have no successors: their handles are strings here, and stay that.
//
// Thread safety: const methods.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/types/dtype.h"

namespace tensorflow {
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace weir {

class PassedHandles {
 public:
  // Borrows both. `graph` has what was imported before: its nodes give handles, too.
  PassedHandles(const tensorflow::GraphDef& def, const Graph& graph);

  bool is_empty() const { return nodes_.empty(); }
  bool Contains(absl::string_view node) const { return nodes_.contains(node); }
  // What such a node passes on; kInvalid for any other node.
  DType TypeOf(absl::string_view node) const;
  // A node that Contains knows. False when the registry has no such op.
  bool Lower(const tensorflow::NodeDef& node, tensorflow::NodeDef* lowered) const;

 private:
  void Find(const tensorflow::GraphDef& def);
  // The type of the handle that a node is given and passes on; kInvalid for what is none.
  DType TypeOfHandle(const tensorflow::NodeDef& node, const std::string& input) const;

  const Graph& graph_;
  absl::flat_hash_set<absl::string_view> names_;           // of the GraphDef's nodes
  absl::flat_hash_map<absl::string_view, DType> sources_;  // nodes that make handles, and their type
  absl::flat_hash_map<absl::string_view, DType> nodes_;    // those that pass them on
  absl::flat_hash_set<absl::string_view> forks_;           // of those the Switches
};

}  // namespace weir
