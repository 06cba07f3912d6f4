// Where hooks read the step counter.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "session/session.h"

namespace weir {

// `chosen` if it is an output; else the value of the variable in the collection "global_step".
// FailedPrecondition, naming the hook, when there is none; InvalidArgument when it is no int64 scalar.
absl::StatusOr<Output> GlobalStepOutput(const Graph& graph, Output chosen, absl::string_view hook);

// The name of the variable whose value the output reads; else the name of the output's node.
std::string VariableNameOf(const Graph& graph, Output value);

// Its value now.
absl::StatusOr<int64_t> ReadGlobalStep(Session& session, Output global_step);

}  // namespace weir
