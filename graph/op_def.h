// What an op is: its schema, the shapes it gives, and its gradient, in one struct.
//
// Names, inputs, attrs and defaults are TensorFlow's where TensorFlow has the op; ops of our own begin with
// "Weir". An OpDef is written once (ops/<family>/), registered, and never changes; all of it may be read
// concurrently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/attr_value.h"
#include "graph/types/dtype.h"

namespace weir {

class ShapeInference;
class GradientContext;

// Sets the shape of every output (graph/shape_inference.h), or says which inputs do not fit. Called when a
// node is built; a shape left unset is unknown.
using ShapeFunction = absl::Status (*)(ShapeInference& inference);

// Adds the nodes of the gradient (graph/gradients.h).
using GradientFunction = absl::Status (*)(GradientContext& context);

// The `gradient` of an op through which no gradient flows: the driver stops there.
absl::Status NotDifferentiable(GradientContext& context);

struct OpDef {
  std::string name;
  // One sentence for the list of ops, in the third person: "Multiplies two matrices."
  std::string summary;

  // "name: type", where type is a dtype ("float"), a type attr ("T"), "N * T" for a list of N tensors of one
  // type, or a list(type) attr's name for tensors of several types.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  // "name: kind", with optional constraint and default:
  //   "transpose_a: bool = false"  "T: {float, double}"  "T: type"  "N: int >= 1"  "padding: {'SAME',
  //   'VALID'}" "shape: shape = ?"  "strides: list(int)"  "Tidx: {int32, int64} = int32"  "value: tensor"
  std::vector<std::string> attrs;

  // Has effects or state: never folded, merged or dropped as unused duplicates.
  bool is_stateful = false;
  // Works element by element on inputs of one shape (or broadcast ones); a candidate for fusion.
  bool is_elementwise = false;
  // Exchanging the first two inputs changes nothing.
  bool is_commutative = false;

  ShapeFunction infer_shapes = nullptr;
  GradientFunction gradient = nullptr;
};

struct ArgDef {
  std::string name;
  DType dtype = DType::kInvalid;  // set when the type is fixed
  std::string type_attr;          // or the attr that gives it
  std::string number_attr;        // set for a list "N * T"
  std::string type_list_attr;     // set for a list of several types

  bool is_list() const { return !number_attr.empty() || !type_list_attr.empty(); }
};

struct AttrDef {
  std::string name;
  AttrKind kind = AttrKind::kNone;
  std::optional<AttrValue> default_value;
  std::vector<DType> allowed_types;  // empty: any
  std::vector<std::string> allowed_strings;
  std::optional<int64_t> minimum;  // of an int, or of a list's length

  // InvalidArgument naming the attr, the value and what is allowed.
  absl::Status Validate(const AttrValue& value) const;
};

// An OpDef with its specifications parsed.
class Op {
 public:
  // InvalidArgument naming the op and the specification that does not parse; also when the shape function or
  // the gradient is missing.
  static absl::StatusOr<Op> Parse(OpDef def);

  const std::string& name() const { return def_.name; }
  const OpDef& def() const { return def_; }
  const std::vector<ArgDef>& inputs() const { return inputs_; }
  const std::vector<ArgDef>& outputs() const { return outputs_; }
  const std::vector<AttrDef>& attrs() const { return attrs_; }
  const AttrDef* FindAttr(absl::string_view name) const;
  bool is_stateful() const { return def_.is_stateful; }

 private:
  OpDef def_;
  std::vector<ArgDef> inputs_;
  std::vector<ArgDef> outputs_;
  std::vector<AttrDef> attrs_;
};

}  // namespace weir
