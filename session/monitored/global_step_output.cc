#include "session/monitored/global_step_output.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {

absl::StatusOr<Output> GlobalStepOutput(const Graph& graph, Output chosen, absl::string_view hook) {
  if (chosen) return chosen;
  const auto found = graph.collections().find("global_step");
  if (found != graph.collections().end() && !found->second.empty()) {
    const std::string& name = found->second[0];
    for (const VariableDef& variable : graph.variables()) {
      if (name == variable.variable_name || name == variable.handle_name || name == variable.snapshot_name ||
          name == absl::StrCat(variable.variable_name, ":0")) {
        return graph.FindOutput(variable.snapshot_name);
      }
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat(hook, " needs a global step: call GlobalStep(g) and pass it to Minimize"));
}

std::string VariableNameOf(const Graph& graph, Output value) {
  for (const VariableDef& variable : graph.variables()) {
    if (variable.snapshot_name == value.name()) return variable.variable_name;
  }
  return value.node->name();
}

absl::StatusOr<int64_t> ReadGlobalStep(Session& session, Output global_step) {
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> step, session.Run({}, {global_step}));
  return step[0].scalar<int64_t>();
}

}  // namespace weir
