// A graph with what Python's Saver and TensorBoard expect beside it: TensorFlow's MetaGraphDef, the .meta
// file of a checkpoint and a part of a SavedModel.
//
// Imported and exported: the graph, the saver's node names, the tags, signatures and assets, the model's
// variables (collections "variables" and "trainable_variables"), the global step (by its variable's name) and
// every collection of node names. Collections of other kinds (contexts of control flow, numbers, queue
// runners) are not kept.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/signature.h"

namespace tensorflow {
class MetaGraphDef;
}  // namespace tensorflow

namespace weir {

// The nodes of the graph that save and restore, and the saver's policy.
struct SaverDef {
  std::string filename_tensor_name;  // fed with a checkpoint's prefix: "save/Const:0"
  std::string save_tensor_name;      // fetched to save: "save/control_dependency:0"
  std::string restore_op_name;       // run to restore: "save/restore_all"
  int max_to_keep = 5;
  bool sharded = false;
  float keep_checkpoint_every_n_hours = 10000;
};

// A file that belongs to the model, such as a vocabulary. Its path is fed to the tensor.
struct AssetFile {
  std::string tensor_name;
  std::string filename;  // without the folder
};

struct MetaGraph {
  std::unique_ptr<Graph> graph;
  std::optional<SaverDef> saver;
  std::vector<std::string> tags;
  std::map<std::string, Signature> signatures;
  std::vector<AssetFile> assets;
};

// Adds the graph, its variables and its collections to *graph (tf.train.import_meta_graph), which a
// GraphBuilder may own and go on building. MetaGraph::graph stays null. Errors are those of ImportGraphDef;
// also InvalidArgument for a variable's record or a signature that cannot be read, AlreadyExists for a
// variable that is there already. On an error nothing is added.
absl::StatusOr<MetaGraph> ImportMetaGraph(absl::string_view bytes, const ImportOptions& options,
                                          Graph* graph);
absl::StatusOr<MetaGraph> ImportMetaGraph(const tensorflow::MetaGraphDef& def, const ImportOptions& options,
                                          Graph* graph);

// The same as a graph of its own.
absl::StatusOr<MetaGraph> MetaGraphFromBytes(absl::string_view bytes, const OpRegistry& ops,
                                             const ImportOptions& options = {});

// A message that tf.train.import_meta_graph reads. `saver` may be null.
absl::StatusOr<std::string> MetaGraphBytes(const Graph& graph, const SaverDef* saver,
                                           const ExportOptions& options = {});

// The graph, with what stands beside it in `description`, whose own graph is not looked at. Errors are those
// of ExportGraphDef, and InvalidArgument for a default value of a signature that no message can hold.
absl::Status ExportMetaGraph(const Graph& graph, const MetaGraph& description, const ExportOptions& options,
                             tensorflow::MetaGraphDef* def);

}  // namespace weir
