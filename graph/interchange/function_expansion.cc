#include "graph/interchange/function_expansion.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "graph/interchange/function_calls.h"
#include "graph/interchange/function_effects.h"
#include "graph/interchange/input_name.h"
#include "graph/rewrite/prune.h"
#include "graph/types/device_name.h"
#include "graph/types/status_macros.h"

namespace weir {

using ::tensorflow::DataType;
using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

namespace {

constexpr size_t kMaxDepth = 100;
// What a node takes beside its message, and the least that is admitted at a time.
constexpr int64_t kNodeBytes = 2048;
constexpr int64_t kMinAdmitted = 64 << 10;

// Nodes of v1 control flow: what they lead to may be in a branch or a loop.
bool IsControlFlow(absl::string_view op) {
  return absl::EndsWith(op, "Switch") || absl::EndsWith(op, "Enter") || absl::EndsWith(op, "Merge");
}

bool HasControlFlow(const google::protobuf::RepeatedPtrField<NodeDef>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const NodeDef& node) { return IsControlFlow(node.op()); });
}

// Whether it leads one value into every iteration of a v1 loop: also into the one whose condition is false,
// in which what varies is not there.
bool IsConstantEnter(const NodeDef& node) {
  if (node.op() != "Enter" && node.op() != "RefEnter") return false;
  const AttrProto* const is_constant = FindAttr(node, "is_constant");
  return is_constant != nullptr && is_constant->b();
}

// The types of what an If, Case, While or For is given, as its attrs say.
std::vector<DataType> TypesGivenTo(CallKind kind, const NodeDef& call) {
  std::vector<DataType> types;
  if (kind == CallKind::kIf) {
    const AttrProto* const condition = FindAttr(call, "Tcond");
    types.push_back(condition == nullptr ? tensorflow::DT_BOOL : condition->type());
  }
  if (kind == CallKind::kCase) types.push_back(tensorflow::DT_INT32);
  if (kind == CallKind::kFor) types.assign(3, tensorflow::DT_INT32);
  const bool is_loop = kind == CallKind::kWhile || kind == CallKind::kFor;
  if (const AttrProto* const others = FindAttr(call, is_loop ? "T" : "Tin"); others != nullptr) {
    for (const int type : others->list().type()) types.push_back(static_cast<DataType>(type));
  }
  return types;
}

// The device of a node of a function: what it leaves open, the call's says. A name that does not parse stays:
// the import has the error.
std::string DeviceIn(const std::string& call, const std::string& node) {
  if (call.empty() || call == node) return node;
  if (node.empty()) return call;
  const absl::StatusOr<DeviceName> outer = DeviceName::Parse(call);
  const absl::StatusOr<DeviceName> inner = DeviceName::Parse(node);
  return outer.ok() && inner.ok() ? outer->OverriddenBy(*inner).ToString() : node;
}

// "loc:@x" of a node of the function is "loc:@PREFIX/x"; of something else it says nothing.
void Recolocate(const std::string& prefix, const absl::flat_hash_set<absl::string_view>& names,
                NodeDef* node) {
  const auto attr = node->mutable_attr()->find("_class");
  if (attr == node->mutable_attr()->end()) return;
  std::vector<std::string> kept;
  for (absl::string_view name : attr->second.list().s()) {
    if (!absl::ConsumePrefix(&name, "loc:@")) {
      kept.emplace_back(name);
    } else if (names.contains(name)) {
      kept.push_back(absl::StrCat("loc:@", prefix, "/", name));
    }
  }
  node->mutable_attr()->erase(attr);
  if (kept.empty()) return;
  auto* list = (*node->mutable_attr())["_class"].mutable_list();
  for (std::string& name : kept) list->add_s(std::move(name));
}

}  // namespace

FunctionExpansion::FunctionExpansion(const GraphDef& def, const Graph& graph, FunctionLibrary& library,
                                     const ImportOptions& options)
    : def_(def), graph_(graph), library_(library), options_(options) {
  for (const NodeDef& node : def.node()) {
    names_.insert(node.name());
    NoteString(node);
    if (IsConstantEnter(node)) constant_enters_.insert(node.name());
  }
  for (const auto& node : graph.nodes()) {
    if (node->op_name() == "Enter" && node->attr<bool>("is_constant")) {
      constant_enters_.insert(node->name());
    }
  }
  is_conditional_ = HasControlFlow(def.node()) ||
                    std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                [](const auto& node) { return IsControlFlow(node->op_name()); });
}

bool FunctionExpansion::IsNeeded(const GraphDef& def, const OpRegistry& ops, const FunctionLibrary& library) {
  return std::any_of(def.node().begin(), def.node().end(), [&](const NodeDef& node) {
    if (ops.Find(node.op()) != nullptr) return NamesFunctionOf(library, node);
    return KindOfCall(node.op()) != CallKind::kNone || library.Find(node.op()) != nullptr;
  });
}

absl::StatusOr<GraphDef> FunctionExpansion::Expanded() {
  *expanded_.mutable_versions() = def_.versions();
  const auto awaits_effects = [this](const NodeDef& node) { return AwaitsEffects(node); };
  absl::flat_hash_set<std::string> effects;
  if (std::any_of(def_.node().begin(), def_.node().end(), awaits_effects)) effects = NodesAfterEffects();
  for (const NodeDef& node : def_.node()) {
    const int begin = expanded_.node_size();
    const int64_t held_bytes = held_bytes_;
    absl::Status status = Expand(AwaitsEffects(node) ? AwaitingEffects(node, effects) : node);
    if (!refusal_.ok()) return refusal_;
    if (status.ok()) continue;
    // Calls that failed are counted all the same: what an import costs is bounded.
    held_bytes_ = held_bytes;
    for (int i = begin; i < expanded_.node_size(); ++i) {
      names_.erase(expanded_.node(i).name());
      strings_.erase(expanded_.node(i).name());
    }
    expanded_.mutable_node()->DeleteSubrange(begin, expanded_.node_size() - begin);
    names_.insert(node.name());
    *expanded_.add_node() = node;
    failures_.emplace(node.name(), absl::Status(status.code(), absl::StrCat(node.op(), " '", node.name(),
                                                                            "': ", status.message())));
  }
  return std::move(expanded_);
}

absl::flat_hash_set<std::string> FunctionExpansion::NodesAfterEffects() const {
  absl::flat_hash_set<std::string> after;
  for (const auto& node : graph_.nodes()) {
    bool is_after = library_.HasEffects(node->op_name());
    for (const Output& input : node->inputs()) is_after |= after.contains(input.node->name());
    for (const Node* before : node->control_inputs()) is_after |= after.contains(before->name());
    if (is_after) after.insert(node->name());
  }
  ReachFromEffects(library_, def_.node(), &after);
  return after;
}

// As in TensorFlow, of which this is measured: one without effects is needed for its results alone, and of
// these each needs what it is made of. So is an If or a Case. A loop needs all that its condition needs.
bool FunctionExpansion::AwaitsEffects(const NodeDef& node) const {
  const CallKind kind = KindOfCall(node.op());
  return (kind == CallKind::kCall || kind == CallKind::kNone) && IsCall(node) &&
         library_.HasEffects(node.op());
}

// As one node would, it runs after all that leads to it, also where its function does not use an argument.
NodeDef FunctionExpansion::AwaitingEffects(NodeDef call,
                                           const absl::flat_hash_set<std::string>& after_effects) {
  std::vector<std::string> controls;
  for (const std::string& input : call.input()) {
    const std::string before = absl::StrCat("^", InputNode(input));
    if (!after_effects.contains(before.substr(1)) || absl::StartsWith(input, "^")) continue;
    const bool is_there = std::find(call.input().begin(), call.input().end(), before) != call.input().end() ||
                          std::find(controls.begin(), controls.end(), before) != controls.end();
    if (!is_there) controls.push_back(before);
  }
  for (std::string& before : controls) call.add_input(std::move(before));
  return call;
}

bool FunctionExpansion::IsCall(const NodeDef& node) const {
  return graph_.ops().Find(node.op()) == nullptr &&
         (KindOfCall(node.op()) != CallKind::kNone || library_.Find(node.op()) != nullptr);
}

absl::Status FunctionExpansion::Expand(NodeDef node) {
  const CallKind kind = graph_.ops().Find(node.op()) != nullptr ? CallKind::kNone : KindOfCall(node.op());
  if (kind == CallKind::kIf || kind == CallKind::kCase || kind == CallKind::kWhile ||
      kind == CallKind::kFor) {
    WEIR_RETURN_IF_ERROR(AwaitAllInputs(TypesGivenTo(kind, node), &node));
  }
  switch (kind) {
    case CallKind::kIf:
      return ExpandIf(node);
    case CallKind::kCase:
      return ExpandCase(node);
    case CallKind::kWhile:
      return ExpandWhile(node);
    case CallKind::kFor:
      return ExpandFor(node);
    case CallKind::kGradient:
      return ExpandGradient(node);
    case CallKind::kCall: {
      const AttrProto* const function = FindAttr(node, "f");
      if (function == nullptr || !function->has_func()) return WrongAttr(node, "f", "a function");
      return ExpandCall(node, function->func().name(), function->func().attr());
    }
    case CallKind::kNone:
      break;
  }
  if (graph_.ops().Find(node.op()) == nullptr && library_.Find(node.op()) != nullptr) {
    return ExpandCall(node, node.op(), node.attr());
  }
  if (node.op() == "RemoteCall" && node.input_size() > 0) {
    const auto target = strings_.find(node.input(0));
    if (target != strings_.end()) return ExpandRemoteCall(node, target->second);
  }
  if (NamesFunctionOf(library_, node)) WEIR_RETURN_IF_ERROR(AttachBodies(&node));
  return AddPlain(std::move(node));
}

absl::Status FunctionExpansion::AddPlain(NodeDef node) {
  if (calling_.size() == outer_calls_) {  // a node of the graph
    *expanded_.add_node() = std::move(node);
    return absl::OkStatus();
  }
  return Add(std::move(node));
}

absl::Status FunctionExpansion::ExpandCall(const NodeDef& call, absl::string_view function,
                                           const AttrProtos& attrs) {
  if (IsKept(function)) return KeepCall(call, function, attrs);
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const FunctionBody> body, Body(call, function, attrs));
  return ExpandCall(call, function, *body);
}

absl::Status FunctionExpansion::ExpandRemoteCall(const NodeDef& call, const std::string& target) {
  const AttrProto* const function = FindAttr(call, "f");
  if (function == nullptr || !function->has_func()) return WrongAttr(call, "f", "a function");
  WEIR_RETURN_IF_ERROR(DeviceName::Parse(target).status());
  NodeDef there = call;
  there.set_device(DeviceIn(call.device(), target));
  there.mutable_input()->DeleteSubrange(0, 1);
  // In a branch or a loop it may be the only input that says whether the call is to run.
  there.add_input(absl::StrCat("^", call.input(0)));
  return ExpandCall(there, function->func().name(), function->func().attr());
}

absl::Status FunctionExpansion::AwaitAllInputs(const std::vector<DataType>& types, NodeDef* call) {
  if (constant_enters_.empty()) return absl::OkStatus();
  const CallInputs inputs = InputsOf(*call);
  const auto is_constant = [this](absl::string_view input) {
    return constant_enters_.contains(InputNode(input));
  };
  if (types.size() != inputs.data.size() ||
      std::none_of(inputs.data.begin(), inputs.data.end(), is_constant)) {
    return absl::OkStatus();
  }
  std::vector<std::string> given, all = inputs.control;
  for (size_t i = 0; i < types.size(); ++i) {
    given.push_back(absl::StrCat(call->name(), "/_given_", i));
    WEIR_RETURN_IF_ERROR(Add(*call, "Identity", given.back(), {inputs.data[i]}, {}, types[i]));
    all.push_back(given.back());
  }
  const std::string start = absl::StrCat(call->name(), "/_all_given");
  WEIR_RETURN_IF_ERROR(Add(*call, "NoOp", start, {}, all, tensorflow::DT_INVALID));
  call->clear_input();
  for (std::string& input : given) call->add_input(std::move(input));
  call->add_input(absl::StrCat("^", start));
  return absl::OkStatus();
}

absl::Status FunctionExpansion::ExpandCall(NodeDef call, absl::string_view function,
                                           const FunctionBody& body) {
  WEIR_RETURN_IF_ERROR(CheckArguments(call, body, InputsOf(call).data.size()));
  std::vector<DataType> types;
  for (const FunctionBody::Argument& argument : body.arguments) types.push_back(argument.type);
  WEIR_RETURN_IF_ERROR(AwaitAllInputs(types, &call));
  const CallInputs inputs = InputsOf(call);
  WEIR_RETURN_IF_ERROR(CheckResults(call, body, "Tout"));

  Region region{std::string(function), absl::StrCat(call.name(), "/_call"), {}, inputs.control, call.device(),
                /*is_call=*/true};
  if (inputs.control.size() > 1) {
    const std::string start = absl::StrCat(call.name(), "/_start");
    WEIR_RETURN_IF_ERROR(Add(call, "NoOp", start, {}, inputs.control, tensorflow::DT_INVALID));
    region.gates = {start};
  }
  const std::vector<std::string> before = region.gates;
  bool has_gate = false;
  for (size_t i = 0; i < inputs.data.size(); ++i) {
    const FunctionBody::Argument& argument = body.arguments[i];
    if (argument.type == tensorflow::DT_RESOURCE) {
      region.arguments.push_back({inputs.data[i], /*is_gated=*/false, ""});
      continue;
    }
    const std::string name = absl::StrCat(call.name(), "/_argument_", i);
    WEIR_RETURN_IF_ERROR(Add(call, "Identity", name, {inputs.data[i]}, before, argument.type));
    region.arguments.push_back({name, /*is_gated=*/true, name});
    if (is_conditional_ && !has_gate) region.gates.push_back(name);
    has_gate = true;
  }
  // All are handles: only where they come from says whether the call is to run, and in which loop.
  if (is_conditional_ && !has_gate && !inputs.data.empty()) {
    const std::string gate = absl::StrCat(call.name(), "/_gate");
    WEIR_RETURN_IF_ERROR(Add(call, "Identity", gate, {inputs.data[0]}, before, tensorflow::DT_RESOURCE));
    region.gates.push_back(gate);
  }
  WEIR_ASSIGN_OR_RETURN(const Results results, AddBody(body, region));
  std::vector<std::string> outputs, after = before;
  for (const Source& output : results.outputs) outputs.push_back(output.input);
  after.insert(after.end(), results.effects.begin(), results.effects.end());
  return AddResult(call, outputs, body.result_types, after);
}

absl::StatusOr<FunctionExpansion::Results> FunctionExpansion::AddBody(const FunctionBody& body,
                                                                      const Region& region) {
  calling_.push_back(region.function);
  const bool was_conditional = is_conditional_;
  const absl::Cleanup leave = [&] {
    calling_.pop_back();
    is_conditional_ = was_conditional;
  };
  absl::flat_hash_set<absl::string_view> names;
  for (const NodeDef& node : body.nodes) {
    names.insert(node.name());
    is_conditional_ = is_conditional_ || IsControlFlow(node.op());
  }
  for (const NodeDef& node : body.nodes) {
    const bool awaits = !body.after_effects.empty() && AwaitsEffects(node);
    WEIR_RETURN_IF_ERROR(
        AddBodyNode(awaits ? AwaitingEffects(node, body.after_effects) : node, region, names));
  }
  Results results;
  for (const std::string& result : body.results) results.outputs.push_back(ResultOf(result, region));
  for (const std::string& node : body.effects) {
    results.effects.push_back(absl::StrCat(region.prefix, "/", node));
  }
  for (const std::string& node : body.stateful) {
    if (region.is_call) results.effects.push_back(absl::StrCat(region.prefix, "/", node));
  }
  return results;
}

FunctionExpansion::Source FunctionExpansion::ResultOf(const std::string& result, const Region& region) {
  const int argument = ArgumentNumber(result);
  if (argument >= 0) return region.arguments[argument];
  return {absl::StrCat(region.prefix, "/", result), /*is_gated=*/true, ""};
}

absl::Status FunctionExpansion::AddBodyNode(const NodeDef& node, const Region& region,
                                            const absl::flat_hash_set<absl::string_view>& names) {
  NodeDef copy = node;
  copy.set_name(absl::StrCat(region.prefix, "/", node.name()));
  copy.set_device(DeviceIn(region.device, node.device()));
  copy.clear_input();
  bool is_gated = false, waits_for_gates = false, is_ungated = false;
  std::vector<std::string> after;
  // Long names may be few bytes of the message.
  int64_t num_bytes = 0;
  const auto add_input = [&](std::string input) {
    num_bytes += static_cast<int64_t>(input.size());
    copy.add_input(std::move(input));
  };
  for (const std::string& input : node.input()) {
    absl::string_view name = input;
    const bool is_control = absl::ConsumePrefix(&name, "^");
    const int argument = ArgumentNumber(name);
    if (argument < 0) {
      add_input(absl::StrCat(is_control ? "^" : "", region.prefix, "/", name));
      is_gated = true;
    } else if (!is_control) {
      add_input(region.arguments[argument].input);
      (region.arguments[argument].is_gated ? is_gated : is_ungated) = true;
    } else if (!region.arguments[argument].node.empty()) {
      after.push_back(region.arguments[argument].node);
      num_bytes += static_cast<int64_t>(after.back().size());
    } else {
      waits_for_gates = true;
    }
    if (num_bytes > options_.max_call_bytes - num_bytes_) {
      return TooMuch(absl::StrCat("with the inputs of '", copy.name(), "'"));
    }
  }
  // One node does not run without all of its inputs. What a call becomes may run without some.
  waits_for_gates = waits_for_gates || !is_gated || (is_ungated && IsCall(node));
  if (waits_for_gates) after.insert(after.end(), region.gates.begin(), region.gates.end());
  for (const std::string& before : after) copy.add_input(absl::StrCat("^", before));
  Recolocate(region.prefix, names, &copy);
  if (absl::EndsWith(node.op(), "Enter")) {
    // Two calls are two loops.
    AttrProto& frame = (*copy.mutable_attr())["frame_name"];
    frame.set_s(absl::StrCat(region.prefix, "/", frame.s()));
    if (IsConstantEnter(copy)) constant_enters_.insert(copy.name());
  }
  return Expand(std::move(copy));
}

absl::Status FunctionExpansion::AddResult(const NodeDef& call, const std::vector<std::string>& outputs,
                                          const std::vector<DataType>& types,
                                          const std::vector<std::string>& after) {
  NodeDef node;
  node.set_name(call.name());
  node.set_device(call.device());
  node.set_op(outputs.empty() ? "NoOp" : outputs.size() == 1 ? "Identity" : "IdentityN");
  for (const std::string& output : outputs) node.add_input(output);
  for (const std::string& before : after) node.add_input(absl::StrCat("^", before));
  if (outputs.size() == 1) (*node.mutable_attr())["T"].set_type(types[0]);
  if (outputs.size() > 1) {
    auto* list = (*node.mutable_attr())["T"].mutable_list();
    for (DataType type : types) list->add_type(type);
    (*node.mutable_attr())[kResultsOfCallAttr].set_b(true);
  }
  if (calling_.size() != outer_calls_) return Add(std::move(node));
  *expanded_.add_node() = std::move(node);  // the graph's own name
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const FunctionBody>> FunctionExpansion::Body(const NodeDef& call,
                                                                            absl::string_view function,
                                                                            const AttrProtos& attrs) {
  if (std::find(calling_.begin(), calling_.end(), function) != calling_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", function, "' calls itself: ", absl::StrJoin(calling_, " -> "), " -> ",
                     function, ", and functions are made part of the graph"));
  }
  if (calling_.size() >= kMaxDepth) {
    return absl::InvalidArgumentError(absl::StrCat("functions call each other more than ", kMaxDepth,
                                                   " deep, the last is '", function, "'"));
  }
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<const FunctionBody> body, library_.Instantiate(function, attrs));
  if (!library_.GradientOf(function).empty()) has_own_gradient_ = std::string(function);
  auto num_nodes = static_cast<int64_t>(body->nodes.size());
  // Calls that are kept become nothing. Otherwise it is known before anything is copied.
  if (own_gradients_ == OwnGradients::kExpand)
    num_nodes = std::max(num_nodes, library_.NumNodesOfCall(function));
  if (num_nodes <= options_.max_call_nodes - num_nodes_ &&
      body->num_bytes <= options_.max_call_bytes - num_bytes_) {
    return body;
  }
  return TooMuch(
      absl::StrCat("with function '", function, "' (", num_nodes, " nodes, ", body->num_bytes, " bytes)"));
}

absl::StatusOr<std::shared_ptr<const FunctionBody>> FunctionExpansion::Body(const NodeDef& call,
                                                                            const AttrProto* function,
                                                                            absl::string_view attr) {
  if (function == nullptr || !function->has_func()) return WrongAttr(call, attr, "a function");
  return Body(call, function->func().name(), function->func().attr());
}

absl::Status FunctionExpansion::TooMuch(absl::string_view what) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " the calls of the graph become more than ", options_.max_call_nodes, " nodes or ",
      options_.max_call_bytes, " bytes; ", num_nodes_, " nodes and ", num_bytes_, " bytes are there"));
}

absl::Status FunctionExpansion::Admit() {
  if (held_bytes_ <= admitted_bytes_ || !options_.admit_tensors) return absl::OkStatus();
  // More than is needed now: many small shares would be another way to fill the memory.
  const int64_t more = std::max({held_bytes_ - admitted_bytes_, kMinAdmitted, admitted_bytes_ / 4});
  refusal_ = options_.admit_tensors(more);
  if (refusal_.ok()) admitted_bytes_ += more;
  return refusal_;
}

absl::Status FunctionExpansion::Add(NodeDef node) {
  const auto num_bytes = static_cast<int64_t>(node.ByteSizeLong());
  ++num_nodes_;
  num_bytes_ += num_bytes;
  if (num_nodes_ > options_.max_call_nodes || num_bytes_ > options_.max_call_bytes) {
    return TooMuch(absl::StrCat("at '", node.name(), "'"));
  }
  held_bytes_ += num_bytes + kNodeBytes;
  WEIR_RETURN_IF_ERROR(Admit());
  if (!names_.insert(node.name()).second || graph_.FindNode(node.name()) != nullptr ||
      graph_.FindLeftOut(node.name()) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("the graph already has a node '", node.name(), "', which the call would become"));
  }
  NoteString(node);
  *expanded_.add_node() = std::move(node);
  return absl::OkStatus();
}

void FunctionExpansion::NoteString(const NodeDef& node) {
  constexpr size_t kLongest = 1000;  // no name of a device is longer
  if (node.op() == "Identity" && node.input_size() > 0) {
    const auto known = strings_.find(node.input(0));
    if (known == strings_.end()) return;
    std::string value = known->second;
    return HoldString(node.name(), std::move(value));
  }
  const AttrProto* const value = node.op() == "Const" ? FindAttr(node, "value") : nullptr;
  if (value == nullptr || value->tensor().dtype() != tensorflow::DT_STRING) return;
  if (value->tensor().string_val_size() != 1 || value->tensor().tensor_shape().dim_size() > 0) return;
  const std::string& text = value->tensor().string_val(0);
  if (text.size() <= kLongest) HoldString(node.name(), text);
}

// Many nodes may pass on one string: each copy counts as the nodes do, and is admitted with the next one.
void FunctionExpansion::HoldString(const std::string& node, std::string value) {
  held_bytes_ += static_cast<int64_t>(2 * sizeof(std::string) + node.size() + value.size());
  strings_[node] = std::move(value);
}

absl::Status FunctionExpansion::Add(const NodeDef& call, absl::string_view op, const std::string& name,
                                    const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& after, DataType type) {
  NodeDef node;
  node.set_name(name);
  node.set_op(std::string(op));
  node.set_device(call.device());
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& before : after) node.add_input(absl::StrCat("^", before));
  if (type != tensorflow::DT_INVALID) (*node.mutable_attr())["T"].set_type(type);
  if (op == "Merge") (*node.mutable_attr())["N"].set_i(static_cast<int64_t>(inputs.size()));
  return Add(std::move(node));
}

}  // namespace weir
