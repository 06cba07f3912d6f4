#include "graph/graph.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/nearest_names.h"
#include "graph/node_of_graph.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// TensorFlow's rule for node names: [A-Za-z0-9.][A-Za-z0-9_.\-/]*; a leading underscore is for the runtime's
// own.
bool IsNodeName(absl::string_view name) {
  if (name.empty() || name.front() == '-' || name.front() == '/') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-' || c == '/' || c == '>';
  });
}

std::string ArgTypesToString(const std::vector<Output>& outputs) {
  return absl::StrJoin(outputs, ", ", [](std::string* out, const Output& output) {
    absl::StrAppend(out, "'", output.name(), "' ", TypeString(output.dtype(), output.shape()));
  });
}

// Fits the inputs to the schema's arguments and finds the attrs that they determine.
class SchemaMatch {
 public:
  SchemaMatch(const Op& op, AttrMap* attrs) : op_(op), attrs_(attrs) {}

  absl::Status MatchInputs(const std::vector<InputArg>& inputs) {
    if (inputs.size() != op_.inputs().size()) {
      return absl::InvalidArgumentError(absl::StrCat("takes ", op_.inputs().size(), " inputs (",
                                                     absl::StrJoin(op_.def().inputs, ", "), "), got ",
                                                     inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) WEIR_RETURN_IF_ERROR(MatchInput(op_.inputs()[i], inputs[i]));
    return absl::OkStatus();
  }

  // Fills defaults in and checks every attr; attrs beginning with '_' are outside the schema.
  absl::Status CompleteAttrs() {
    for (const AttrDef& def : op_.attrs()) {
      auto found = attrs_->find(def.name);
      if (found == attrs_->end()) {
        if (!def.default_value) {
          return absl::InvalidArgumentError(
              absl::StrCat("attr ", def.name, " (", AttrKindName(def.kind), ") is missing"));
        }
        attrs_->emplace(def.name, *def.default_value);
        continue;
      }
      AdoptEmptyList(def, &found->second);
      WEIR_RETURN_IF_ERROR(def.Validate(found->second));
    }
    return RefuseUnknownAttrs();
  }

  absl::StatusOr<std::vector<DType>> OutputTypes() const {
    std::vector<DType> types;
    for (const ArgDef& arg : op_.outputs()) {
      if (!arg.type_list_attr.empty()) {
        const auto& list = (*attrs_)[arg.type_list_attr].get<std::vector<DType>>();
        types.insert(types.end(), list.begin(), list.end());
        continue;
      }
      const DType dtype = arg.type_attr.empty() ? arg.dtype : (*attrs_)[arg.type_attr].get<DType>();
      const int64_t count = arg.number_attr.empty() ? 1 : (*attrs_)[arg.number_attr].get<int64_t>();
      if (count > kMaxOutputs) {
        return absl::InvalidArgumentError(
            absl::StrCat("attr ", arg.number_attr, " asks for ", count, " outputs"));
      }
      types.insert(types.end(), count, dtype);
    }
    return types;
  }

 private:
  static constexpr int64_t kMaxOutputs = 1 << 20;

  absl::Status MatchInput(const ArgDef& arg, const InputArg& input) {
    for (const Output& output : input.outputs()) WEIR_RETURN_IF_ERROR(CheckOutput(arg, output));
    if (!arg.type_list_attr.empty()) return MatchTypeList(arg, input.outputs());
    if (!arg.number_attr.empty()) {
      WEIR_RETURN_IF_ERROR(
          Determine(arg.number_attr, static_cast<int64_t>(input.outputs().size()), arg, input));
    } else if (input.outputs().size() != 1 || input.is_list()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", arg.name, " is one tensor, got a list of ", input.outputs().size()));
    }
    for (const Output& output : input.outputs()) WEIR_RETURN_IF_ERROR(MatchType(arg, output, input));
    return absl::OkStatus();
  }

  static absl::Status CheckOutput(const ArgDef& arg, const Output& output) {
    if (!output) return absl::InvalidArgumentError(absl::StrCat("input ", arg.name, " is no node's output"));
    if (output.index < 0 || output.index >= output.node->num_outputs()) {
      return absl::InvalidArgumentError(absl::StrCat("input ", arg.name, " is '", output.name(), "', but ",
                                                     output.node->Describe(), " has ",
                                                     output.node->num_outputs(), " outputs"));
    }
    return absl::OkStatus();
  }

  absl::Status MatchTypeList(const ArgDef& arg, const std::vector<Output>& outputs) {
    std::vector<DType> types;
    for (const Output& output : outputs) types.push_back(output.dtype());
    auto [attr, is_new] = attrs_->emplace(arg.type_list_attr, types);
    AdoptEmptyList(*op_.FindAttr(arg.type_list_attr), &attr->second);
    if (attr->second == AttrValue(types)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("input ", arg.name, " has types ",
                                                   AttrValue(types).ToString(), ", attr ", arg.type_list_attr,
                                                   " says ", attr->second.ToString()));
  }

  absl::Status MatchType(const ArgDef& arg, const Output& output, const InputArg& input) {
    if (!arg.type_attr.empty()) return Determine(arg.type_attr, output.dtype(), arg, input);
    if (output.dtype() == arg.dtype) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("input ", arg.name, " must be ", DTypeName(arg.dtype),
                                                   ", got ", ArgTypesToString(input.outputs())));
  }

  // Sets the attr to what an input says, or checks that they agree.
  absl::Status Determine(const std::string& name, AttrValue value, const ArgDef& arg, const InputArg& input) {
    auto [attr, is_new] = attrs_->emplace(name, value);
    if (attr->second == value) {
      if (is_new) determined_by_.emplace(name, arg.name);
      return absl::OkStatus();
    }
    auto source = determined_by_.find(name);
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", arg.name, " has ", name, "=", value.ToString(), " (", ArgTypesToString(input.outputs()),
        "), but ", source == determined_by_.end() ? "attr " + name : "input " + source->second, " says ",
        attr->second.ToString()));
  }

  // An empty list carries no element kind on the wire or in braces: it takes the schema's.
  static void AdoptEmptyList(const AttrDef& def, AttrValue* value) {
    if (value->kind() == def.kind) return;
    const bool is_empty = std::visit(
        [](const auto& held) {
          if constexpr (requires(std::decay_t<decltype(held)> list) { list.push_back(list.front()); })
            return held.empty();
          return false;
        },
        value->value());
    if (!is_empty || value->kind() == AttrKind::kString) return;
    switch (def.kind) {
      case AttrKind::kStringList:
        *value = std::vector<std::string>();
        break;
      case AttrKind::kIntList:
        *value = std::vector<int64_t>();
        break;
      case AttrKind::kFloatList:
        *value = std::vector<float>();
        break;
      case AttrKind::kBoolList:
        *value = std::vector<bool>();
        break;
      case AttrKind::kTypeList:
        *value = std::vector<DType>();
        break;
      case AttrKind::kShapeList:
        *value = std::vector<PartialShape>();
        break;
      default:
        break;
    }
  }

  absl::Status RefuseUnknownAttrs() const {
    for (const auto& [name, value] : *attrs_) {
      if (absl::StartsWith(name, "_") || op_.FindAttr(name) != nullptr) continue;
      std::vector<absl::string_view> known;
      for (const AttrDef& def : op_.attrs()) known.push_back(def.name);
      return absl::InvalidArgumentError(absl::StrCat("has no attr '", name, "'", DidYouMean(name, known)));
    }
    return absl::OkStatus();
  }

  const Op& op_;
  AttrMap* const attrs_;
  std::map<std::string, std::string> determined_by_;
};

// Null inputs are the schema's business.
absl::Status CheckNeighboursAreOf(const Graph& graph, const NodeSpec& spec) {
  for (const InputArg& input : spec.inputs) {
    for (const Output& output : input.outputs()) {
      if (output) WEIR_RETURN_IF_ERROR(CheckNodeOf(graph, *output.node));
    }
  }
  for (const Node* before : spec.control_inputs) WEIR_RETURN_IF_ERROR(CheckNodeOf(graph, *before));
  return absl::OkStatus();
}

absl::Status Annotate(const absl::Status& status, const NodeSpec& spec) {
  const std::string where = spec.source.ToString();
  return absl::Status(status.code(), absl::StrCat(spec.op, " '", spec.name, "': ", status.message(),
                                                  where.empty() ? "" : absl::StrCat(" (at ", where, ")")));
}

}  // namespace

std::string VariableSlice::ToString() const {
  std::string text;
  for (int64_t size : full_shape.dims()) absl::StrAppend(&text, size, " ");
  for (int i = 0; i < shape.rank(); ++i) {
    absl::StrAppend(&text, i > 0 ? ":" : "", offset[i], ",", shape.dim(i));
  }
  return text;
}

absl::StatusOr<Node*> Graph::AddNode(NodeSpec spec) {
  if (!IsNodeName(spec.name)) {
    return Annotate(absl::InvalidArgumentError("a node's name consists of letters, digits and _ . - / >"),
                    spec);
  }
  if (by_name_.contains(spec.name) || FindLeftOut(spec.name) != nullptr) {
    return Annotate(absl::AlreadyExistsError("the graph already has a node of this name"), spec);
  }
  absl::StatusOr<const Op*> op = ops_->Lookup(spec.op);
  if (!op.ok()) return Annotate(op.status(), spec);
  SchemaMatch match(**op, &spec.attrs);
  absl::Status status = CheckNeighboursAreOf(*this, spec);
  if (status.ok()) status = match.MatchInputs(spec.inputs);
  if (status.ok()) status = match.CompleteAttrs();
  if (!status.ok()) return Annotate(status, spec);
  absl::StatusOr<std::vector<DType>> types = match.OutputTypes();
  if (!types.ok()) return Annotate(types.status(), spec);

  auto node = std::unique_ptr<Node>(new Node);
  for (InputArg& input : spec.inputs) {
    node->inputs_.insert(node->inputs_.end(), input.outputs().begin(), input.outputs().end());
  }
  ShapeInference inference(**op, spec.attrs, node->inputs_, static_cast<int>(types->size()));
  if (absl::Status shaped = (*op)->def().infer_shapes(inference); !shaped.ok()) return Annotate(shaped, spec);
  // Each input may know a dimension that another does not, and all of them together more than there can be.
  for (const PartialShape& shape : inference.outputs()) {
    if (!shape.has_rank()) continue;
    if (absl::Status counted = PartialShape::FromDims(shape.dims()).status(); !counted.ok()) {
      return Annotate(counted, spec);
    }
  }

  node->id_ = num_nodes();
  node->name_ = std::move(spec.name);
  node->op_ = *op;
  node->control_inputs_ = std::move(spec.control_inputs);
  node->output_types_ = *std::move(types);
  node->output_shapes_ = std::move(inference.outputs());
  node->resource_types_ = std::move(inference.resources());
  node->attrs_ = std::move(spec.attrs);
  node->requested_device_ = std::move(spec.device);
  node->source_ = spec.source;
  Node* added = node.get();
  by_name_.emplace(added->name_, added);
  nodes_.push_back(std::move(node));
  return added;
}

Node* Graph::FindNode(absl::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

absl::StatusOr<Node*> Graph::LookupNode(absl::string_view name) const {
  if (Node* node = FindNode(name)) return node;
  if (const LeftOutNode* node = FindLeftOut(name)) return node->reason;
  std::vector<absl::string_view> known;
  for (const auto& node : nodes_) known.push_back(node->name());
  return absl::NotFoundError(absl::StrCat("the graph has no node '", name, "'", DidYouMean(name, known)));
}

// The node that "name" or "name:1" is an output of, which it may not have.
absl::StatusOr<Output> Graph::ParseOutput(absl::string_view name) const {
  const size_t colon = name.rfind(':');
  Output output;
  absl::string_view node_name = name;
  if (colon != absl::string_view::npos && absl::SimpleAtoi(name.substr(colon + 1), &output.index)) {
    node_name = name.substr(0, colon);
  }
  WEIR_ASSIGN_OR_RETURN(output.node, LookupNode(node_name));
  return output;
}

absl::StatusOr<Output> Graph::FindOutput(absl::string_view name) const {
  WEIR_ASSIGN_OR_RETURN(const Output output, ParseOutput(name));
  Node* const node = output.node;
  const int index = output.index;
  if (index < 0 || index >= node->num_outputs()) {
    return absl::OutOfRangeError(
        absl::StrCat("'", name, "': ", node->Describe(), " has ", node->num_outputs(), " outputs"));
  }
  return node->output(index);
}

absl::StatusOr<Output> Graph::FindValue(absl::string_view name) const {
  if (has_stand_ins()) {
    WEIR_ASSIGN_OR_RETURN(const Output output, ParseOutput(name));
    if (const std::optional<Output> read = StandIn(output)) return *read;
  }
  return FindOutput(name);
}

const LeftOutNode* Graph::FindLeftOut(absl::string_view name) const {
  const auto found = left_out_.find(name);
  return found == left_out_.end() ? nullptr : &found->second;
}

std::optional<Output> Graph::StandIn(Output of) const {
  const auto found = stand_ins_.find(of);
  return found == stand_ins_.end() ? std::nullopt : std::make_optional(found->second);
}

absl::StatusOr<std::vector<Node*>> Graph::TopologicalOrder() const {
  // The consumers of node i are consumers[begin[i]] up to consumers[begin[i + 1]]: one array for all.
  std::vector<int> begin(nodes_.size() + 1, 0), pending(nodes_.size(), 0);
  const auto for_each_source = [](const Node& node, const auto& call) {
    for (const Output& input : node.inputs_) call(*input.node);
    for (const Node* before : node.control_inputs_) call(*before);
  };
  const Op* const next_iteration = ops_->Find("NextIteration");
  for (const auto& node : nodes_) {
    for_each_source(*node, [&](const Node& source) {
      if (source.op_ == next_iteration) return;  // the back edge of a loop
      ++begin[source.id_ + 1];
      ++pending[node->id_];
    });
  }
  for (size_t id = 1; id < begin.size(); ++id) begin[id] += begin[id - 1];
  std::vector<int> consumers(begin.back()), next_consumer(begin.begin(), begin.end() - 1);
  for (const auto& node : nodes_) {
    for_each_source(*node, [&](const Node& source) {
      if (source.op_ != next_iteration) consumers[next_consumer[source.id_]++] = node->id_;
    });
  }
  std::vector<Node*> order;
  order.reserve(nodes_.size());
  for (const auto& node : nodes_) {
    if (pending[node->id_] == 0) order.push_back(node.get());
  }
  for (size_t next = 0; next < order.size(); ++next) {
    const int id = order[next]->id_;
    for (int i = begin[id]; i < begin[id + 1]; ++i) {
      if (--pending[consumers[i]] == 0) order.push_back(node(consumers[i]));
    }
  }
  if (order.size() == nodes_.size()) return order;
  std::vector<std::string> cycle;
  for (const auto& node : nodes_) {
    if (pending[node->id()] > 0 && cycle.size() < 8) cycle.push_back(node->Describe());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the graph has a cycle; on it or behind it are: ", absl::StrJoin(cycle, ", ")));
}

void Graph::SetInput(Node* node, int index, Output source) { node->inputs_[index] = source; }

void Graph::AddControlInput(Node* node, Node* before) {
  auto& inputs = node->control_inputs_;
  if (std::find(inputs.begin(), inputs.end(), before) == inputs.end()) inputs.push_back(before);
}

void Graph::Connect(Node* node, std::vector<Output> inputs, std::vector<Node*> control_inputs) {
  node->inputs_ = std::move(inputs);
  node->control_inputs_ = std::move(control_inputs);
}

void Graph::SetAttr(Node* node, absl::string_view name, AttrValue value) {
  node->attrs_.insert_or_assign(std::string(name), std::move(value));
}

void Graph::KeepOnly(const std::vector<bool>& keep) {
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return;
  std::vector<std::unique_ptr<Node>> kept;
  for (std::unique_ptr<Node>& node : nodes_) {
    if (!keep[node->id()]) by_name_.erase(node->name());
  }
  absl::erase_if(stand_ins_, [&keep](const auto& stand_in) {
    return !keep[stand_in.first.node->id()] || !keep[stand_in.second.node->id()];
  });
  for (std::unique_ptr<Node>& node : nodes_) {
    if (!keep[node->id()]) continue;
    auto& control = node->control_inputs_;
    control.erase(std::remove_if(control.begin(), control.end(), [&keep](Node* n) { return !keep[n->id()]; }),
                  control.end());
  }
  for (std::unique_ptr<Node>& node : nodes_) {
    if (keep[node->id()]) kept.push_back(std::move(node));
  }
  nodes_ = std::move(kept);
  for (int id = 0; id < num_nodes(); ++id) nodes_[id]->id_ = id;
}

Node* Graph::AddCopy(const Node& node, std::vector<Output> inputs, std::vector<Node*> control_inputs) {
  auto copy = std::unique_ptr<Node>(new Node);
  copy->id_ = num_nodes();
  copy->name_ = node.name_;
  copy->op_ = node.op_;
  copy->inputs_ = std::move(inputs);
  copy->control_inputs_ = std::move(control_inputs);
  copy->output_types_ = node.output_types_;
  copy->output_shapes_ = node.output_shapes_;
  copy->resource_types_ = node.resource_types_;
  copy->attrs_ = node.attrs_;
  copy->requested_device_ = node.requested_device_;
  copy->assigned_device_ = node.assigned_device_;
  copy->source_ = node.source_;
  Node* added = copy.get();
  by_name_.emplace(added->name_, added);
  nodes_.push_back(std::move(copy));
  return added;
}

std::unique_ptr<Graph> Graph::Clone() const {
  auto clone = std::make_unique<Graph>(*ops_);
  clone->nodes_.reserve(nodes_.size());
  clone->by_name_.reserve(nodes_.size());
  for (const auto& node : nodes_) clone->AddCopy(*node, {}, {});
  for (const auto& node : nodes_) {
    Node* copy = clone->node(node->id());
    copy->inputs_.reserve(node->inputs_.size());
    for (const Output& input : node->inputs_)
      copy->inputs_.push_back({clone->node(input.node->id()), input.index});
    for (const Node* before : node->control_inputs_)
      copy->control_inputs_.push_back(clone->node(before->id()));
  }
  for (const auto& [of, read] : stand_ins_) {
    clone->SetStandIn({clone->node(of.node->id()), of.index}, {clone->node(read.node->id()), read.index});
  }
  clone->left_out_ = left_out_;
  clone->variables_ = variables_;
  clone->collections_ = collections_;
  return clone;
}

}  // namespace weir
