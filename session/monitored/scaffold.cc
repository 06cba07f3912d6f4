#include "session/monitored/scaffold.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/node_of_graph.h"
#include "graph/types/shape.h"
#include "graph/types/status_macros.h"
#include "ops/variable.h"
#include "session/executor/update_ledger.h"
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
    WEIR_ASSIGN_OR_RETURN(Output summary, graph.graph().FindValue(name));
    summaries.push_back(summary);
  }
  return graph.AddOp("MergeSummary", {InputArg(summaries)}, {}, "merge_all_summaries");
}

// The name in a collection that has at most one, as those of TensorFlow's scaffolds have; "" without one.
absl::StatusOr<std::string> OnlyNameIn(const Graph& graph, const std::string& collection) {
  const auto found = graph.collections().find(collection);
  if (found == graph.collections().end() || found->second.empty()) return std::string();
  if (found->second.size() == 1) return found->second[0];
  return absl::InvalidArgumentError(
      absl::StrCat("the collection '", collection, "' has ", found->second.size(), " items (",
                   absl::StrJoin(found->second, ", "), "): set the scaffold's field to the one to use"));
}

absl::Status FillIn(const Graph& graph, const std::string& collection, Node** node) {
  if (*node != nullptr) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const std::string name, OnlyNameIn(graph, collection));
  if (name.empty()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(*node, graph.LookupNode(name));
  return absl::OkStatus();
}

absl::Status FillIn(const Graph& graph, const std::string& collection, Output* output) {
  if (!*output) {
    WEIR_ASSIGN_OR_RETURN(const std::string name, OnlyNameIn(graph, collection));
    if (name.empty()) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(*output, graph.FindValue(name));
  }
  if (!IsNodeOf(graph, *output->node) || output->index < 0 || output->index >= output->node->num_outputs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has no output '", output->name(), "' for the scaffold's ", collection));
  }
  if (output->dtype() == DType::kString) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the scaffold's ", collection, " '", output->name(), "' is ",
                                                 DTypeName(output->dtype()), ", not string"));
}

void MarkLocalVariables(Graph& graph) {
  const auto known = graph.collections().find("local_variables");
  if (known == graph.collections().end()) return;
  for (const std::string& handle : known->second) {
    const absl::StatusOr<Output> output = graph.FindOutput(handle);
    if (output.ok()) graph.SetAttr(output->node, kBeginsAnewAttr, true);
  }
}

absl::StatusOr<std::vector<std::string>> Names(Session& session, const Output& ready) {
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values, session.Run({}, {ready}));
  const absl::Span<const std::string> names = values[0].flat<std::string>();
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace

absl::Status Scaffold::Finalize(GraphBuilder& builder) {
  if (!builder.ok()) return builder.status();
  // Where the caller adds nodes of its own, and after what they run, says nothing about these: else the check
  // whether variables are ready could train.
  const auto no_device = builder.DeviceScope("");
  const auto no_control = builder.ClearControlScope();
  Graph& graph = builder.graph();
  WEIR_RETURN_IF_ERROR(FillIn(graph, "ready_op", &ready));
  WEIR_RETURN_IF_ERROR(FillIn(graph, "ready_for_local_init_op", &ready_for_local_init));
  WEIR_RETURN_IF_ERROR(FillIn(graph, "local_init_op", &local_init));
  if (local_init == nullptr && graph.collections().contains("local_variables")) {
    local_init = InitializeLocalVariables(builder);
    if (local_init != nullptr) graph.collections()["local_init_op"] = {local_init->name()};
  }
  if (local_init != nullptr) MarkLocalVariables(graph);
  WEIR_RETURN_IF_ERROR(FillIn(graph, "init_op", &init));
  if (init == nullptr) {
    WEIR_ASSIGN_OR_RETURN(init, GroupInitializers(builder));
  }
  WEIR_RETURN_IF_ERROR(FillIn(graph, "summary_op", &summary));
  if (!summary) {
    WEIR_ASSIGN_OR_RETURN(summary, MergeSummaries(builder));
  }
  const absl::StatusOr<Output> step = GlobalStepOutput(graph, global_step, "Scaffold");
  if (!step.ok() && !absl::IsFailedPrecondition(step.status())) return step.status();
  global_step = step.value_or(Output());
  // What an earlier call has added serves again, so that the graph of repeated evaluations does not grow.
  for (size_t i = is_initialized.size(); i < graph.variables().size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(Output handle, graph.FindOutput(graph.variables()[i].handle_name));
    is_initialized.push_back(builder.AddOp("VarIsInitializedOp", {handle}));
    shapes.push_back(builder.AddOp("VariableShape", {handle}, {{"out_type", DType::kInt64}}));
  }
  if (!saver && !graph.variables().empty()) {
    WEIR_ASSIGN_OR_RETURN(saver, Saver::Build(builder, saver_options));
  }
  return builder.status();
}

absl::Status Scaffold::Initialize(Session& session) const {
  WEIR_RETURN_IF_ERROR(session.Run(init_feed, {}, {init}).status());
  return init_fn ? init_fn(*this, session) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Scaffold::InitializeLocally(Session& session) const {
  if (local_init == nullptr) return std::vector<std::string>();
  WEIR_ASSIGN_OR_RETURN(std::vector<std::string> missing, ready_for_local_init
                                                              ? Names(session, ready_for_local_init)
                                                              : UninitializedVariables(session));
  if (missing.empty()) WEIR_RETURN_IF_ERROR(session.Run(local_init_feed, {}, {local_init}).status());
  return missing;
}

absl::StatusOr<std::vector<std::string>> Scaffold::UninitializedVariables(Session& session) const {
  if (ready) return Names(session, ready);
  std::vector<std::string> names;
  if (is_initialized.empty()) return names;
  const std::vector<TensorRef> fetches(is_initialized.begin(), is_initialized.end());
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values, session.Run({}, fetches));
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].scalar<bool>()) names.push_back(session.graph().variables()[i].variable_name);
  }
  return names;
}

absl::Status Scaffold::CheckShapes(Session& session) const {
  if (shapes.empty()) return absl::OkStatus();
  const std::vector<TensorRef> fetches(shapes.begin(), shapes.end());
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values, session.Run({}, fetches));
  for (size_t i = 0; i < values.size(); ++i) {
    const VariableDef& variable = session.graph().variables()[i];
    WEIR_ASSIGN_OR_RETURN(const Output handle, session.graph().FindOutput(variable.handle_name));
    const auto& type = handle.node->resource_type(handle.index);
    WEIR_ASSIGN_OR_RETURN(const PartialShape found, PartialShape::FromDims(values[i].flat<int64_t>()));
    if (!type || type->shape.IsCompatibleWith(found)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", variable.variable_name, "' is ", found.ToString(), " on its task, and ",
                     type->shape.ToString(), " in this program: the chief builds another model"));
  }
  return absl::OkStatus();
}

}  // namespace weir
