// Saves and restores the variables of a graph as TensorFlow V2 checkpoints.
//
// Build adds save and restore nodes to the graph; Save and Restore run them. Both run on the device that the
// builder's scopes and device setter give them: with ReplicaDeviceSetter, on this worker, so variables of ps
// tasks travel here and no disk is shared. Files: PREFIX-STEP.index, PREFIX-STEP.data-*, PREFIX-STEP.meta and
// the text file `checkpoint`, which tf.train.load_checkpoint and tf.train.Saver read.
//
// Atomic: a checkpoint exists whole and fsync'ed under its name, or not at all; `checkpoint` names it only
// after that; older ones are deleted only after that. Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph_builder.h"
#include "kernels/formats/file_system.h"
#include "session/session.h"

namespace weir {

struct SaverOptions {
  // Older checkpoints are deleted, those of other folders are only forgotten; 0 keeps all.
  int max_to_keep = 5;
  // Also write PREFIX-STEP.meta, the graph with this saver's nodes, from which tf.train.import_meta_graph
  // rebuilds both.
  bool write_meta_graph = true;
  // Where `checkpoint` and PREFIX-STEP.meta are written and old checkpoints are deleted. The variables' bytes
  // go through the save node's device.
  FileSystem* file_system = &PosixFileSystem();
};

class Saver {
 public:
  // Covers the variables the graph has now. InvalidArgument when it has none.
  static absl::StatusOr<std::unique_ptr<Saver>> Build(GraphBuilder& graph, const SaverOptions& options = {});

  // Writes PREFIX-STEP and returns that path. On error everything is there that was there before; what was
  // written for PREFIX-STEP counts as a checkpoint from then on and is deleted in its turn.
  // Possible errors: those of a step; ResourceExhausted (disk full), naming the file.
  absl::StatusOr<std::string> Save(Session& session, const std::string& prefix, int64_t global_step);

  // Sets every variable from the checkpoint. NotFound (no such checkpoint, or a variable is not in it),
  // DataLoss (damaged), InvalidArgument (a shape differs); variables may then have been set in part.
  absl::Status Restore(Session& session, const std::string& checkpoint);

  // Restores the newest good checkpoint of the directory: a damaged one is named on stderr and the one before
  // it is tried, and so is one whose files are gone. Returns its path; NotFound when the directory has no
  // file `checkpoint`; DataLoss when all that this file names are damaged or gone.
  absl::StatusOr<std::string> RestoreNewest(Session& session, const std::string& directory);

 private:
  Saver() = default;

  absl::Status WriteMetaGraph(const Graph& graph, const std::string& path) const;

  SaverOptions options_;
  Output save_path_;
  Output save_;  // the path again, once it is saved
  Node* restore_ = nullptr;
  std::vector<std::string> kept_;  // oldest first, those of earlier processes included
};

// Checkpoints named by the directory's `checkpoint` file that have an index file, newest first. Empty when
// there is none.
absl::StatusOr<std::vector<std::string>> CheckpointsIn(const std::string& directory,
                                                       FileSystem& file_system = PosixFileSystem());

}  // namespace weir
