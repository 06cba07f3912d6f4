#include "graph/interchange/meta_graph.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/meta_graph.pb.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::tensorflow::CollectionDef;
using ::tensorflow::MetaGraphDef;

constexpr char kVariables[] = "variables";
constexpr char kTrainableVariables[] = "trainable_variables";
constexpr char kGlobalStep[] = "global_step";

std::vector<int64_t> DimsOf(const google::protobuf::RepeatedField<int64_t>& dims) {
  return std::vector<int64_t>(dims.begin(), dims.end());
}

// InvalidArgument, naming the variable, for a box that does not lie in its shape.
absl::StatusOr<VariableSlice> SliceFromProto(const tensorflow::SaveSliceInfoDef& proto,
                                             absl::string_view variable) {
  VariableSlice slice;
  slice.full_name = proto.full_name();
  slice.offset.assign(proto.var_offset().begin(), proto.var_offset().end());
  WEIR_ASSIGN_OR_RETURN(slice.full_shape, Shape::FromDims(DimsOf(proto.full_shape())));
  WEIR_ASSIGN_OR_RETURN(slice.shape, Shape::FromDims(DimsOf(proto.var_shape())));
  const int rank = slice.full_shape.rank();
  bool fits = slice.shape.rank() == rank && static_cast<int>(slice.offset.size()) == rank;
  for (int i = 0; fits && i < rank; ++i) {
    const int64_t room = slice.full_shape.dim(i) - slice.shape.dim(i);
    fits = slice.offset[i] >= 0 && slice.offset[i] <= room;
  }
  if (fits) return slice;
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", variable, "': the slice of shape ", slice.shape.ToString(), " at [",
                   absl::StrJoin(slice.offset, ","), "] does not lie in ", slice.full_shape.ToString()));
}

void SliceToProto(const VariableSlice& slice, tensorflow::SaveSliceInfoDef* proto) {
  proto->set_full_name(slice.full_name);
  for (int64_t size : slice.full_shape.dims()) proto->add_full_shape(size);
  for (int64_t begin : slice.offset) proto->add_var_offset(begin);
  for (int64_t size : slice.shape.dims()) proto->add_var_shape(size);
}

absl::StatusOr<VariableDef> VariableFromProto(const tensorflow::VariableDef& proto) {
  VariableDef variable;
  // TensorFlow's variable_name is the handle's output; checkpoints name the variable without ":0".
  variable.handle_name = proto.variable_name();
  variable.variable_name = std::string(absl::StripSuffix(proto.variable_name(), ":0"));
  variable.initializer_name = proto.initializer_name();
  variable.snapshot_name = proto.snapshot_name();
  variable.initial_value_name = proto.initial_value_name();
  variable.trainable = proto.trainable();
  if (proto.has_save_slice_info_def()) {
    WEIR_ASSIGN_OR_RETURN(variable.slice,
                          SliceFromProto(proto.save_slice_info_def(), variable.variable_name));
  }
  return variable;
}

tensorflow::VariableDef VariableToProto(const VariableDef& variable) {
  tensorflow::VariableDef proto;
  proto.set_variable_name(variable.handle_name);
  proto.set_initializer_name(variable.initializer_name);
  proto.set_snapshot_name(variable.snapshot_name);
  proto.set_initial_value_name(variable.initial_value_name);
  proto.set_trainable(variable.trainable);
  proto.set_is_resource(true);
  if (variable.slice) SliceToProto(*variable.slice, proto.mutable_save_slice_info_def());
  return proto;
}

// The records of a collection of variables.
absl::StatusOr<std::vector<tensorflow::VariableDef>> VariableRecords(const MetaGraphDef& def,
                                                                     const char* collection) {
  std::vector<tensorflow::VariableDef> records;
  const auto place = def.collection_def().find(collection);
  if (place == def.collection_def().end()) return records;
  for (const std::string& bytes : place->second.bytes_list().value()) {
    WEIR_RETURN_IF_ERROR(ParseMessageBytes(bytes, absl::StrCat("a record of the collection ", collection),
                                           &records.emplace_back()));
  }
  return records;
}

absl::StatusOr<std::vector<VariableDef>> VariablesIn(const MetaGraphDef& def, const Graph& graph) {
  WEIR_ASSIGN_OR_RETURN(const auto trainable_records, VariableRecords(def, kTrainableVariables));
  std::set<std::string> trainable, known;
  for (const auto& record : trainable_records) trainable.insert(record.variable_name());
  for (const VariableDef& variable : graph.variables()) known.insert(variable.handle_name);
  WEIR_ASSIGN_OR_RETURN(const auto records, VariableRecords(def, kVariables));
  std::vector<VariableDef> variables;
  for (const auto& record : records) {
    WEIR_ASSIGN_OR_RETURN(VariableDef variable, VariableFromProto(record));
    variables.push_back(std::move(variable));
    // Files of TensorFlow 1 say so only by the collection.
    variables.back().trainable |= trainable.count(record.variable_name()) > 0;
    if (!known.insert(record.variable_name()).second) {
      return absl::AlreadyExistsError(
          absl::StrCat("the collection ", kVariables, " has '", record.variable_name(), "' twice"));
    }
  }
  return variables;
}

void ImportCollections(const MetaGraphDef& def, Graph* graph) {
  for (const auto& [name, collection] : def.collection_def()) {
    if (collection.kind_case() != CollectionDef::kNodeList) continue;
    const auto& values = collection.node_list().value();
    std::vector<std::string>& names = graph->collections()[name];
    names.insert(names.end(), values.begin(), values.end());
  }
}

void ExportVariables(const Graph& graph, MetaGraphDef* def) {
  for (const VariableDef& variable : graph.variables()) {
    const std::string bytes = VariableToProto(variable).SerializeAsString();
    auto& collections = *def->mutable_collection_def();
    collections[kVariables].mutable_bytes_list()->add_value(bytes);
    if (variable.trainable) collections[kTrainableVariables].mutable_bytes_list()->add_value(bytes);
  }
}

// As the variable's record, which is what tf.train.get_global_step wants to find. False when it is no
// variable.
bool ExportGlobalStep(const Graph& graph, const std::vector<std::string>& names, MetaGraphDef* def) {
  for (const VariableDef& variable : graph.variables()) {
    if (names.size() != 1 || (names[0] != variable.variable_name && names[0] != variable.handle_name))
      continue;
    (*def->mutable_collection_def())[kGlobalStep].mutable_bytes_list()->add_value(
        VariableToProto(variable).SerializeAsString());
    return true;
  }
  return false;
}

void ExportCollections(const Graph& graph, MetaGraphDef* def) {
  for (const auto& [name, values] : graph.collections()) {
    if (name == kVariables || name == kTrainableVariables) continue;
    if (name == kGlobalStep && ExportGlobalStep(graph, values, def)) continue;
    auto* list = (*def->mutable_collection_def())[name].mutable_node_list();
    for (const std::string& value : values) list->add_value(value);
  }
}

SaverDef SaverFromProto(const tensorflow::SaverDef& proto) {
  return {proto.filename_tensor_name(), proto.save_tensor_name(), proto.restore_op_name(),
          proto.max_to_keep(),          proto.sharded(),          proto.keep_checkpoint_every_n_hours()};
}

void SaverToProto(const SaverDef& saver, tensorflow::SaverDef* proto) {
  proto->set_filename_tensor_name(saver.filename_tensor_name);
  proto->set_save_tensor_name(saver.save_tensor_name);
  proto->set_restore_op_name(saver.restore_op_name);
  proto->set_max_to_keep(saver.max_to_keep);
  proto->set_sharded(saver.sharded);
  proto->set_keep_checkpoint_every_n_hours(saver.keep_checkpoint_every_n_hours);
  proto->set_version(tensorflow::SaverDef::V2);
}

absl::StatusOr<std::map<std::string, Signature>> SignaturesIn(const MetaGraphDef& def) {
  std::map<std::string, Signature> signatures;
  for (const auto& [name, proto] : def.signature_def()) {
    WEIR_ASSIGN_OR_RETURN(Signature signature,
                          SignatureFromProto(proto, absl::StrCat("the signature '", name, "'")));
    signatures.emplace(name, std::move(signature));
  }
  return signatures;
}

}  // namespace

absl::StatusOr<MetaGraph> ImportMetaGraph(absl::string_view bytes, const ImportOptions& options,
                                          Graph* graph) {
  MetaGraphDef def;
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(bytes, "the MetaGraphDef", &def));
  return ImportMetaGraph(def, options, graph);
}

absl::StatusOr<MetaGraph> ImportMetaGraph(const MetaGraphDef& def, const ImportOptions& options,
                                          Graph* graph) {
  MetaGraph result;
  WEIR_ASSIGN_OR_RETURN(result.signatures, SignaturesIn(def));
  WEIR_ASSIGN_OR_RETURN(std::vector<VariableDef> variables, VariablesIn(def, *graph));
  WEIR_ASSIGN_OR_RETURN(const auto global_steps, VariableRecords(def, kGlobalStep));
  WEIR_RETURN_IF_ERROR(ImportGraphDef(def.graph_def(), options, graph));
  for (VariableDef& variable : variables) graph->variables().push_back(std::move(variable));
  ImportCollections(def, graph);
  for (const auto& record : global_steps) {
    graph->collections()[kGlobalStep].emplace_back(absl::StripSuffix(record.variable_name(), ":0"));
  }
  if (def.has_saver_def()) result.saver = SaverFromProto(def.saver_def());
  result.tags.assign(def.meta_info_def().tags().begin(), def.meta_info_def().tags().end());
  for (const auto& asset : def.asset_file_def()) {
    result.assets.push_back({asset.tensor_info().name(), asset.filename()});
  }
  return result;
}

absl::StatusOr<MetaGraph> MetaGraphFromBytes(absl::string_view bytes, const OpRegistry& ops,
                                             const ImportOptions& options) {
  auto graph = std::make_unique<Graph>(ops);
  WEIR_ASSIGN_OR_RETURN(MetaGraph result, ImportMetaGraph(bytes, options, graph.get()));
  result.graph = std::move(graph);
  return result;
}

absl::StatusOr<std::string> MetaGraphBytes(const Graph& graph, const SaverDef* saver,
                                           const ExportOptions& options) {
  MetaGraph description;
  if (saver != nullptr) description.saver = *saver;
  MetaGraphDef def;
  WEIR_RETURN_IF_ERROR(ExportMetaGraph(graph, description, options, &def));
  return MessageBytes(def, "the graph");
}

absl::Status ExportMetaGraph(const Graph& graph, const MetaGraph& description, const ExportOptions& options,
                             MetaGraphDef* def) {
  WEIR_RETURN_IF_ERROR(ExportGraphDef(graph, options, def->mutable_graph_def()));
  ExportVariables(graph, def);
  ExportCollections(graph, def);
  if (description.saver) SaverToProto(*description.saver, def->mutable_saver_def());
  for (const std::string& tag : description.tags) def->mutable_meta_info_def()->add_tags(tag);
  for (const auto& [name, signature] : description.signatures) {
    WEIR_RETURN_IF_ERROR(SignatureToProto(signature, &(*def->mutable_signature_def())[name]));
  }
  for (const AssetFile& asset : description.assets) {
    tensorflow::AssetFileDef* const proto = def->add_asset_file_def();
    proto->mutable_tensor_info()->set_name(asset.tensor_name);
    proto->mutable_tensor_info()->set_dtype(tensorflow::DT_STRING);
    proto->set_filename(asset.filename);
  }
  return absl::OkStatus();
}

}  // namespace weir
