// TensorFlow's SavedModels: a folder with a graph, signatures that say how to call it, and the values of its
// variables (tf.saved_model).
//
//   auto model = SavedModel::Read("/models/sine/1", StandardOps()).value();
//   auto session = Session::Create(model->graph(), {&worker}, runtime->kernels()).value();
//   model->Restore(*session);
//   auto outputs = model->Run(*session, "serving_default", {{"x", x}}).value();
//
// The folder has saved_model.pb (or saved_model.pbtxt, as text), variables/variables.index and .data-*, and
// the files that the graph reads in assets/. Models of TensorFlow 2 whose signatures call functions can be
// read; running those signatures is an error that names the op which Weir lacks.
//
// Thread safety: a SavedModel does not change after Read; its methods may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/interchange/meta_graph.h"
#include "kernels/formats/file_system.h"
#include "session/monitored/saver.h"
#include "session/session.h"

namespace weir {

struct SavedModelOptions {
  // Which of the model's graphs: the one with exactly these.
  std::vector<std::string> tags = {"serve"};
  FileSystem* file_system = &PosixFileSystem();
};

class SavedModel {
 public:
  // Reads the graph. Nodes that Weir cannot import are left out (skipped()). Errors: NotFound (no such file,
  // or no graph with these tags: those that there are), InvalidArgument, naming the file, for content that is
  // no SavedModel or whose graph is damaged.
  static absl::StatusOr<std::unique_ptr<SavedModel>> Read(const std::string& directory, const OpRegistry& ops,
                                                          const SavedModelOptions& options = {});

  const Graph& graph() const { return *meta_graph_.graph; }
  const std::map<std::string, Signature>& signatures() const { return meta_graph_.signatures; }
  const std::vector<SkippedNode>& skipped() const { return skipped_; }

  // Sets the variables, then runs what the model runs before it is called (it fills tables, for example), fed
  // with the paths of its assets. `session` is one over graph(). Errors: NotFound for files of the folder
  // that are missing; InvalidArgument for an asset outside of the folder; DataLoss for damaged values; those
  // of a step.
  absl::Status Restore(Session& session) const;

  // One call. Errors: NotFound for a signature that the model does not have (with the nearest names);
  // InvalidArgument for inputs that it does not take, that are missing, or have another dtype or shape;
  // those of a step.
  absl::StatusOr<std::map<std::string, Tensor>> Run(Session& session, const std::string& signature,
                                                    const std::map<std::string, Tensor>& inputs) const;

 private:
  SavedModel(std::string directory, const SavedModelOptions& options);
  absl::Status RestoreVariables(Session& session) const;
  absl::Status RunInitializer(Session& session) const;
  absl::StatusOr<Feeds> AssetPaths() const;
  // The name of the op that the model runs before it is called; empty when there is none.
  absl::StatusOr<std::string> Initializer() const;
  absl::StatusOr<Feeds> FeedsOf(const Signature& signature,
                                const std::map<std::string, Tensor>& inputs) const;

  const std::string directory_;
  const SavedModelOptions options_;
  MetaGraph meta_graph_;
  std::vector<SkippedNode> skipped_;
};

struct SavedModelContent {
  std::vector<std::string> tags = {"serve"};
  // By name; "serving_default" is the one that callers get who ask for none.
  std::map<std::string, Signature> signatures;
  // Runs after the variables are set, whenever the model is loaded; may be null.
  Node* initializer = nullptr;
  // Files that the initializer reads, such as vocabularies, by the string tensor that holds the path. They
  // are copied to the model, and their new path is fed to the tensor where the model is loaded.
  std::map<std::string, std::string> assets;
  // Whether the nodes shall ask for no devices: those of a cluster are not where the model is loaded.
  bool clear_devices = false;
  FileSystem* file_system = &PosixFileSystem();
};

// Writes a SavedModel that TensorFlow loads, too: the session's graph, the values of the saver's variables,
// and `content`. `saver` may be null for a graph without variables. The file saved_model.pb comes last, when
// all others are there. Errors: AlreadyExists when the folder has one; InvalidArgument for no tags, a
// signature that does not fit the graph, or two assets of one name; NotFound for a name that the graph does
// not have, or an asset that does not exist; those of Saver::Save.
absl::Status WriteSavedModel(const std::string& directory, Session& session, Saver* saver,
                             const SavedModelContent& content);

}  // namespace weir
