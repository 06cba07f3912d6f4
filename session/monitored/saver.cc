#include "session/monitored/saver.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/tensor_slice.h"
#include "kernels/notice.h"
#include "kernels/system_thread.h"
#include "ops/mirrored_variables.h"
#include "session/executor/applied_updates.h"

namespace weir {
namespace {

// In checkpoints; no variable of a graph can have this name.
constexpr char kAppliedUpdates[] = "_weir/applied_updates";

Output StringConstant(GraphBuilder& graph, std::vector<std::string> values, const Shape& shape,
                      absl::string_view name) {
  Tensor tensor = Tensor::FromSpan<std::string>(shape, values);
  return graph.AddOp("Const", {}, {{"value", std::move(tensor)}, {"dtype", DType::kString}}, name);
}

Output IntConstant(GraphBuilder& graph, int value, absl::string_view name) {
  return graph.AddOp("Const", {}, {{"value", Tensor::Scalar<int32_t>(value)}, {"dtype", DType::kInt32}},
                     name);
}

Node* AddAssign(GraphBuilder& graph, Output handle, Output value) {
  return graph.AddNode("AssignVariableOp", {handle, value}, {{"validate_shape", true}});
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

// Whether a file of this name would be written for the checkpoint, or be taken for it.
bool IsFileOfCheckpoint(absl::string_view file, absl::string_view checkpoint) {
  absl::string_view rest = file;
  if (!absl::ConsumePrefix(&rest, checkpoint)) return false;
  return rest.empty() || rest == ".index" || rest == ".meta" || absl::StartsWith(rest, ".data-");
}

// What the op ShardedFilename gives.
std::string ShardPrefix(const std::string& path, int shard, int num_shards) {
  return absl::StrFormat("%s-%05d-of-%05d", path, shard, num_shards);
}

// An error where the disk does not say. A path that nothing can have is one where nothing is.
absl::StatusOr<bool> IsThere(FileSystem& files, const std::string& path) {
  const absl::Status found = files.FileSize(path).status();
  const bool is_impossible = absl::IsFailedPrecondition(found) || absl::IsInvalidArgument(found);
  if (found.ok() || absl::IsNotFound(found) || is_impossible) return found.ok();
  return found;
}

// A checkpoint that is no longer named anywhere: what cannot be deleted is only lost disk space.
void DeleteCheckpoint(const std::string& prefix, FileSystem& files) {
  RemoveBundle(prefix, files).IgnoreError();
  files.Remove(prefix + ".meta").IgnoreError();
}

absl::Status CheckOptions(const SaverOptions& options) {
  if (options.max_to_keep < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a saver's max_to_keep must not be negative, is ", options.max_to_keep));
  }
  if (options.max_to_keep > SaverOptions::kMostToKeep) {
    return absl::InvalidArgumentError(absl::StrCat("a saver's max_to_keep must be at most ",
                                                   SaverOptions::kMostToKeep, ", is ", options.max_to_keep,
                                                   "; 0 keeps all"));
  }
  if (!(options.keep_checkpoint_every_n_hours > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a saver's keep_checkpoint_every_n_hours must be above 0, is ",
                     options.keep_checkpoint_every_n_hours));
  }
  if (options.file_system == nullptr || options.clock == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a saver needs a file system and a clock: the ",
                                                   options.file_system == nullptr ? "file system" : "clock",
                                                   " is null"));
  }
  const std::string& latest = options.latest_filename;
  if (latest.empty() || latest == "." || latest == ".." || FileNameOf(latest) != latest) {
    return absl::InvalidArgumentError(
        absl::StrCat("a saver's latest_filename must be a name without a folder, is '", latest, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

Saver::Saver(const SaverOptions& options)
    : options_(options),
      kept_(options.max_to_keep, absl::Hours(options.keep_checkpoint_every_n_hours), options.clock()) {}

Saver::~Saver() { JoinWriter(); }

absl::StatusOr<std::unique_ptr<Saver>> Saver::Build(GraphBuilder& graph, const SaverOptions& options) {
  if (!graph.ok()) return graph.status();
  WEIR_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Saver> saver(new Saver(options));
  WEIR_ASSIGN_OR_RETURN(saver->variables_,
                        FindSavedVariables(graph.graph(), options.variables, options.renamed));
  saver->restored_.resize(saver->variables_.size());
  saver->assigns_.resize(saver->variables_.size());
  std::map<std::string, std::vector<size_t>> variables_of_devices;
  for (size_t i = 0; i < saver->variables_.size(); ++i) {
    const DeviceName& device = saver->variables_[i].handle.node->requested_device();
    variables_of_devices[options.sharded ? device.ToString() : ""].push_back(i);
  }
  auto scope = graph.NameScope("save");
  const auto free = graph.ClearControlScope();  // else a save would run what the caller's nodes run after
  saver->save_path_ = StringConstant(graph, {"model"}, Shape(), "Const");
  if (options.sharded) {
    saver->BuildSharded(graph, variables_of_devices);
  } else {
    saver->BuildOnOneDevice(graph);
  }
  if (!graph.ok()) return graph.status();
  auto control = graph.ControlScope(saver->assigns_);
  saver->restore_ = graph.AddNode("NoOp", {}, {}, "restore_all");
  if (!graph.ok()) return graph.status();
  return saver;
}

void Saver::BuildOnOneDevice(GraphBuilder& graph) {
  std::vector<size_t> all(variables_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  Node* save = AddSave(graph, save_path_, all);
  if (!graph.ok()) return;
  {
    auto saved = graph.ControlScope({save});
    save_ = graph.AddOp("Identity", {save_path_}, {}, "control_dependency");
  }
  AddRestore(graph, all);
}

void Saver::BuildSharded(GraphBuilder& graph,
                         const std::map<std::string, std::vector<size_t>>& variables_of_devices) {
  num_shards_ = static_cast<int>(variables_of_devices.size());
  std::vector<Output> parts;
  for (const auto& [device, variables] : variables_of_devices) {
    // Files are the CPU's business, whatever device the variables are on.
    const auto task = graph.DeviceScope(device);
    const auto cpu = graph.DeviceScope("/device:CPU:0");
    const Output part =
        graph.AddOp("ShardedFilename",
                    {save_path_, IntConstant(graph, static_cast<int>(parts.size()), "ShardedFilename/shard"),
                     IntConstant(graph, num_shards_, "num_shards")});
    Node* save = AddSave(graph, part, variables);
    if (!graph.ok()) return;
    const auto saved = graph.ControlScope({save});
    parts.push_back(graph.AddOp("Identity", {part}, {}, "control_dependency"));
    AddRestore(graph, variables);
    if (!graph.ok()) return;
  }
  const Output prefixes =
      graph.AddOp("Pack", {InputArg(parts)}, {{"axis", int64_t{0}}}, "MergeV2Checkpoints/prefixes");
  Node* merge = graph.AddNode("MergeV2Checkpoints", {prefixes, save_path_}, {{"delete_old_dirs", false}});
  if (!graph.ok()) return;
  const auto merged = graph.ControlScope({merge});
  save_ = graph.AddOp("Identity", {save_path_});
}

Node* Saver::AddSave(GraphBuilder& graph, Output path, const std::vector<size_t>& variables) {
  const Shape count({static_cast<int64_t>(variables.size())});
  std::vector<std::string> names, slices;
  std::vector<Output> values;
  for (size_t i : variables) {
    names.push_back(variables_[i].name);
    slices.push_back(variables_[i].slice);
    values.push_back(variables_[i].value);
  }
  return graph.AddNode("SaveV2",
                       {path, StringConstant(graph, names, count, "SaveV2/tensor_names"),
                        StringConstant(graph, slices, count, "SaveV2/shape_and_slices"), InputArg(values)});
}

void Saver::AddRestore(GraphBuilder& graph, const std::vector<size_t>& variables) {
  const auto free = graph.ClearControlScope();
  const Shape count({static_cast<int64_t>(variables.size())});
  std::vector<std::string> names, slices;
  std::vector<DType> dtypes;
  for (size_t i : variables) {
    names.push_back(variables_[i].name);
    slices.push_back(variables_[i].slice);
    dtypes.push_back(variables_[i].value.dtype());
  }
  Node* restore = graph.AddNode("RestoreV2",
                                {save_path_, StringConstant(graph, names, count, "RestoreV2/tensor_names"),
                                 StringConstant(graph, slices, count, "RestoreV2/shape_and_slices")},
                                {{"dtypes", dtypes}});
  if (!graph.ok()) return;
  for (size_t i = 0; i < variables.size(); ++i) {
    const size_t variable = variables[i];
    restored_[variable] = restore->output(static_cast<int>(i));
    assigns_[variable] = AddAssign(graph, variables_[variable].handle, restored_[variable]);
    const std::vector<Output> copies = OtherCopies(graph.graph(), variables_[variable].handle.name());
    if (copies.empty()) continue;
    std::vector<Node*> assigns = {assigns_[variable]};
    for (const Output& copy : copies) {
      const auto beside_copy = graph.ColocationScope(copy.node);
      assigns.push_back(AddAssign(graph, copy, restored_[variable]));
    }
    const auto assigned = graph.ControlScope(assigns);
    assigns_[variable] = graph.AddNode("NoOp", {}, {}, "restore_copies");
  }
}

absl::StatusOr<std::string> Saver::Begin(const std::string& prefix, std::optional<int64_t> global_step) {
  WEIR_RETURN_IF_ERROR(AwaitSave());
  const std::string path = global_step ? absl::StrCat(prefix, "-", *global_step) : prefix;
  const std::string name = FileNameOf(path);
  if (name.empty() || IsFileOfCheckpoint(options_.latest_filename, name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a checkpoint cannot be called '", path, "': ",
        name.empty() ? "that is a folder"
                     : absl::StrCat("the file '", options_.latest_filename,
                                    "' names the newest checkpoint, and would be one of its files")));
  }
  // The same name that CheckpointsIn gives it, however the folder was written: "m//model" and "m/model" would
  // count as two checkpoints, and the older of them would be deleted.
  return JoinPath(WithoutLastSlashes(DirectoryOf(path)), FileNameOf(path));
}

absl::StatusOr<std::string> Saver::Save(Session& session, const std::string& prefix,
                                        std::optional<int64_t> global_step) {
  WEIR_ASSIGN_OR_RETURN(const std::string path, Begin(prefix, global_step));
  WEIR_RETURN_IF_ERROR(WriteBundle(session, path, global_step));
  WEIR_ASSIGN_OR_RETURN(const std::string meta_graph, MetaGraph(session.graph()));
  WEIR_RETURN_IF_ERROR(Finish(path, meta_graph));
  return path;
}

absl::Status Saver::RunSave(Session& session, const std::string& path) {
  const absl::Status saved = session.Run({{save_path_, Tensor::Scalar(path)}}, {}, {save_}).status();
  for (int shard = 0; !saved.ok() && options_.sharded && shard < num_shards_; ++shard) {
    RemoveBundle(ShardPrefix(path, shard, num_shards_), *options_.file_system).IgnoreError();
  }
  return saved;
}

bool Saver::SavesSnapshot(const Session& session) const {
  const DeviceName& device = save_.node->requested_device();
  return !options_.sharded && (session.has_remote_workers() || claim_ != nullptr) &&
         (!device.job ||
          (device.job == session.default_task().job && device.task == session.default_task().task));
}

absl::StatusOr<Saver::Snapshot> Saver::Read(Session& session, std::optional<int64_t> global_step) const {
  std::vector<TensorRef> fetches;
  for (const SavedVariable& variable : variables_) fetches.push_back(variable.value);
  Snapshot snapshot;
  RunMetadata metadata;
  WEIR_ASSIGN_OR_RETURN(snapshot.values,
                        session.Run({}, fetches, {}, {.notes_applied_updates = true}, &metadata));
  snapshot.applied_updates = std::move(metadata.applied_updates);
  if (claim_ != nullptr) snapshot.origin = {claim_->life(), era_, global_step.value_or(-1)};
  return snapshot;
}

absl::Status Saver::WriteBundle(Session& session, const std::string& path,
                                std::optional<int64_t> global_step) {
  if (SavesSnapshot(session)) {
    WEIR_ASSIGN_OR_RETURN(const Snapshot snapshot, Read(session, global_step));
    return WriteBundle(path, snapshot);
  }
  if (claim_ == nullptr || writes_elsewhere_) return RunSave(session, path);
  const std::string unnamed = TemporaryPathFor(path);
  absl::Status saved = RunSave(session, unnamed);
  if (saved.ok() && !BundleExists(unnamed, *options_.file_system)) {
    writes_elsewhere_ = true;
    return RunSave(session, path);
  }
  if (saved.ok()) saved = MergeBundles({unnamed}, path, files());
  if (!saved.ok()) RemoveBundle(unnamed, *options_.file_system).IgnoreError();
  return saved;
}

absl::StatusOr<std::string> Saver::StartSave(Session& session, const std::string& prefix,
                                             std::optional<int64_t> global_step) {
  if (options_.sharded) {
    return absl::InvalidArgumentError(
        "a sharded saver writes where the variables are: it cannot save asynchronously");
  }
  WEIR_ASSIGN_OR_RETURN(std::string path, Begin(prefix, global_step));
  WEIR_ASSIGN_OR_RETURN(Snapshot snapshot, Read(session, global_step));
  WEIR_ASSIGN_OR_RETURN(std::string meta_graph, MetaGraph(session.graph()));
  auto write = [this, path, snapshot = std::move(snapshot), meta_graph = std::move(meta_graph)]() mutable {
    written_ = WriteBundle(path, snapshot);
    snapshot.values.clear();  // from here on updates need not copy
    if (written_.ok()) written_ = Finish(path, meta_graph);
    is_saving_.store(false, std::memory_order_release);
  };
  is_saving_.store(true, std::memory_order_release);
  absl::StatusOr<std::thread> writer = StartSystemThread(std::move(write));
  if (!writer.ok()) {
    is_saving_.store(false, std::memory_order_release);
    return absl::Status(writer.status().code(),
                        absl::StrCat("cannot save ", path, " asynchronously: ", writer.status().message()));
  }
  writer_ = *std::move(writer);
  return path;
}

void Saver::JoinWriter() {
  if (writer_.joinable()) writer_.join();
}

absl::Status Saver::AwaitSave() {
  JoinWriter();
  return std::exchange(written_, absl::OkStatus());
}

absl::Status Saver::WriteBundle(const std::string& path, const Snapshot& snapshot) const {
  BundleWriter::Options options;
  options.file_system = &files();
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer, BundleWriter::Create(path, options));
  for (size_t i = 0; i < variables_.size(); ++i) {
    const SavedVariable& variable = variables_[i];
    if (variable.slice.empty()) {
      WEIR_RETURN_IF_ERROR(writer->Add(variable.name, snapshot.values[i]));
      continue;
    }
    WEIR_ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(variable.slice));
    WEIR_ASSIGN_OR_RETURN(const TensorSlice slice, part.slice.WithinShape(part.full_shape));
    WEIR_RETURN_IF_ERROR(writer->AddSlice(variable.name, part.full_shape, slice, snapshot.values[i]));
  }
  if (!snapshot.applied_updates.empty()) {
    WEIR_RETURN_IF_ERROR(writer->Add(kAppliedUpdates, Tensor::Scalar(snapshot.applied_updates)));
  }
  if (snapshot.origin.epoch != 0) {
    WEIR_RETURN_IF_ERROR(writer->Add(CheckpointOrigin::kTensor, Tensor::Scalar(snapshot.origin.ToString())));
  }
  return writer->Finish();
}

absl::Status Saver::SetClaim(std::shared_ptr<CheckpointClaim> claim) {
  JoinWriter();
  claim_ = std::move(claim);
  FileSystem& files = *options_.file_system;
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                        CheckpointsIn(claim_->directory(), files, options_.latest_filename));
  WEIR_ASSIGN_OR_RETURN(const CheckpointManifest before, ReadManifest(claim_->directory(), files));
  std::vector<CheckpointManifest::Entry> noted;
  for (auto checkpoint = found.rbegin(); checkpoint != found.rend(); ++checkpoint) {
    const CheckpointManifest::Entry* const known = before.Find(*checkpoint);
    const CheckpointOrigin now = OriginNow(*checkpoint, known);
    // Noted with the origin that it has now, it would be believed from then on.
    if (known == nullptr || !known->IsReplacedBy(now)) noted.push_back({*checkpoint, now});
  }
  return Note(std::move(noted));
}

absl::Status Saver::NoteCheckpoints(const std::vector<std::string>& checkpoints) {
  std::vector<CheckpointManifest::Entry> noted;
  for (const std::string& checkpoint : checkpoints) {
    const CheckpointManifest::Entry* const known = manifest_.Find(checkpoint);
    // The last one was just written, perhaps again.
    const bool is_known = known != nullptr && checkpoint != checkpoints.back();
    noted.push_back({checkpoint, is_known ? known->origin : OriginNow(checkpoint, known)});
  }
  return Note(std::move(noted));
}

CheckpointOrigin Saver::OriginNow(const std::string& checkpoint,
                                  const CheckpointManifest::Entry* known) const {
  const CheckpointOrigin otherwise = known != nullptr ? known->origin : CheckpointOrigin();
  const absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(checkpoint, files());
  return reader.ok() ? OriginOf(**reader).value_or(otherwise) : otherwise;
}

absl::Status Saver::Note(std::vector<CheckpointManifest::Entry> checkpoints) {
  const CheckpointManifest manifest = {
      .epoch = claim_->life(), .state_file = options_.latest_filename, .checkpoints = std::move(checkpoints)};
  WEIR_RETURN_IF_ERROR(claim_->Note(manifest.Encode(claim_->directory())));
  manifest_ = manifest;
  return absl::OkStatus();
}

void Saver::BeginEra(const BundleReader& restored) {
  const absl::StatusOr<CheckpointOrigin> origin = OriginOf(restored);
  era_ = std::max(era_, origin.ok() ? origin->era : 0) + 1;
}

absl::Status Saver::Export(Session& session, const std::string& prefix) {
  WEIR_RETURN_IF_ERROR(AwaitSave());
  return WriteBundle(session, prefix, std::nullopt);
}

SaverDef Saver::Definition() const {
  return {.filename_tensor_name = save_path_.name(),
          .save_tensor_name = save_.name(),
          .restore_op_name = restore_->name(),
          .max_to_keep = options_.max_to_keep,
          .sharded = options_.sharded,
          .keep_checkpoint_every_n_hours = static_cast<float>(options_.keep_checkpoint_every_n_hours)};
}

absl::StatusOr<std::string> Saver::MetaGraph(const Graph& graph) const {
  if (!options_.write_meta_graph) return std::string();
  const SaverDef def = Definition();
  return MetaGraphBytes(graph, &def);
}

absl::Status Saver::Finish(const std::string& path, const std::string& meta_graph) {
  FileSystem& files = this->files();
  const std::string directory = DirectoryOf(path);
  if (kept_.is_empty()) {
    // What an earlier process left counts towards max_to_keep.
    WEIR_ASSIGN_OR_RETURN(std::vector<std::string> known,
                          CheckpointsIn(directory, files, options_.latest_filename));
    std::reverse(known.begin(), known.end());
    if (!known.empty()) WEIR_RETURN_IF_ERROR(TakeOver(directory, known));
  }
  CheckpointState state = kept_.Add(path, options_.clock());
  if (claim_ != nullptr) {
    WEIR_RETURN_IF_ERROR(NoteCheckpoints(state.all));
    state.written_by = claim_->life();
  }
  WEIR_RETURN_IF_ERROR(WriteCheckpointState(directory, state, files, options_.latest_filename));
  // Only now that nothing names them.
  for (const std::string& checkpoint : kept_.RemoveOutdated()) {
    if (IsIn(directory, checkpoint)) DeleteCheckpoint(checkpoint, files);
  }
  // Last, as in TensorFlow: without it the checkpoint can be restored, and it is deleted in its turn.
  if (!options_.write_meta_graph) return absl::OkStatus();
  return WriteFileAtomically(files, path + ".meta", meta_graph);
}

std::vector<std::string> Saver::LastCheckpoints() {
  JoinWriter();
  return kept_.paths();
}

absl::Status Saver::RecoverLastCheckpoints(const std::vector<std::string>& checkpoints) {
  JoinWriter();
  return checkpoints.empty() ? absl::OkStatus() : TakeOver(DirectoryOf(checkpoints.back()), checkpoints);
}

absl::Status Saver::TakeOver(const std::string& directory, const std::vector<std::string>& checkpoints) {
  FileSystem& files = *options_.file_system;
  // For the times, and when one was kept for good.
  absl::StatusOr<CheckpointState> known = ReadNewestState(directory, files, options_.latest_filename);
  if (!known.ok() && !absl::IsNotFound(known.status())) return known.status();
  CheckpointState state;
  for (const std::string& checkpoint : checkpoints) {
    WEIR_ASSIGN_OR_RETURN(const bool is_there, IsThere(files, checkpoint + ".index"));
    if (!is_there) continue;
    state.all.push_back(checkpoint);
    double timestamp = 0;
    for (size_t i = 0; known.ok() && i < known->timestamps.size(); ++i) {
      if (known->all[i] == checkpoint) timestamp = known->timestamps[i];
    }
    state.timestamps.push_back(timestamp);
  }
  if (known.ok()) state.last_preserved_timestamp = known->last_preserved_timestamp;
  kept_.Recover(state);
  return absl::OkStatus();
}

absl::Status Saver::Restore(Session& session, const std::string& checkpoint) {
  JoinWriter();
  applied_updates_.clear();
  const absl::StatusOr<std::unique_ptr<BundleReader>> reader =
      BundleReader::Open(checkpoint, *options_.file_system);
  if (reader.ok()) {
    BeginEra(**reader);
    WEIR_RETURN_IF_ERROR(ReadAppliedUpdates(**reader));
    WEIR_ASSIGN_OR_RETURN(const std::vector<bool> is_there, FindIn(**reader, variables_));
    if (std::count(is_there.begin(), is_there.end(), false) > 0) {
      return RestoreFound(session, **reader, is_there);
    }
  }
  // What cannot be read here may be there for the device that restores; otherwise its error is the same.
  return session.Run({{save_path_, Tensor::Scalar(checkpoint)}}, {}, {restore_}).status();
}

absl::Status Saver::ReadAppliedUpdates(const BundleReader& reader) {
  const BundleEntry* const entry = reader.Find(kAppliedUpdates);
  if (entry == nullptr) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const Tensor text, reader.Read(kAppliedUpdates));
  if (text.dtype() != DType::kString || text.num_elements() != 1) {
    return absl::DataLossError(absl::StrCat("tensor '", kAppliedUpdates, "' of checkpoint ", reader.prefix(),
                                            " is ", TypeString(text.dtype(), text.shape()),
                                            " and not one string"));
  }
  const absl::Status known = AppliedUpdates::Decode(text.scalar<std::string>()).status();
  if (!known.ok()) {
    return absl::DataLossError(absl::StrCat("tensor '", kAppliedUpdates, "' of checkpoint ", reader.prefix(),
                                            ": ", known.message()));
  }
  applied_updates_ = text.scalar<std::string>();
  return absl::OkStatus();
}

absl::Status Saver::RestoreFound(Session& session, const BundleReader& reader,
                                 const std::vector<bool>& is_there) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!is_there[i]) missing.push_back(variables_[i].name);
  }
  const std::string message =
      absl::StrCat("the checkpoint ", reader.prefix(), " has no tensor ", QuotedNames(missing), " (",
                   missing.size(), " of ", variables_.size(), " variables)");
  if (!options_.allow_missing) {
    return absl::NotFoundError(absl::StrCat(message, "; it has ", QuotedNames(reader.names())));
  }
  PrintNotice(absl::StrCat(message, ": they keep their values"));
  Feeds feeds;
  std::vector<TargetRef> assigns;
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (!is_there[i]) continue;
    Tensor value;
    if (variables_[i].slice.empty()) {
      WEIR_ASSIGN_OR_RETURN(value, reader.Read(variables_[i].name));
    } else {
      WEIR_ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(variables_[i].slice));
      WEIR_ASSIGN_OR_RETURN(const TensorSlice slice, part.slice.WithinShape(part.full_shape));
      WEIR_ASSIGN_OR_RETURN(value, reader.ReadSlice(variables_[i].name, slice));
    }
    feeds.push_back({restored_[i], std::move(value)});
    assigns.push_back(assigns_[i]);
  }
  return assigns.empty() ? absl::OkStatus() : session.Run(feeds, {}, assigns).status();
}

absl::StatusOr<std::string> Saver::RestoreNewest(Session& session, const std::string& directory) {
  JoinWriter();
  FileSystem& files = *options_.file_system;
  absl::StatusOr<CheckpointState> state = ReadNewestState(directory, files, options_.latest_filename);
  if (absl::IsNotFound(state.status())) {
    WEIR_ASSIGN_OR_RETURN(const bool is_there, IsThere(files, JoinPath(directory, options_.latest_filename)));
    if (is_there) return state.status();
    // A link whose target was moved away is no folder that never had a checkpoint: training must not begin
    // anew there.
    const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(directory);
    if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
    if (!names.ok() || std::find(names->begin(), names->end(), options_.latest_filename) == names->end()) {
      return absl::NotFoundError(absl::StrCat(directory, " has no checkpoint"));
    }
    return absl::DataLossError(
        absl::StrCat(JoinPath(directory, options_.latest_filename), " is a link to nothing"));
  }
  if (!state.ok()) return state.status();
  WEIR_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(directory, files));
  WEIR_ASSIGN_OR_RETURN(std::vector<std::string> checkpoints,
                        CheckpointsIn(directory, files, options_.latest_filename));
  absl::Status first_error;
  if (checkpoints.empty() || checkpoints.front() != state->newest) {
    // Somebody has deleted it.
    first_error = absl::DataLossError(absl::StrCat(JoinPath(directory, options_.latest_filename), " names ",
                                                   state->newest, ", which is not there"));
    PrintNotice(first_error.message());
  }
  for (const std::string& checkpoint : checkpoints) {
    absl::Status status = CheckNotReplaced(checkpoint, manifest, files);
    if (status.ok()) status = Restore(session, checkpoint);
    if (status.ok()) return checkpoint;
    // Only damage of the files leads back: a variable that is missing or has another shape is a mistake in
    // the model.
    if (!absl::IsDataLoss(status)) {
      WEIR_ASSIGN_OR_RETURN(const bool is_there, IsThere(files, checkpoint + ".index"));
      if (is_there) return status;
    }
    PrintNotice(absl::StrCat("checkpoint ", checkpoint, " cannot be restored: ", status.message()));
    if (first_error.ok()) first_error = status;
  }
  return absl::DataLossError(
      absl::StrCat("no checkpoint of ", directory, " can be restored; the newest: ", first_error.message()));
}

absl::StatusOr<std::vector<std::string>> CheckpointsIn(const std::string& directory, FileSystem& file_system,
                                                       absl::string_view latest_filename) {
  absl::StatusOr<CheckpointState> state = ReadNewestState(directory, file_system, latest_filename);
  if (absl::IsNotFound(state.status())) return std::vector<std::string>();
  if (!state.ok()) return state.status();
  // The newest is mostly the last of them, but need not be.
  std::vector<std::string> result(state->all.rbegin(), state->all.rend());
  result.erase(std::remove(result.begin(), result.end(), state->newest), result.end());
  result.insert(result.begin(), state->newest);
  std::vector<std::string> found;
  for (std::string& checkpoint : result) {
    WEIR_ASSIGN_OR_RETURN(const bool is_there, IsThere(file_system, checkpoint + ".index"));
    if (is_there) found.push_back(std::move(checkpoint));
  }
  return found;
}

}  // namespace weir
