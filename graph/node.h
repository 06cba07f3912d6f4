// One operation of a graph and its edges.
//
// Owned by its Graph and never moved, so Node* and Output stay valid as long as the graph. Built by
// GraphBuilder or by interchange; rewrites and the placer change it through Graph. Thread safety: safe to
// read concurrently.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/attr_value.h"
#include "graph/op_def.h"
#include "graph/types/device_name.h"
#include "graph/types/shape.h"
#include "graph/types/source_location.h"

namespace weir {

class Node;

// One output of a node: what an edge starts from. A null node stands for "no tensor".
struct Output {
  Node* node = nullptr;
  int index = 0;

  explicit operator bool() const { return node != nullptr; }
  DType dtype() const;                // precondition: node != nullptr
  const PartialShape& shape() const;  // precondition: node != nullptr
  std::string name() const;           // "dense/mm:0"; "(none)" for a null node

  friend bool operator==(const Output& a, const Output& b) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Output& output) {
    return H::combine(std::move(h), output.node, output.index);
  }
};

// What a resource handle refers to: the dtype and shape of the variable behind it.
struct ResourceType {
  DType dtype = DType::kInvalid;
  PartialShape shape;
};

class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Position in Graph::nodes(): dense, so that analyses may use vectors indexed by it.
  int id() const { return id_; }
  const std::string& name() const { return name_; }
  const Op& op() const { return *op_; }
  const std::string& op_name() const { return op_->name(); }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(output_types_.size()); }
  const Output& input(int index) const { return inputs_[index]; }
  absl::Span<const Output> inputs() const { return inputs_; }
  absl::Span<Node* const> control_inputs() const { return control_inputs_; }
  Output output(int index) { return {this, index}; }

  DType input_type(int index) const { return inputs_[index].dtype(); }
  DType output_type(int index) const { return output_types_[index]; }
  absl::Span<const DType> output_types() const { return output_types_; }
  const PartialShape& output_shape(int index) const { return output_shapes_[index]; }
  // Of a kResource output whose variable is known.
  const std::optional<ResourceType>& resource_type(int index) const { return resource_types_[index]; }

  const AttrMap& attrs() const { return attrs_; }
  const AttrValue* FindAttr(absl::string_view name) const;
  // Precondition: the op's schema has an attr of that name and type (every schema attr of a node is set).
  template <typename T>
  const T& attr(absl::string_view name) const {
    return FindAttr(name)->get<T>();
  }

  // What the author asked for, and what the placer decided (empty before placement).
  const DeviceName& requested_device() const { return requested_device_; }
  const DeviceName& assigned_device() const { return assigned_device_; }
  // Nodes that must share this one's device ("loc:@NAME" of attr _class), by name.
  std::vector<std::string> colocation_names() const;

  const SourceLocation& source() const { return source_; }

  // "MatMul 'dense/mm'": how errors name a node.
  std::string Describe() const { return op_->name() + " '" + name_ + "'"; }

 private:
  friend class Graph;
  Node() = default;

  int id_ = 0;
  std::string name_;
  const Op* op_ = nullptr;
  std::vector<Output> inputs_;
  std::vector<Node*> control_inputs_;
  std::vector<DType> output_types_;
  std::vector<PartialShape> output_shapes_;
  std::vector<std::optional<ResourceType>> resource_types_;
  AttrMap attrs_;
  DeviceName requested_device_;
  DeviceName assigned_device_;
  SourceLocation source_;
};

inline DType Output::dtype() const { return node->output_type(index); }
inline const PartialShape& Output::shape() const { return node->output_shape(index); }

}  // namespace weir
