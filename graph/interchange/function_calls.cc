#include "graph/interchange/function_calls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace weir {

using ::tensorflow::NodeDef;

CallKind KindOfCall(absl::string_view op) {
  if (op == "PartitionedCall" || op == "StatefulPartitionedCall") return CallKind::kCall;
  if (op == "If" || op == "StatelessIf") return CallKind::kIf;
  if (op == "Case" || op == "StatelessCase") return CallKind::kCase;
  if (op == "While" || op == "StatelessWhile") return CallKind::kWhile;
  if (op == "For") return CallKind::kFor;
  if (op == "SymbolicGradient") return CallKind::kGradient;
  return CallKind::kNone;
}

bool NamesFunctionOf(const FunctionLibrary& library, const NodeDef& node) {
  return std::any_of(node.attr().begin(), node.attr().end(), [&](const auto& attr) {
    return attr.second.has_func() && library.Find(attr.second.func().name()) != nullptr;
  });
}

CallInputs InputsOf(const NodeDef& call) {
  CallInputs inputs;
  for (absl::string_view input : call.input()) {
    if (absl::ConsumePrefix(&input, "^")) {
      inputs.control.emplace_back(input);
    } else {
      inputs.data.emplace_back(input);
    }
  }
  return inputs;
}

const AttrProto* FindAttr(const NodeDef& node, const std::string& name) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}

absl::Status WrongAttr(const NodeDef& node, absl::string_view name, absl::string_view wanted) {
  const bool is_there = node.attr().contains(std::string(name));
  return absl::InvalidArgumentError(absl::StrCat("attr '", name, "' must be ", wanted,
                                                 is_there ? ", and is something else" : ", and is missing"));
}

absl::Status CheckArguments(const NodeDef& call, const FunctionBody& body, size_t num_given) {
  if (num_given == body.arguments.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Expected input arguments to be ", num_given,
                                                 " for the call; its function takes ",
                                                 body.arguments.size()));
}

absl::Status CheckResults(const NodeDef& call, const FunctionBody& body, const std::string& attr) {
  const AttrProto* const types = FindAttr(call, attr);
  if (types == nullptr) return absl::OkStatus();
  const auto& wanted = types->list().type();
  const auto name = [](int type) {
    return tensorflow::DataType_Name(static_cast<tensorflow::DataType>(type));
  };
  if (static_cast<size_t>(wanted.size()) != body.result_types.size()) {
    return absl::InvalidArgumentError(absl::StrCat("attr '", attr, "' has ", wanted.size(),
                                                   " types; the function gives ", body.result_types.size(),
                                                   " tensors"));
  }
  for (int i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == body.result_types[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat("output ", i, " is ", name(wanted[i]), " by attr '", attr,
                                                   "'; the function gives ", name(body.result_types[i])));
  }
  return absl::OkStatus();
}

}  // namespace weir
