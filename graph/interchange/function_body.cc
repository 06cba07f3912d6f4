#include "graph/interchange/function_body.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/interchange/function_call_ops.h"
#include "graph/interchange/function_effects.h"
#include "graph/interchange/input_name.h"
#include "graph/nesting.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::FunctionDef;
using ::tensorflow::NodeDef;

// More tensors than an argument or a result that is a list may be.
constexpr int64_t kMaxListLength = 100'000;
// What a few bytes may stand for: inputs of all nodes, where a name means a list; attrs that the call gives.
constexpr int64_t kMaxInputs = 1'000'000;
// The last output that an input of an unknown op may name.
constexpr int kMaxOutput = 1'000'000;
constexpr int64_t kMaxSubstitutedBytes = int64_t{256} << 20;

// Some tensors of a body that stand one after another: an argument, or an output argument of a node.
struct Range {
  std::string node;  // empty: arguments of the body
  int begin = 0;
  int count = 1;

  std::string Name(int index) const {
    if (node.empty()) return absl::StrCat("#", begin + index);
    return begin + index == 0 ? node : absl::StrCat(node, ":", begin + index);
  }
};

// The number of tensors of one argument of a signature, whose attrs are known.
template <typename FindAttr>
absl::StatusOr<int> NumTensors(absl::string_view number_attr, absl::string_view type_list_attr,
                               const FindAttr& find_attr) {
  if (number_attr.empty() && type_list_attr.empty()) return 1;
  const absl::string_view name = number_attr.empty() ? type_list_attr : number_attr;
  const AttrProto* const value = find_attr(name);
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("attr '", name, "' is missing: it is the length of a list"));
  }
  const int64_t count = number_attr.empty() ? value->list().type_size() : value->i();
  if (count >= 0 && count <= kMaxListLength) return static_cast<int>(count);
  return absl::InvalidArgumentError(absl::StrCat("attr '", name, "' is ", count,
                                                 ": a list has between 0 and ", kMaxListLength, " tensors"));
}

class Instantiation {
 public:
  Instantiation(const FunctionDef& function, const AttrProtos& attrs, const FunctionLibrary& library,
                const OpRegistry& ops)
      : function_(function), attrs_(attrs), library_(library), ops_(ops) {}

  absl::StatusOr<FunctionBody> Run() {
    for (const auto& arg : function_.signature().input_arg()) WEIR_RETURN_IF_ERROR(AddArgument(arg));
    for (const NodeDef& node : function_.node_def()) WEIR_RETURN_IF_ERROR(CheckNode(node));
    for (const NodeDef& node : function_.node_def()) WEIR_RETURN_IF_ERROR(AddInputs(node));
    WEIR_RETURN_IF_ERROR(CheckAcyclic());
    for (const auto& arg : function_.signature().output_arg()) WEIR_RETURN_IF_ERROR(AddResult(arg));
    WEIR_RETURN_IF_ERROR(AddEffects());
    CopyNodes();
    AddNodesAfterEffects();
    return std::move(body_);
  }

 private:
  // An attr of the signature: what the call gives, or the default; null when there is neither.
  const AttrProto* FindAttr(absl::string_view name) const {
    for (const auto& attr : function_.signature().attr()) {
      if (attr.name() != name) continue;
      if (const auto given = attrs_.find(attr.name()); given != attrs_.end()) return &given->second;
      if (attr.has_default_value()) return &attr.default_value();
    }
    return nullptr;
  }

  // The attr of a node as it will be; null when the node has none of that name.
  const AttrProto* AttrOf(const NodeDef& node, absl::string_view name) const {
    const auto found = node.attr().find(std::string(name));
    if (found == node.attr().end()) return nullptr;
    const AttrProto& value = found->second;
    return value.value_case() == AttrProto::kPlaceholder ? FindAttr(value.placeholder()) : &value;
  }

  // The types of the tensors of one argument of the signature.
  absl::StatusOr<std::vector<DataType>> Types(const tensorflow::OpDef::ArgDef& arg) const {
    WEIR_ASSIGN_OR_RETURN(const int count,
                          NumTensors(arg.number_attr(), arg.type_list_attr(),
                                     [this](absl::string_view name) { return FindAttr(name); }));
    if (!arg.type_list_attr().empty()) {
      const auto& list = FindAttr(arg.type_list_attr())->list();
      std::vector<DataType> types;
      for (int type : list.type()) types.push_back(static_cast<DataType>(type));
      return types;
    }
    DataType type = arg.type();
    if (!arg.type_attr().empty()) {
      const AttrProto* const value = FindAttr(arg.type_attr());
      if (value == nullptr || value->value_case() != AttrProto::kType) {
        return absl::InvalidArgumentError(absl::StrCat("attr '", arg.type_attr(), "', the type of '",
                                                       arg.name(), "', is ",
                                                       value == nullptr ? "missing" : "no type"));
      }
      type = value->type();
    }
    return std::vector<DataType>(count, type);
  }

  absl::Status AddArgument(const tensorflow::OpDef::ArgDef& arg) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<DataType> types, Types(arg));
    const Range range{"", static_cast<int>(body_.arguments.size()), static_cast<int>(types.size())};
    if (!arguments_.emplace(arg.name(), range).second) {
      return absl::InvalidArgumentError(absl::StrCat("Duplicated arg name: '", arg.name(), "'"));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      body_.arguments.push_back(
          {types.size() == 1 ? arg.name() : absl::StrCat(arg.name(), "_", i), types[i]});
    }
    return absl::OkStatus();
  }

  absl::Status CheckNode(const NodeDef& node) {
    // What is not a name of TensorFlow's may mean something else among inputs.
    if (node.name().empty() || node.name().find_first_of(":#^") != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("'", node.name(), "' is no name of a node"));
    }
    const int position = static_cast<int>(positions_.size());
    if (!positions_.emplace(node.name(), position).second || arguments_.contains(node.name())) {
      return absl::InvalidArgumentError(absl::StrCat("Duplicated node name: '", node.name(), "'"));
    }
    // The graph of a body has such ops for what is the function's own (function_attachment.cc), and for
    // calls.
    if ((ops_.Find(node.op()) != nullptr && IsRuntimeOp(node.op())) || IsFunctionCallOp(node.op())) {
      return absl::InvalidArgumentError(absl::StrCat(
          node.op(), " '", node.name(), "': its op is one that only the runtime itself may use"));
    }
    for (const auto& [name, value] : node.attr()) {
      if (absl::Status status = CheckPlaceholders(value); !status.ok()) {
        return absl::Status(status.code(), absl::StrCat("node '", node.name(), "': ", status.message()));
      }
    }
    return absl::OkStatus();
  }

  // Messages are parsed to a bounded depth, so this ends.
  absl::Status CheckPlaceholders(const AttrProto& value) {
    if (value.value_case() == AttrProto::kPlaceholder) {
      const AttrProto* const given = FindAttr(value.placeholder());
      if (given == nullptr || given->value_case() == AttrProto::kPlaceholder) {
        return absl::InvalidArgumentError(
            absl::StrCat("Attr ", value.placeholder(), " is not found from the call"));
      }
      return CountBytes(given->ByteSizeLong());
    }
    if (value.has_func()) return CheckPlaceholders(value.func());
    for (const auto& function : value.list().func()) WEIR_RETURN_IF_ERROR(CheckPlaceholders(function));
    return absl::OkStatus();
  }

  absl::Status CheckPlaceholders(const tensorflow::NameAttrList& function) {
    for (const auto& [name, value] : function.attr()) WEIR_RETURN_IF_ERROR(CheckPlaceholders(value));
    return absl::OkStatus();
  }

  absl::Status CountBytes(size_t num_bytes) {
    num_substituted_bytes_ += static_cast<int64_t>(num_bytes);
    if (num_substituted_bytes_ <= kMaxSubstitutedBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the attrs of the call and the names of inputs take more than ", kMaxSubstitutedBytes,
                     " bytes in its nodes"));
  }

  void CopyNodes() {
    for (int i = 0; i < function_.node_def_size(); ++i) {
      NodeDef& copy = body_.nodes.emplace_back(function_.node_def(i));
      copy.clear_input();
      for (std::string& input : inputs_[i]) copy.add_input(std::move(input));
      for (auto& [name, value] : *copy.mutable_attr()) Substitute(&value);
      body_.num_bytes += static_cast<int64_t>(copy.ByteSizeLong());
    }
  }

  void Substitute(AttrProto* value) const {
    if (value->value_case() == AttrProto::kPlaceholder) {
      *value = AttrProto(*FindAttr(value->placeholder()));
    } else if (value->has_func()) {
      SubstituteIn(value->mutable_func());
    } else if (value->has_list()) {
      for (auto& function : *value->mutable_list()->mutable_func()) SubstituteIn(&function);
    }
  }

  void SubstituteIn(tensorflow::NameAttrList* function) const {
    for (auto& [name, value] : *function->mutable_attr()) Substitute(&value);
  }

  absl::Status AddInputs(const NodeDef& node) {
    std::vector<std::string>& inputs = inputs_.emplace_back();
    for (const std::string& input : node.input()) {
      absl::string_view name = input;
      if (absl::ConsumePrefix(&name, "^")) {
        const auto arg = arguments_.find(name);
        if (arg == arguments_.end() && !positions_.contains(name)) return Undefined(input, node.name());
        if (arg == arguments_.end()) {
          inputs.push_back(input);
        } else if (arg->second.count > 0) {
          inputs.push_back(absl::StrCat("^", arg->second.Name(0)));
        }
        continue;
      }
      WEIR_ASSIGN_OR_RETURN(const Range range, Resolve(input, node.name()));
      num_inputs_ += range.count;
      if (num_inputs_ > kMaxInputs) {
        return absl::ResourceExhaustedError(absl::StrCat("its nodes have more than ", kMaxInputs, " inputs"));
      }
      WEIR_RETURN_IF_ERROR(CountBytes(range.node.size() * range.count));
      for (int i = 0; i < range.count; ++i) inputs.push_back(range.Name(i));
    }
    return absl::OkStatus();
  }

  static absl::Status Undefined(absl::string_view input, absl::string_view node) {
    return absl::InvalidArgumentError(absl::StrCat("node '", node, "': input ", input, " is not found"));
  }

  // What an input or a result names. `user`: for errors.
  absl::StatusOr<Range> Resolve(absl::string_view input, absl::string_view user) const {
    const std::vector<absl::string_view> parts = absl::StrSplit(input, ':');
    int index = -1;
    const bool has_index = parts.size() > 1 && absl::SimpleAtoi(parts.back(), &index) && index >= 0;
    Range range;
    if (const auto arg = arguments_.find(parts[0]); arg != arguments_.end()) {
      if (parts.size() > 2 || (parts.size() == 2 && !has_index)) return Undefined(input, user);
      range = arg->second;
    } else if (const auto node = positions_.find(parts[0]); node != positions_.end()) {
      if (parts.size() < 2 || parts.size() > 3 || (parts.size() == 3 && !has_index)) {
        return Undefined(input, user);
      }
      WEIR_ASSIGN_OR_RETURN(
          range, Outputs(function_.node_def(node->second), parts[1], parts.size() == 3 ? index : -1));
      if (parts.size() == 2) return range;
    } else {
      return Undefined(input, user);
    }
    if (!has_index) return range;
    if (index >= range.count) return Undefined(input, user);
    return Range{range.node, range.begin + index, 1};
  }

  // Where the outputs of an output argument are among all of the node's. An op that nobody knows has one
  // output argument: the node is left out of the graph later, for its op.
  absl::StatusOr<Range> Outputs(const NodeDef& node, absl::string_view output, int index) const {
    Range range{node.name(), 0, 0};
    const auto advance = [&](absl::string_view name, absl::string_view number_attr,
                             absl::string_view type_list_attr, const Op* op) -> absl::StatusOr<bool> {
      range.begin += range.count;
      AttrProto standard;
      absl::StatusOr<int> count =
          NumTensors(number_attr, type_list_attr, [&](absl::string_view attr) -> const AttrProto* {
            if (const AttrProto* const given = AttrOf(node, attr)) return given;
            const AttrDef* const known = op == nullptr ? nullptr : op->FindAttr(attr);
            if (known == nullptr || !known->default_value || known->kind != AttrKind::kInt) return nullptr;
            standard.set_i(known->default_value->get<int64_t>());
            return &standard;
          });
      if (!count.ok()) {
        return absl::Status(count.status().code(),
                            absl::StrCat("node '", node.name(), "': ", count.status().message()));
      }
      range.count = *count;
      return name == output;
    };
    if (const Op* op = ops_.Find(node.op())) {
      for (const ArgDef& arg : op->outputs()) {
        WEIR_ASSIGN_OR_RETURN(const bool is_it, advance(arg.name, arg.number_attr, arg.type_list_attr, op));
        if (is_it) return range;
      }
      return Undefined(absl::StrCat(node.name(), ":", output), node.name());
    }
    if (const FunctionDef* function = library_.Find(node.op())) {
      for (const auto& arg : function->signature().output_arg()) {
        WEIR_ASSIGN_OR_RETURN(const bool is_it,
                              advance(arg.name(), arg.number_attr(), arg.type_list_attr(), nullptr));
        if (is_it) return range;
      }
      return Undefined(absl::StrCat(node.name(), ":", output), node.name());
    }
    for (const char* types : {"Tout", "T"}) {  // PartitionedCall, If, Case; While
      const AttrProto* const found = AttrOf(node, types);
      if (found == nullptr || found->value_case() != AttrProto::kList) continue;
      return Range{node.name(), 0, found->list().type_size()};
    }
    return Range{node.name(), 0, std::max(std::min(index, kMaxOutput) + 1, 1)};
  }

  absl::Status AddResult(const tensorflow::OpDef::ArgDef& arg) {
    const auto given = function_.ret().find(arg.name());
    if (given == function_.ret().end()) {
      return absl::InvalidArgumentError(absl::StrCat("Return value '", arg.name(), "' is not given"));
    }
    WEIR_ASSIGN_OR_RETURN(const std::vector<DataType> types, Types(arg));
    WEIR_ASSIGN_OR_RETURN(const Range range, Resolve(given->second, arg.name()));
    if (types.size() != static_cast<size_t>(range.count)) {
      return absl::InvalidArgumentError(absl::StrCat("Return value '", arg.name(), "' is ", types.size(),
                                                     " tensors, and '", given->second, "' is ", range.count));
    }
    WEIR_RETURN_IF_ERROR(CountBytes(range.node.size() * range.count));
    for (int i = 0; i < range.count; ++i) body_.results.push_back(range.Name(i));
    body_.result_types.insert(body_.result_types.end(), types.begin(), types.end());
    return absl::OkStatus();
  }

  // Functions of older programs have no control results, and all their nodes with effects count, but for
  // those in branches and loops of their own. What only reads, or names, a variable has none.
  absl::Status AddEffects() {
    absl::flat_hash_set<absl::string_view> effects;
    for (const auto& [name, node] : function_.control_ret()) {
      if (!positions_.contains(node)) return Undefined(absl::StrCat("^", node), name);
      effects.insert(node);
    }
    const auto& nodes = function_.node_def();
    for (const NodeDef& node : nodes) {
      if (effects.contains(node.name())) body_.effects.push_back(node.name());
      body_.has_effects = body_.has_effects || library_.HasEffects(node.op());
    }
    if (!effects.empty()) return absl::OkStatus();
    const std::vector<Nesting> nestings = Nestings();
    for (int i = 0; i < nodes.size(); ++i) {
      if (nestings[i].IsInNone() && library_.HasEffects(nodes[i].op()))
        body_.stateful.push_back(nodes[i].name());
    }
    return absl::OkStatus();
  }

  // Only calls ask for them.
  void AddNodesAfterEffects() {
    const auto is_call = [this](const NodeDef& node) { return ops_.Find(node.op()) == nullptr; };
    if (!body_.has_effects || std::none_of(body_.nodes.begin(), body_.nodes.end(), is_call)) return;
    ReachFromEffects(library_, body_.nodes, &body_.after_effects);
  }

  std::vector<Nesting> Nestings() const {
    std::vector<Nesting> nestings(inputs_.size());
    for (const int position : order_) {
      for (const absl::string_view input : inputs_[position]) {
        const auto source = positions_.find(InputNode(input));
        if (source == positions_.end()) continue;  // an argument
        nestings[position].Follow(function_.node_def(source->second).op(), nestings[source->second]);
      }
      nestings[position].Apply(function_.node_def(position).op());
    }
    return nestings;
  }

  // A loop may be closed by an edge from NextIteration to Merge.
  absl::Status CheckAcyclic() {
    std::vector<std::vector<int>> consumers(inputs_.size());
    std::vector<int> num_pending(inputs_.size(), 0);
    for (int i = 0; i < function_.node_def_size(); ++i) {
      for (absl::string_view input : inputs_[i]) {
        const auto source = positions_.find(InputNode(input));
        if (source == positions_.end()) continue;  // an argument
        if (absl::EndsWith(function_.node_def(i).op(), "Merge") &&
            absl::EndsWith(function_.node_def(source->second).op(), "NextIteration")) {
          continue;
        }
        consumers[source->second].push_back(i);
        ++num_pending[i];
      }
    }
    std::vector<int> ready;
    for (size_t i = 0; i < num_pending.size(); ++i) {
      if (num_pending[i] == 0) ready.push_back(i);
    }
    size_t num_done = 0;
    for (; !ready.empty(); ++num_done) {
      const int next = ready.back();
      ready.pop_back();
      order_.push_back(next);
      for (int consumer : consumers[next]) {
        if (--num_pending[consumer] == 0) ready.push_back(consumer);
      }
    }
    if (num_done == inputs_.size()) return absl::OkStatus();
    const auto stuck = std::find_if(num_pending.begin(), num_pending.end(), [](int n) { return n > 0; });
    return absl::InvalidArgumentError(
        absl::StrCat(inputs_.size() - num_done, " of its nodes are on a cycle or behind one, the first is '",
                     function_.node_def(stuck - num_pending.begin()).name(), "'"));
  }

  const FunctionDef& function_;
  const AttrProtos& attrs_;
  const FunctionLibrary& library_;
  const OpRegistry& ops_;
  FunctionBody body_;
  int64_t num_inputs_ = 0;
  int64_t num_substituted_bytes_ = 0;
  absl::flat_hash_map<absl::string_view, Range> arguments_;
  absl::flat_hash_map<absl::string_view, int> positions_;  // of the nodes, by name
  std::vector<std::vector<std::string>> inputs_;           // of the nodes, as the body names them
  std::vector<int> order_;                                 // of the nodes: each after its inputs
};

}  // namespace

absl::StatusOr<FunctionBody> InstantiateFunction(const FunctionDef& function, const AttrProtos& attrs,
                                                 const FunctionLibrary& library, const OpRegistry& ops) {
  return Instantiation(function, attrs, library, ops).Run();
}

}  // namespace weir
