#include "session/monitored/scaffold.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "session/monitored/global_step_output.h"

namespace weir {
namespace {

absl::StatusOr<Node*> GroupInitializers(GraphBuilder& graph) {
  std::vector<Node*> initializers;
  for (const VariableDef& variable : graph.graph().variables()) {
    WEIR_ASSIGN_OR_RETURN(Node * initializer, graph.graph().LookupNode(variable.initializer_name));
    initializers.push_back(initializer);
  }
  auto control = graph.ControlScope(initializers);
  return graph.AddNode("NoOp", {}, {}, "init");
}

absl::StatusOr<Output> MergeSummaries(GraphBuilder& graph) {
  const auto found = graph.graph().collections().find("summaries");
  if (found == graph.graph().collections().end() || found->second.empty()) return Output();
  std::vector<Output> summaries;
  for (const std::string& name : found->second) {
    WEIR_ASSIGN_OR_RETURN(Output summary, graph.graph().FindOutput(name));
    summaries.push_back(summary);
  }
  return graph.AddOp("MergeSummary", {InputArg(summaries)}, {}, "merge_all_summaries");
}

}  // namespace

absl::Status Scaffold::Finalize(GraphBuilder& graph) {
  if (!graph.ok()) return graph.status();
  if (!summary) {
    WEIR_ASSIGN_OR_RETURN(summary, MergeSummaries(graph));
  }
  if (!global_step) {
    absl::StatusOr<Output> found = GlobalStepOutput(graph.graph(), Output(), "Scaffold");
    if (found.ok())
      global_step = *found;
    else if (!absl::IsFailedPrecondition(found.status()))
      return found.status();
  }
  if (init == nullptr) {
    WEIR_ASSIGN_OR_RETURN(init, GroupInitializers(graph));
  }
  for (const VariableDef& variable : graph.graph().variables()) {
    WEIR_ASSIGN_OR_RETURN(Output handle, graph.graph().FindOutput(variable.handle_name));
    is_initialized.push_back(graph.AddOp("VarIsInitializedOp", {handle}));
  }
  if (!saver && !graph.graph().variables().empty()) {
    WEIR_ASSIGN_OR_RETURN(saver, Saver::Build(graph, saver_options));
  }
  return graph.status();
}

absl::StatusOr<std::vector<std::string>> Scaffold::UninitializedVariables(Session& session) const {
  std::vector<std::string> names;
  if (is_initialized.empty()) return names;
  const std::vector<TensorRef> fetches(is_initialized.begin(), is_initialized.end());
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values, session.Run({}, fetches));
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].scalar<bool>()) names.push_back(session.graph().variables()[i].variable_name);
  }
  return names;
}

}  // namespace weir
