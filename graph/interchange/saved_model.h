// TensorFlow's message SavedModel, the file saved_model.pb: one or more MetaGraphDefs, told apart by their
// tags ("serve", "train"). session/monitored/saved_model.h reads and writes the folder.
//
// Functions without state; safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/interchange/meta_graph.h"

namespace weir {

enum class MessageForm { kBytes, kText };

// The MetaGraphDef whose tags are these, in any order. NotFound, listing the tags that the file has, for
// none; InvalidArgument for bytes that do not parse or a later version of the format; the errors of
// ImportMetaGraph.
absl::StatusOr<MetaGraph> MetaGraphFromSavedModel(absl::string_view content, MessageForm form,
                                                  const std::vector<std::string>& tags, const OpRegistry& ops,
                                                  const ImportOptions& options = {});

// A message with one MetaGraphDef: the graph, with what stands beside it in `description`, whose own graph is
// not looked at. `clear_devices`: its nodes ask for no devices. Errors are those of ExportMetaGraph.
absl::StatusOr<std::string> SavedModelBytes(const Graph& graph, const MetaGraph& description,
                                            bool clear_devices = false);

}  // namespace weir
