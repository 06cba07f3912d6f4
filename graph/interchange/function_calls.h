// Nodes of a GraphDef that call functions: which they are, and what they give the functions.
//
// Functions without state; safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/interchange/function_library.h"

namespace weir {

// By the op alone; that a function has the op's name, its library knows.
enum class CallKind { kNone, kCall, kIf, kCase, kWhile, kFor, kGradient };
CallKind KindOfCall(absl::string_view op);

// Whether an attr of the node is a function of the library.
bool NamesFunctionOf(const FunctionLibrary& library, const tensorflow::NodeDef& node);

struct CallInputs {
  std::vector<std::string> data;     // as the NodeDef names them
  std::vector<std::string> control;  // nodes
};
CallInputs InputsOf(const tensorflow::NodeDef& call);

// Null when the node has no such attr.
const AttrProto* FindAttr(const tensorflow::NodeDef& node, const std::string& name);
absl::Status WrongAttr(const tensorflow::NodeDef& node, absl::string_view name, absl::string_view wanted);

// InvalidArgument unless the function takes as many tensors as it is given.
absl::Status CheckArguments(const tensorflow::NodeDef& call, const FunctionBody& body, size_t num_given);
// InvalidArgument unless it gives what the attr of the call, where it is there, lists.
absl::Status CheckResults(const tensorflow::NodeDef& call, const FunctionBody& body, const std::string& attr);

}  // namespace weir
