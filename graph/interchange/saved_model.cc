#include "graph/interchange/saved_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/saved_model.pb.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::tensorflow::MetaGraphDef;

constexpr int kSchemaVersion = 1;
// Names in error texts: the file may have any number.
constexpr size_t kMaxNames = 10;

std::string TagsToString(const std::set<std::string>& tags) {
  return absl::StrCat("[", absl::StrJoin(tags, ", "), "]");
}

std::set<std::string> TagsOf(const MetaGraphDef& def) {
  return {def.meta_info_def().tags().begin(), def.meta_info_def().tags().end()};
}

absl::StatusOr<const MetaGraphDef*> FindTagged(const tensorflow::SavedModel& model,
                                               const std::vector<std::string>& tags) {
  const std::set<std::string> wanted(tags.begin(), tags.end());
  std::vector<std::string> known;
  for (const MetaGraphDef& def : model.meta_graphs()) {
    const std::set<std::string> found = TagsOf(def);
    if (found == wanted) return &def;
    if (known.size() < kMaxNames) known.push_back(TagsToString(found));
  }
  return absl::NotFoundError(absl::StrCat("no MetaGraphDef has the tags ", TagsToString(wanted),
                                          "; there are ", model.meta_graphs_size(), ": ",
                                          absl::StrJoin(known, ", ")));
}

}  // namespace

absl::StatusOr<MetaGraph> MetaGraphFromSavedModel(absl::string_view content, MessageForm form,
                                                  const std::vector<std::string>& tags, const OpRegistry& ops,
                                                  const ImportOptions& options) {
  tensorflow::SavedModel model;
  constexpr absl::string_view kWhat = "the SavedModel";
  if (form == MessageForm::kText) {
    WEIR_RETURN_IF_ERROR(ParseMessageText(std::string(content), kWhat, &model));
  } else {
    WEIR_RETURN_IF_ERROR(ParseMessageBytes(content, kWhat, &model));
  }
  if (model.saved_model_schema_version() > kSchemaVersion) {
    return absl::InvalidArgumentError(absl::StrCat("the SavedModel has version ",
                                                   model.saved_model_schema_version(),
                                                   " of the format, this reads up to ", kSchemaVersion));
  }
  WEIR_ASSIGN_OR_RETURN(const MetaGraphDef* def, FindTagged(model, tags));
  auto graph = std::make_unique<Graph>(ops);
  WEIR_ASSIGN_OR_RETURN(MetaGraph result, ImportMetaGraph(*def, options, graph.get()));
  result.graph = std::move(graph);
  return result;
}

absl::StatusOr<std::string> SavedModelBytes(const Graph& graph, const MetaGraph& description,
                                            bool clear_devices) {
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(kSchemaVersion);
  MetaGraphDef* const def = model.add_meta_graphs();
  WEIR_RETURN_IF_ERROR(ExportMetaGraph(graph, description, {}, def));
  if (clear_devices) {
    for (tensorflow::NodeDef& node : *def->mutable_graph_def()->mutable_node()) node.clear_device();
  }
  return MessageBytes(model, "the graph");
}

}  // namespace weir
