// Saves and restores the variables of a graph as TensorFlow V2 checkpoints (tf.train.Saver).
//
// Build adds save and restore nodes to the graph; Save and Restore run them. Both run on the device that the
// builder's scopes and device setter give them: with ReplicaDeviceSetter, on this worker, so variables of ps
// tasks travel here and no disk is shared. A sharded saver's nodes run where the variables are: each device
// writes and reads a shard of its own, which needs a disk that all of them share. Files: PREFIX-STEP.index,
// PREFIX-STEP.data-*, PREFIX-STEP.meta and the text file `checkpoint`, which tf.train.load_checkpoint and
// tf.train.Saver read.
//
// Atomic: a checkpoint exists whole and fsync'ed under its name, or not at all; `checkpoint` names it only
// after that; older ones are deleted only after that.
//
// Asynchronous: StartSave reads the variables in one step and returns; a thread of the saver writes the files
// while training goes on. Values of this process are not copied: they share the variables' buffers, and an
// update meanwhile copies what it changes (kernels/variable.h). So one save takes at most as much memory
// again as the variables do, and there is one at a time.
//
// A variable with a copy on each of several devices (ops/mirrored_variables.h) is saved once, and restored to
// all of them.
//
// Exactly once: where variables are on other tasks, the checkpoint also has what steps that may be tried
// again have applied to them (session/executor/update_ledger.h), as a tensor "_weir/applied_updates", which
// other readers leave alone. Not that of a sharded saver, or one whose save nodes are on another task: the
// step that was lost with a ps may be applied twice then.
//
// Thread safety: one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "graph/graph_builder.h"
#include "graph/interchange/meta_graph.h"
#include "kernels/formats/file_system.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/checkpoint_manifest.h"
#include "session/monitored/kept_checkpoints.h"
#include "session/monitored/saved_variables.h"
#include "session/session.h"

namespace weir {

struct SaverOptions {
  // Which variables, by their names in the graph. Empty: all.
  std::vector<std::string> variables;
  // Instead: names in checkpoints, and the variable that each stands for: {{"old/kernel", "dense/kernel"}}.
  std::map<std::string, std::string> renamed;
  // One shard for each device that has variables. Not for asynchronous saving.
  bool sharded = false;
  // Whether Restore leaves a variable as it is that the checkpoint does not have, and names it on stderr.
  // Otherwise that is an error.
  bool allow_missing = false;
  // Older checkpoints are deleted, those of other folders are only forgotten. 0 deletes none, and
  // `checkpoint` names only the newest. At most kMostToKeep: that file must name them all.
  static constexpr int kMostToKeep = 10'000;
  int max_to_keep = 5;
  // One of the older ones is kept for good every so many hours.
  double keep_checkpoint_every_n_hours = 10000;
  // Also write PREFIX-STEP.meta, the graph with this saver's nodes, from which tf.train.import_meta_graph
  // rebuilds both.
  bool write_meta_graph = true;
  // The name of the file `checkpoint`, for several savers in one folder.
  std::string latest_filename = "checkpoint";
  // Where `checkpoint` and PREFIX-STEP.meta are written and old checkpoints are deleted. The variables' bytes
  // go through the save node's device, or, when saving asynchronously, through this.
  FileSystem* file_system = &PosixFileSystem();
  std::function<absl::Time()> clock = absl::Now;
};

class Saver {
 public:
  // Covers the variables the graph has now. Errors: those of FindSavedVariables; InvalidArgument for a
  // latest_filename with a folder, or a max_to_keep that is negative or too large.
  static absl::StatusOr<std::unique_ptr<Saver>> Build(GraphBuilder& graph, const SaverOptions& options = {});
  // Waits for the save that runs.
  ~Saver();

  // From now on checkpoints are written beside their name and get it only while the claim, of the folder that
  // is saved to, is the newest; otherwise Save returns an error for which IsSuperseded (exit_code.h) holds.
  // Then checkpoints also say their origin, and the claim which there are (checkpoint_manifest.h), but for
  // those that were replaced. Errors of CheckpointsIn, of the disk, and of CheckpointClaim::Note.
  absl::Status SetClaim(std::shared_ptr<CheckpointClaim> claim);

  // Writes PREFIX-STEP, or PREFIX without a step, and returns that path. On error everything is there that
  // was there before; what was written for PREFIX-STEP counts as a checkpoint from then on and is deleted in
  // its turn. Possible errors: that of the asynchronous save before; those of a step; ResourceExhausted (disk
  // full), naming the file; InvalidArgument when the path is that of the file `checkpoint`.
  absl::StatusOr<std::string> Save(Session& session, const std::string& prefix,
                                   std::optional<int64_t> global_step = std::nullopt);

  // The same, but returns when the values are read: the path is that of a checkpoint once AwaitSave has
  // returned OK. Waits for the save before; when that has failed, its error is returned and nothing is begun.
  // InvalidArgument for a sharded saver, whose variables are not here.
  absl::StatusOr<std::string> StartSave(Session& session, const std::string& prefix,
                                        std::optional<int64_t> global_step = std::nullopt);
  // Waits for the save that runs, and returns its error, once.
  absl::Status AwaitSave();
  // True while the thread writes: AwaitSave would wait.
  bool is_saving() const { return is_saving_.load(std::memory_order_acquire); }

  // Writes the values at PREFIX, and nothing else: nothing is named, kept or deleted. Errors are those of
  // Save.
  absl::Status Export(Session& session, const std::string& prefix);
  // The saver's nodes and policy, as a MetaGraphDef has them.
  SaverDef Definition() const;

  // Sets every variable from the checkpoint. NotFound (no such checkpoint, or it lacks variables, which are
  // named), DataLoss (damaged), InvalidArgument (a dtype or shape differs, naming both). Nothing has been set
  // when the checkpoint's index can be read here; otherwise variables may have been set in part.
  absl::Status Restore(Session& session, const std::string& checkpoint);

  // Restores the newest good checkpoint of the directory: a damaged one is named on stderr and the one before
  // it is tried, and so is one whose files are gone. Returns its path; NotFound when the directory has no
  // file `checkpoint`; DataLoss when all that this file names are damaged or gone; errors of the disk, of
  // which it does not follow that a file is not there.
  absl::StatusOr<std::string> RestoreNewest(Session& session, const std::string& directory);

  // Of the checkpoint that was restored last, for Session::Restore; empty when it has none, or cannot be read
  // here.
  const std::string& applied_updates() const { return applied_updates_; }
  bool allows_missing() const { return options_.allow_missing; }
  FileSystem& file_system() const { return *options_.file_system; }
  // What checkpoints are written through: the same, or the claim, which refuses what a later chief forbids.
  FileSystem& files() const { return claim_ != nullptr ? *claim_ : *options_.file_system; }
  const std::string& latest_filename() const { return options_.latest_filename; }
  // Those that are not deleted yet, oldest first. Waits for the save that runs.
  std::vector<std::string> LastCheckpoints();
  // Takes these, oldest first, over as checkpoints of its own, as a saver does by itself with those that the
  // file `checkpoint` of the folder it saves to names. Those that do not exist are left out.
  absl::Status RecoverLastCheckpoints(const std::vector<std::string>& checkpoints);

 private:
  explicit Saver(const SaverOptions& options);

  // What Save and StartSave begin with: the path. The save before has ended.
  absl::StatusOr<std::string> Begin(const std::string& prefix, std::optional<int64_t> global_step);
  absl::StatusOr<std::string> MetaGraph(const Graph& graph) const;
  // The variables' values.
  struct Snapshot {
    std::vector<Tensor> values;
    std::string applied_updates;
    CheckpointOrigin origin;  // of the claim's epoch
  };
  absl::StatusOr<Snapshot> Read(Session& session, std::optional<int64_t> global_step) const;
  // Whether to save what Read gives, and not to run the save nodes.
  bool SavesSnapshot(const Session& session) const;
  absl::Status WriteBundle(const std::string& path, const Snapshot& snapshot) const;
  // Writes what stands beside the bundle, and names it.
  absl::Status Finish(const std::string& path, const std::string& meta_graph);
  // In the claim's manifest: that these are the checkpoints, oldest first.
  absl::Status NoteCheckpoints(const std::vector<std::string>& checkpoints);
  absl::Status Note(std::vector<CheckpointManifest::Entry> checkpoints);
  // As the checkpoint says, or, where that cannot be read, as the manifest's entry does; null: there is none.
  CheckpointOrigin OriginNow(const std::string& checkpoint, const CheckpointManifest::Entry* known) const;
  // After a restore.
  void BeginEra(const BundleReader& restored);
  // Counts these as its own, with the times that the folder's file `checkpoint` gives.
  absl::Status TakeOver(const std::string& directory, const std::vector<std::string>& checkpoints);
  // Runs the save nodes; the checkpoint is whole under its name afterwards.
  absl::Status WriteBundle(Session& session, const std::string& path, std::optional<int64_t> global_step);
  absl::Status RunSave(Session& session, const std::string& path);
  // Without taking its error.
  void JoinWriter();
  absl::Status ReadAppliedUpdates(const BundleReader& reader);
  absl::Status RestoreFound(Session& session, const BundleReader& reader, const std::vector<bool>& is_there);
  void BuildOnOneDevice(GraphBuilder& graph);
  void BuildSharded(GraphBuilder& graph,
                    const std::map<std::string, std::vector<size_t>>& variables_of_devices);
  // Nodes that save and restore these variables at the path, in the builder's device scope.
  Node* AddSave(GraphBuilder& graph, Output path, const std::vector<size_t>& variables);
  void AddRestore(GraphBuilder& graph, const std::vector<size_t>& variables);

  const SaverOptions options_;
  std::vector<SavedVariable> variables_;
  Output save_path_;
  Output save_;                   // the path again, once it is saved
  std::vector<Output> restored_;  // one for each variable
  std::vector<Node*> assigns_;    // likewise
  Node* restore_ = nullptr;
  int num_shards_ = 1;
  std::shared_ptr<CheckpointClaim> claim_;
  CheckpointManifest manifest_;
  int64_t era_ = 0;  // restores that the variables' values have behind them
  std::string applied_updates_;
  bool writes_elsewhere_ = false;  // the save nodes are on a machine whose disk is not this one's
  KeptCheckpoints kept_;           // those of earlier processes included

  std::thread writer_;  // joinable from StartSave on until somebody has waited
  std::atomic<bool> is_saving_{false};
  absl::Status written_;  // the writer's until it is joined
};

// Checkpoints named by the directory's `checkpoint` file (ReadNewestState) that have an index file, newest
// first. Empty when there is none. Errors of reading the file, and of the disk where that does not say
// whether an index file is there.
absl::StatusOr<std::vector<std::string>> CheckpointsIn(const std::string& directory,
                                                       FileSystem& file_system = PosixFileSystem(),
                                                       absl::string_view latest_filename = "checkpoint");

}  // namespace weir
