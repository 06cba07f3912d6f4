#include "session/monitored/saver.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/interchange/meta_graph.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"

namespace weir {
namespace {

Output StringConstant(GraphBuilder& graph, std::vector<std::string> values, const Shape& shape,
                      absl::string_view name) {
  Tensor tensor = Tensor::FromSpan<std::string>(shape, values);
  return graph.AddOp("Const", {}, {{"value", std::move(tensor)}, {"dtype", DType::kString}}, name);
}

struct SavedVariables {
  std::vector<std::string> names;
  std::vector<std::string> slices;  // "": the whole tensor
  std::vector<Output> values;
  std::vector<Output> handles;
  std::vector<DType> dtypes;
};

absl::StatusOr<SavedVariables> FindVariables(const Graph& graph) {
  SavedVariables result;
  std::set<std::string> names;
  for (const VariableDef& variable : graph.variables()) {
    if (!names.insert(variable.variable_name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two variables are called '", variable.variable_name,
                                                     "': a checkpoint has one tensor of a name"));
    }
    WEIR_ASSIGN_OR_RETURN(Output value, graph.FindOutput(variable.snapshot_name));
    WEIR_ASSIGN_OR_RETURN(Output handle, graph.FindOutput(variable.handle_name));
    result.names.push_back(variable.slice ? variable.slice->full_name : variable.variable_name);
    result.slices.push_back(variable.slice ? variable.slice->ToString() : "");
    result.values.push_back(value);
    result.handles.push_back(handle);
    result.dtypes.push_back(value.dtype());
  }
  if (result.names.empty()) return absl::InvalidArgumentError("a saver needs variables; the graph has none");
  return result;
}

absl::string_view WithoutLastSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

// Whether it lies directly in the folder. A file `checkpoint` may name anything, also by a way that leads
// through the folder.
bool IsIn(const std::string& directory, const std::string& checkpoint) {
  const std::string name = FileNameOf(checkpoint), folder = DirectoryOf(checkpoint);
  return !name.empty() && name != "." && name != ".." &&
         WithoutLastSlashes(folder) == WithoutLastSlashes(directory);
}

// A checkpoint that is no longer named anywhere: what cannot be deleted is only lost disk space.
void DeleteCheckpoint(const std::string& prefix, FileSystem& files) {
  RemoveBundle(prefix, files).IgnoreError();
  files.Remove(prefix + ".meta").IgnoreError();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Saver>> Saver::Build(GraphBuilder& graph, const SaverOptions& options) {
  if (!graph.ok()) return graph.status();
  WEIR_ASSIGN_OR_RETURN(SavedVariables variables, FindVariables(graph.graph()));
  std::unique_ptr<Saver> saver(new Saver);
  saver->options_ = options;
  auto scope = graph.NameScope("save");
  const Shape count({static_cast<int64_t>(variables.names.size())});
  saver->save_path_ = StringConstant(graph, {"model"}, Shape(), "Const");
  Node* save = graph.AddNode(
      "SaveV2",
      {saver->save_path_, StringConstant(graph, variables.names, count, "tensor_names"),
       StringConstant(graph, variables.slices, count, "shape_and_slices"), InputArg(variables.values)});
  {
    auto saved = graph.ControlScope({save});
    saver->save_ = graph.AddOp("Identity", {saver->save_path_}, {}, "control_dependency");
  }
  Node* restore = graph.AddNode(
      "RestoreV2",
      {saver->save_path_, StringConstant(graph, variables.names, count, "RestoreV2/tensor_names"),
       StringConstant(graph, variables.slices, count, "RestoreV2/shape_and_slices")},
      {{"dtypes", variables.dtypes}});
  if (!graph.ok()) return graph.status();
  std::vector<Node*> assigns;
  for (size_t i = 0; i < variables.handles.size(); ++i) {
    assigns.push_back(graph.AddNode("AssignVariableOp",
                                    {variables.handles[i], restore->output(static_cast<int>(i))},
                                    {{"validate_shape", true}}));
  }
  auto control = graph.ControlScope(assigns);
  saver->restore_ = graph.AddNode("NoOp", {}, {}, "restore_all");
  if (!graph.ok()) return graph.status();
  return saver;
}

absl::StatusOr<std::string> Saver::Save(Session& session, const std::string& prefix, int64_t global_step) {
  const std::string path = absl::StrCat(prefix, "-", global_step);
  WEIR_RETURN_IF_ERROR(session.Run({{save_path_, Tensor::Scalar(path)}}, {}, {save_}).status());
  if (options_.write_meta_graph) WEIR_RETURN_IF_ERROR(WriteMetaGraph(session.graph(), path + ".meta"));
  FileSystem& files = *options_.file_system;
  const std::string directory = DirectoryOf(prefix);
  if (kept_.empty()) {
    // What an earlier process left counts towards max_to_keep.
    WEIR_ASSIGN_OR_RETURN(kept_, CheckpointsIn(directory, files));
    std::reverse(kept_.begin(), kept_.end());
  }
  kept_.erase(std::remove(kept_.begin(), kept_.end(), path), kept_.end());
  kept_.push_back(path);
  const int num_outdated =
      options_.max_to_keep > 0 ? std::max(0, static_cast<int>(kept_.size()) - options_.max_to_keep) : 0;
  const auto first_kept = kept_.begin() + num_outdated;
  WEIR_RETURN_IF_ERROR(WriteCheckpointState(
      directory, {.newest = path, .all = std::vector<std::string>(first_kept, kept_.end())}, files));
  // Only now that nothing names them.
  std::for_each(kept_.begin(), first_kept, [&](const std::string& checkpoint) {
    if (IsIn(directory, checkpoint)) DeleteCheckpoint(checkpoint, files);
  });
  kept_.erase(kept_.begin(), first_kept);
  return path;
}

absl::Status Saver::WriteMetaGraph(const Graph& graph, const std::string& path) const {
  const SaverDef def = {.filename_tensor_name = save_path_.name(),
                        .save_tensor_name = save_.name(),
                        .restore_op_name = restore_->name(),
                        .max_to_keep = options_.max_to_keep};
  WEIR_ASSIGN_OR_RETURN(std::string bytes, MetaGraphBytes(graph, &def));
  return WriteFileAtomically(*options_.file_system, path, bytes);
}

absl::Status Saver::Restore(Session& session, const std::string& checkpoint) {
  return session.Run({{save_path_, Tensor::Scalar(checkpoint)}}, {}, {restore_}).status();
}

absl::StatusOr<std::string> Saver::RestoreNewest(Session& session, const std::string& directory) {
  absl::StatusOr<CheckpointState> state = ReadCheckpointState(directory, *options_.file_system);
  if (absl::IsNotFound(state.status())) {
    return absl::NotFoundError(absl::StrCat(directory, " has no checkpoint"));
  }
  if (!state.ok()) return state.status();
  WEIR_ASSIGN_OR_RETURN(std::vector<std::string> checkpoints,
                        CheckpointsIn(directory, *options_.file_system));
  absl::Status first_error;
  if (checkpoints.empty() || checkpoints.front() != state->newest) {
    // Somebody has deleted it.
    first_error = absl::DataLossError(
        absl::StrCat(JoinPath(directory, "checkpoint"), " names ", state->newest, ", which is not there"));
    std::fprintf(stderr, "weir: %s\n", std::string(first_error.message()).c_str());
  }
  for (const std::string& checkpoint : checkpoints) {
    const absl::Status status = Restore(session, checkpoint);
    if (status.ok()) return checkpoint;
    // Only damage of the files leads back: a variable that is missing or has another shape is a mistake in
    // the model.
    if (status.code() != absl::StatusCode::kDataLoss && options_.file_system->Exists(checkpoint + ".index"))
      return status;
    std::fprintf(stderr, "weir: checkpoint %s cannot be restored: %s\n", checkpoint.c_str(),
                 std::string(status.message()).c_str());
    if (first_error.ok()) first_error = status;
  }
  return absl::DataLossError(
      absl::StrCat("no checkpoint of ", directory, " can be restored; the newest: ", first_error.message()));
}

absl::StatusOr<std::vector<std::string>> CheckpointsIn(const std::string& directory,
                                                       FileSystem& file_system) {
  absl::StatusOr<CheckpointState> state = ReadCheckpointState(directory, file_system);
  if (absl::IsNotFound(state.status())) return std::vector<std::string>();
  if (!state.ok()) return state.status();
  // The newest is mostly the last of them, but need not be.
  std::vector<std::string> result(state->all.rbegin(), state->all.rend());
  result.erase(std::remove(result.begin(), result.end(), state->newest), result.end());
  result.insert(result.begin(), state->newest);
  result.erase(std::remove_if(result.begin(), result.end(),
                              [&file_system](const std::string& prefix) {
                                return !file_system.Exists(prefix + ".index");
                              }),
               result.end());
  return result;
}

}  // namespace weir
