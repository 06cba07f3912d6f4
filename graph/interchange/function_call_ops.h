// Two ops that stand for calls while gradients of a function are made: a call of a function that has a
// gradient of its own in the library, and that gradient (function_gradients.cc). Both become calls again: no
// graph of a step has them, and no GraphDef may.
//
//   _FunctionCall      takes the arguments, gives the results
//   _FunctionGradient  takes the arguments and what flows into each result, gives what flows into the
//   arguments
//
// Attr function of either is a serialized NameAttrList. Functions without state; safe from any thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/op_registry.h"

namespace weir {

inline constexpr char kFunctionCallOp[] = "_FunctionCall";
inline constexpr char kFunctionGradientOp[] = "_FunctionGradient";
inline constexpr char kFunctionAttr[] = "function";

bool IsFunctionCallOp(absl::string_view op);

// All of these ops, and those two.
absl::StatusOr<std::unique_ptr<OpRegistry>> WithFunctionCallOps(const OpRegistry& ops);

}  // namespace weir
