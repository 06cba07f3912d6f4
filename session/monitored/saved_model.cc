#include "session/monitored/saved_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/interchange/saved_model.h"
#include "graph/nearest_names.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/bundle_reader.h"

namespace weir {
namespace {

constexpr char kBinaryFile[] = "saved_model.pb";
constexpr char kTextFile[] = "saved_model.pbtxt";
constexpr char kAssets[] = "assets";
// Where TensorFlow says which op runs first: a signature with one output, in models of its second version; a
// collection, in older ones.
constexpr char kInitializerSignature[] = "__saved_model_init_op";
constexpr char kMainOp[] = "saved_model_main_op";
constexpr char kLegacyInitOp[] = "legacy_init_op";

std::string VariablesPrefix(const std::string& directory) {
  return JoinPath(JoinPath(directory, "variables"), "variables");
}

absl::Status In(absl::string_view place, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
}

// A path below the folder, without a way out of it.
bool IsInside(absl::string_view filename) {
  const std::vector<absl::string_view> parts = absl::StrSplit(filename, '/');
  return std::none_of(parts.begin(), parts.end(),
                      [](absl::string_view part) { return part.empty() || part == "." || part == ".."; });
}

std::vector<absl::string_view> KeysOf(const std::map<std::string, SignatureTensor>& tensors) {
  std::vector<absl::string_view> keys;
  for (const auto& [key, tensor] : tensors) keys.push_back(key);
  return keys;
}

absl::Status CheckInput(const std::string& key, const SignatureTensor& expected, const Tensor& value) {
  const bool has_dtype = expected.dtype == DType::kInvalid || value.dtype() == expected.dtype;
  if (has_dtype && expected.shape.IsCompatibleWith(value.shape())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input '", key, "' must be ",
                                                 TypeString(expected.dtype, expected.shape), ", is ",
                                                 TypeString(value.dtype(), value.shape())));
}

}  // namespace

SavedModel::SavedModel(std::string directory, const SavedModelOptions& options)
    : directory_(std::move(directory)), options_(options) {}

absl::StatusOr<std::unique_ptr<SavedModel>> SavedModel::Read(const std::string& directory,
                                                             const OpRegistry& ops,
                                                             const SavedModelOptions& options) {
  std::unique_ptr<SavedModel> model(new SavedModel(directory, options));
  std::string path = JoinPath(directory, kBinaryFile);
  MessageForm form = MessageForm::kBytes;
  if (!options.file_system->Exists(path) && options.file_system->Exists(JoinPath(directory, kTextFile))) {
    path = JoinPath(directory, kTextFile);
    form = MessageForm::kText;
  }
  WEIR_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(*options.file_system, path));
  absl::StatusOr<MetaGraph> meta_graph =
      MetaGraphFromSavedModel(content, form, options.tags, ops, {.skipped = &model->skipped_});
  if (!meta_graph.ok()) return In(path, meta_graph.status());
  model->meta_graph_ = *std::move(meta_graph);
  return model;
}

absl::Status SavedModel::Restore(Session& session) const {
  WEIR_RETURN_IF_ERROR(RestoreVariables(session));
  return RunInitializer(session);
}

absl::Status SavedModel::RestoreVariables(Session& session) const {
  const std::string prefix = VariablesPrefix(directory_);
  const size_t num_variables = graph().variables().size();
  if (!BundleExists(prefix, *options_.file_system)) {
    if (num_variables == 0) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(prefix, ".index: no such file, but the graph of ", directory_,
                                            " has ", num_variables, " variables"));
  }
  const std::optional<SaverDef>& saver = meta_graph_.saver;
  if (!saver || saver->restore_op_name.empty() || saver->filename_tensor_name.empty()) {
    if (num_variables == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        directory_, ": its MetaGraphDef names no op that restores its ", num_variables, " variables"));
  }
  return session.Run({{saver->filename_tensor_name, Tensor::Scalar(prefix)}}, {}, {saver->restore_op_name})
      .status();
}

absl::Status SavedModel::RunInitializer(Session& session) const {
  WEIR_ASSIGN_OR_RETURN(const std::string initializer, Initializer());
  if (initializer.empty()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const Feeds assets, AssetPaths());
  return session.Run(assets, {}, {initializer}).status();
}

absl::StatusOr<std::string> SavedModel::Initializer() const {
  if (const auto found = signatures().find(kInitializerSignature); found != signatures().end()) {
    const auto& outputs = found->second.outputs;
    const auto output = outputs.find(kInitializerSignature);
    if (output == outputs.end() || output->second.name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(directory_, ": the signature '", kInitializerSignature, "' names no op"));
    }
    return output->second.name;
  }
  for (const char* collection : {kMainOp, kLegacyInitOp}) {
    const auto found = graph().collections().find(collection);
    if (found == graph().collections().end() || found->second.empty()) continue;
    if (found->second.size() == 1) return found->second[0];
    return absl::InvalidArgumentError(absl::StrCat(directory_, ": the collection ", collection, " has ",
                                                   found->second.size(), " ops, must have one"));
  }
  return std::string();
}

absl::StatusOr<Feeds> SavedModel::AssetPaths() const {
  Feeds feeds;
  for (const AssetFile& asset : meta_graph_.assets) {
    if (!IsInside(asset.filename)) {
      return absl::InvalidArgumentError(
          absl::StrCat(directory_, ": the asset '", asset.filename, "' is no file in its folder assets"));
    }
    const std::string path = JoinPath(JoinPath(directory_, kAssets), asset.filename);
    WEIR_RETURN_IF_ERROR(options_.file_system->FileSize(path).status());
    feeds.push_back({asset.tensor_name, Tensor::Scalar(path)});
  }
  return feeds;
}

absl::StatusOr<std::map<std::string, Tensor>> SavedModel::Run(
    Session& session, const std::string& name, const std::map<std::string, Tensor>& inputs) const {
  const auto found = signatures().find(name);
  if (found == signatures().end()) {
    std::vector<absl::string_view> known;
    for (const auto& [other, signature] : signatures()) known.push_back(other);
    return absl::NotFoundError(
        absl::StrCat(directory_, " has no signature '", name, "'", DidYouMean(name, known)));
  }
  const Signature& signature = found->second;
  const std::string what = absl::StrCat("the signature '", name, "'");
  WEIR_RETURN_IF_ERROR(CheckSignature(signature, what, graph()));
  const absl::StatusOr<Feeds> feeds = FeedsOf(signature, inputs);
  if (!feeds.ok()) return In(what, feeds.status());
  std::vector<TensorRef> fetches;
  for (const auto& [key, output] : signature.outputs) fetches.push_back(output.name);
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values, session.Run(*feeds, fetches));
  std::map<std::string, Tensor> outputs;
  size_t next = 0;
  for (const auto& [key, output] : signature.outputs) outputs.emplace(key, std::move(values[next++]));
  return outputs;
}

absl::StatusOr<Feeds> SavedModel::FeedsOf(const Signature& signature,
                                          const std::map<std::string, Tensor>& inputs) const {
  for (const auto& [key, value] : inputs) {
    if (signature.inputs.contains(key)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("has no input '", key, "'", DidYouMean(key, KeysOf(signature.inputs))));
  }
  Feeds feeds;
  for (const auto& [key, expected] : signature.inputs) {
    auto value = inputs.find(key);
    if (value == inputs.end()) {
      value = signature.defaults.find(key);
      if (value == signature.defaults.end()) {
        return absl::InvalidArgumentError(absl::StrCat("its input '", key, "' is not given (it takes ",
                                                       absl::StrJoin(KeysOf(signature.inputs), ", "), ")"));
      }
    }
    WEIR_RETURN_IF_ERROR(CheckInput(key, expected, value->second));
    feeds.push_back({expected.name, value->second});
  }
  return feeds;
}

namespace {

absl::Status CheckContent(const std::string& directory, const Graph& graph,
                          const SavedModelContent& content) {
  for (const char* file : {kBinaryFile, kTextFile}) {
    const std::string path = JoinPath(directory, file);
    if (content.file_system->Exists(path))
      return absl::AlreadyExistsError(absl::StrCat(path, " exists already"));
  }
  if (content.tags.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(directory, ": a SavedModel needs a tag, such as 'serve'"));
  }
  for (const auto& [name, signature] : content.signatures) {
    WEIR_RETURN_IF_ERROR(CheckSignature(signature, absl::StrCat("the signature '", name, "'"), graph));
  }
  std::map<std::string, std::string> sources;
  for (const auto& [tensor, path] : content.assets) {
    WEIR_RETURN_IF_ERROR(graph.FindValue(tensor).status());
    WEIR_RETURN_IF_ERROR(content.file_system->FileSize(path).status());
    const auto [place, is_new] = sources.emplace(FileNameOf(path), path);
    if (is_new || place->second == path) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the assets ", place->second, " and ", path, " would have one name in the model"));
  }
  return absl::OkStatus();
}

MetaGraph DescriptionOf(const Saver* saver, const SavedModelContent& content) {
  MetaGraph description;
  if (saver != nullptr) description.saver = saver->Definition();
  description.tags = content.tags;
  description.signatures = content.signatures;
  for (const auto& [tensor, path] : content.assets) description.assets.push_back({tensor, FileNameOf(path)});
  if (content.initializer != nullptr) {
    Signature& initializer = description.signatures[kInitializerSignature];
    initializer.method_name = "";
    initializer.outputs[kInitializerSignature].name = content.initializer->name();
  }
  return description;
}

absl::Status CopyAssets(const std::string& directory, const SavedModelContent& content) {
  if (content.assets.empty()) return absl::OkStatus();
  FileSystem& files = *content.file_system;
  const std::string folder = JoinPath(directory, kAssets);
  WEIR_RETURN_IF_ERROR(CreateDurableDirectories(files, folder));
  for (const auto& [tensor, path] : content.assets) {
    WEIR_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(files, path));
    WEIR_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(folder, FileNameOf(path)), bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSavedModel(const std::string& directory, Session& session, Saver* saver,
                             const SavedModelContent& content) {
  WEIR_RETURN_IF_ERROR(CheckContent(directory, session.graph(), content));
  WEIR_ASSIGN_OR_RETURN(
      const std::string bytes,
      SavedModelBytes(session.graph(), DescriptionOf(saver, content), content.clear_devices));
  FileSystem& files = *content.file_system;
  WEIR_RETURN_IF_ERROR(CreateDurableDirectories(files, directory));
  WEIR_RETURN_IF_ERROR(CopyAssets(directory, content));
  if (saver != nullptr) {
    const std::string prefix = VariablesPrefix(directory);
    WEIR_RETURN_IF_ERROR(CreateDurableDirectories(files, DirectoryOf(prefix)));
    WEIR_RETURN_IF_ERROR(saver->Export(session, prefix));
  }
  return WriteFileAtomically(files, JoinPath(directory, kBinaryFile), bytes);
}

}  // namespace weir
