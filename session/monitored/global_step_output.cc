#include "session/monitored/global_step_output.h"

#include "absl/strings/str_cat.h"
#include "graph/node_of_graph.h"
#include "graph/types/status_macros.h"

namespace weir {

namespace {

// Hooks read one int64 from it.
absl::StatusOr<Output> CheckedCounter(const Graph& graph, const Output& step, absl::string_view hook) {
  if (!IsNodeOf(graph, *step.node) || step.index < 0 || step.index >= step.node->num_outputs()) {
    return absl::InvalidArgumentError(
        absl::StrCat(hook, ": the graph has no output '", step.name(), "' for the global step"));
  }
  if (step.dtype() == DType::kInt64 && step.shape().rank() == 0) return step;
  return absl::InvalidArgumentError(absl::StrCat(hook, ": the global step '", step.name(), "' is ",
                                                 TypeString(step.dtype(), step.shape()),
                                                 ", must be an int64 scalar"));
}

}  // namespace

absl::StatusOr<Output> GlobalStepOutput(const Graph& graph, Output chosen, absl::string_view hook) {
  if (chosen) return CheckedCounter(graph, chosen, hook);
  const auto found = graph.collections().find("global_step");
  if (found != graph.collections().end() && !found->second.empty()) {
    const std::string& name = found->second[0];
    for (const VariableDef& variable : graph.variables()) {
      if (name == variable.variable_name || name == variable.handle_name || name == variable.snapshot_name ||
          name == absl::StrCat(variable.variable_name, ":0")) {
        WEIR_ASSIGN_OR_RETURN(const Output step, graph.FindOutput(variable.snapshot_name));
        return CheckedCounter(graph, step, hook);
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
