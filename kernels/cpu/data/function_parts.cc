#include "kernels/cpu/data/function_parts.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

std::string ArgumentName(size_t index) { return absl::StrCat("argument_", index); }

// The node that an input names.
absl::string_view ProducerOf(absl::string_view input) {
  absl::ConsumePrefix(&input, "^");
  return input.substr(0, input.find(':'));
}

// Reads index and T of an _Arg or _Retval into its place; InvalidArgument for a place that is taken, or
// wrong.
absl::Status Place(const PlainNode& node, size_t max_size, const std::string& value,
                   std::vector<std::string>* values, std::vector<DType>* types) {
  const auto index = node.attrs.find("index"), type = node.attrs.find("T");
  const int64_t* const at = index == node.attrs.end() ? nullptr : index->second.get_if<int64_t>();
  const DType* const of = type == node.attrs.end() ? nullptr : type->second.get_if<DType>();
  if (at == nullptr || of == nullptr || *at < 0 || *at >= static_cast<int64_t>(max_size)) {
    return absl::InvalidArgumentError(absl::StrCat(node.op, " '", node.name, "' lacks its index or type"));
  }
  const auto place = static_cast<size_t>(*at);
  if (place >= values->size()) {
    values->resize(place + 1);
    types->resize(place + 1, DType::kInvalid);
  }
  if (!(*values)[place].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a function has two ", node.op, " of index ", place));
  }
  (*values)[place] = value;
  (*types)[place] = *of;
  return absl::OkStatus();
}

PlainNode Bound(const char* op, std::string name, size_t index, DType type) {
  return {std::move(name), op, {}, {{"index", static_cast<int64_t>(index)}, {"T", type}}};
}

// Adds the nodes of `function`, called with these arguments, under names that begin with `prefix`. Those that
// need nothing wait for `pivot`, if there is one. Gives what its results are called.
std::vector<std::string> AddCall(const FunctionParts& function, absl::string_view prefix,
                                 const std::vector<std::string>& arguments, absl::string_view pivot,
                                 FunctionParts* into) {
  std::map<absl::string_view, std::string> names;
  for (size_t i = 0; i < arguments.size(); ++i) names[function.arguments[i]] = arguments[i];
  const auto renamed = [&](absl::string_view input) {
    const absl::string_view producer = ProducerOf(input);
    const auto argument = names.find(producer);
    const bool is_control = input.substr(0, 1) == "^";
    if (argument == names.end()) {
      return absl::StrCat(is_control ? "^" : "", prefix, absl::StripPrefix(input, "^"));
    }
    return is_control ? absl::StrCat("^", ProducerOf(argument->second)) : argument->second;
  };
  for (const PlainNode& node : function.nodes) {
    PlainNode copy = {absl::StrCat(prefix, node.name), node.op, {}, node.attrs};
    copy.attrs.erase("_class");  // names of nodes
    if (absl::EndsWith(node.op, "Enter")) {
      // Two functions' loops are two loops.
      const auto frame = copy.attrs.find("frame_name");
      const std::string* const name =
          frame == copy.attrs.end() ? nullptr : frame->second.get_if<std::string>();
      if (name != nullptr) frame->second = absl::StrCat(prefix, *name);
    }
    for (const std::string& input : node.inputs) copy.inputs.push_back(renamed(input));
    if (copy.inputs.empty() && !pivot.empty()) copy.inputs.push_back(absl::StrCat("^", pivot));
    into->nodes.push_back(std::move(copy));
  }
  std::vector<std::string> results;
  for (const std::string& result : function.results) results.push_back(renamed(result));
  return results;
}

std::string PrefixOfPart(int part) { return absl::StrCat("part_", part, "/"); }

// The function as the beginning of a composition.
FunctionParts AsComposition(FunctionParts function) {
  if (function.num_functions > 1) return function;
  FunctionParts made;
  for (size_t i = 0; i < function.arguments.size(); ++i) made.arguments.push_back(ArgumentName(i));
  made.results = AddCall(function, PrefixOfPart(0), made.arguments, "", &made);
  made.argument_types = std::move(function.argument_types);
  made.result_types = std::move(function.result_types);
  return made;
}

absl::Status CheckFit(const std::vector<DType>& given, const std::vector<DType>& wanted) {
  if (given == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError("a function's arguments are not what the one before it gives");
}

}  // namespace

absl::StatusOr<FunctionParts> FunctionParts::FromBody(const std::string& body) {
  WEIR_ASSIGN_OR_RETURN(std::vector<PlainNode> nodes, PlainGraphFromBytes(body));
  FunctionParts parts;
  for (PlainNode& node : nodes) {
    if (node.op == kArgOp) {
      WEIR_RETURN_IF_ERROR(Place(node, nodes.size(), node.name, &parts.arguments, &parts.argument_types));
    } else if (node.op == kRetvalOp && !node.inputs.empty()) {
      WEIR_RETURN_IF_ERROR(Place(node, nodes.size(), node.inputs[0], &parts.results, &parts.result_types));
    } else {
      parts.nodes.push_back(std::move(node));
    }
  }
  for (const auto* values : {&parts.arguments, &parts.results}) {
    for (const std::string& value : *values) {
      if (value.empty()) return absl::InvalidArgumentError("a function lacks an argument or result");
    }
  }
  return parts;
}

absl::StatusOr<std::string> FunctionParts::Body() const {
  std::vector<PlainNode> all = nodes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    all.push_back(Bound(kArgOp, arguments[i], i, argument_types[i]));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    all.push_back(Bound(kRetvalOp, absl::StrCat("result_", i), i, result_types[i]));
    all.back().inputs = {results[i]};
  }
  return PlainGraphBytes(all);
}

bool FunctionParts::GivesArguments() const {
  if (results.size() != arguments.size()) return false;
  std::map<absl::string_view, const PlainNode*> by_name;
  for (const PlainNode& node : nodes) by_name[node.name] = &node;
  for (size_t i = 0; i < results.size(); ++i) {
    absl::string_view from = results[i];
    for (size_t steps = 0; from != arguments[i]; ++steps) {
      const auto node = by_name.find(from);
      if (node == by_name.end() || steps > nodes.size()) return false;
      if (node->second->op != "Identity" || node->second->inputs.size() != 1) return false;
      from = node->second->inputs[0];
    }
  }
  return true;
}

bool FunctionParts::IsStateful(const OpRegistry& ops) const {
  for (const PlainNode& node : nodes) {
    if (node.op == "Assert") continue;
    const Op* const op = ops.Find(node.op);
    if (op == nullptr || op->is_stateful()) return true;
  }
  return false;
}

absl::StatusOr<FunctionParts> Composed(FunctionParts first, const FunctionParts& second) {
  WEIR_RETURN_IF_ERROR(CheckFit(first.result_types, second.argument_types));
  FunctionParts made = AsComposition(std::move(first));
  const std::vector<std::string> between = std::move(made.results);
  made.results = AddCall(second, PrefixOfPart(made.num_functions++), between, "", &made);
  made.result_types = second.result_types;
  return made;
}

absl::StatusOr<FunctionParts> Followed(FunctionParts first, const FunctionParts& predicate) {
  WEIR_RETURN_IF_ERROR(CheckFit(first.result_types, predicate.argument_types));
  FunctionParts made = AsComposition(std::move(first));
  for (std::string& verdict :
       AddCall(predicate, PrefixOfPart(made.num_functions++), made.results, "", &made)) {
    made.results.push_back(std::move(verdict));
  }
  made.result_types.insert(made.result_types.end(), predicate.result_types.begin(),
                           predicate.result_types.end());
  return made;
}

absl::StatusOr<FunctionParts> Both(FunctionParts first, const FunctionParts& second) {
  WEIR_RETURN_IF_ERROR(CheckFit(first.argument_types, second.argument_types));
  const std::vector<DType> verdict = {DType::kBool};
  WEIR_RETURN_IF_ERROR(CheckFit(first.result_types, verdict));
  WEIR_RETURN_IF_ERROR(CheckFit(second.result_types, verdict));
  FunctionParts made = AsComposition(std::move(first));
  const int part = made.num_functions++;
  const auto named = [&](absl::string_view name) { return absl::StrCat("both_", part, "/", name); };
  const std::string given = made.results[0], scalar = named("scalar"), is_true = named("verdict"),
                    branch = named("branch"), pivot = named("pivot"), other = named("second_verdict"),
                    other_branch = named("second_branch"), both = named("both");
  const AttrMap of_bool = {{"T", DType::kBool}};
  // A verdict may be one bool of any shape; a branch wants a scalar.
  made.nodes.push_back(
      {scalar, "Const", {}, {{"dtype", DType::kInt32}, {"value", Tensor(DType::kInt32, Shape({0}))}}});
  made.nodes.push_back(
      {is_true, "Reshape", {given, scalar}, {{"T", DType::kBool}, {"Tshape", DType::kInt32}}});
  made.nodes.push_back({branch, "Switch", {is_true, is_true}, of_bool});
  made.nodes.push_back({pivot, "Identity", {absl::StrCat(branch, ":1")}, of_bool});
  std::vector<std::string> arguments;
  for (size_t i = 0; i < made.arguments.size(); ++i) {
    const std::string name = absl::StrCat(branch, "_", i);
    made.nodes.push_back({name, "Switch", {made.arguments[i], is_true}, {{"T", made.argument_types[i]}}});
    arguments.push_back(absl::StrCat(name, ":1"));
  }
  const std::string then = AddCall(second, PrefixOfPart(part), arguments, pivot, &made)[0];
  made.nodes.push_back({other, "Reshape", {then, scalar}, {{"T", DType::kBool}, {"Tshape", DType::kInt32}}});
  // Taken through the branch, also where it depends on no argument.
  made.nodes.push_back({other_branch, "Switch", {other, is_true}, of_bool});
  made.nodes.push_back(
      {both, "Merge", {branch, absl::StrCat(other_branch, ":1")}, {{"T", DType::kBool}, {"N", 2}}});
  made.results = {both};
  made.result_types = verdict;
  return made;
}

FunctionParts Selection(absl::Span<const DType> types, int begin, int end) {
  FunctionParts made;
  for (size_t i = 0; i < types.size(); ++i) {
    made.arguments.push_back(ArgumentName(i));
    made.argument_types.push_back(types[i]);
  }
  made.results = {made.arguments.begin() + begin, made.arguments.begin() + end};
  made.result_types = {made.argument_types.begin() + begin, made.argument_types.begin() + end};
  return made;
}

}  // namespace weir
