// Saves checkpoints while training: at its beginning, every so often, and at its end
// (tf.train.CheckpointSaverHook).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "graph/node.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/hook.h"
#include "session/monitored/hooks/checkpoint_saver_listener.h"
#include "session/monitored/saver.h"
#include "session/monitored/scaffold.h"

namespace weir {

struct CheckpointSaverOptions {
  std::string directory;
  int64_t every_steps = 0;  // when > 0, else
  absl::Duration interval = absl::Minutes(10);
  // Exactly one of them: the saver, or the scaffold whose saver it is.
  std::shared_ptr<Saver> saver;
  std::shared_ptr<const Scaffold> scaffold;
  Output global_step;  // default: the collection "global_step"
  std::string base_name = "model.ckpt";
  std::vector<CheckpointSaverListenerPtr> listeners;
  // Told of the graph with its devices, for TensorBoard, and of every checkpoint; null: none.
  std::shared_ptr<EventWriter> writer;
  // Whether graph.pbtxt is written to the directory.
  bool write_graph = true;
  // Whether training goes on while a checkpoint is written (Saver::StartSave); not for the first and the last
  // one. Listeners' AfterSave is called around a later step, when the checkpoint is there. A save that is due
  // while another one is written waits for it.
  bool asynchronous = false;
  // How long the last save is tried again, which has no later one. A stop that is requested meanwhile ends
  // it.
  absl::Duration end_patience = absl::Minutes(10);
};

// The driver of synchronous replicas (ops/training/sync_replicas.h) pauses while a checkpoint's values are
// read, so that none has half of an update. Where not all workers are waited for they wait for that, too: of
// a save that is not asynchronous until it is written. Not of the one with which a session begins: this hook
// comes before SyncReplicasHook.
//
// A save that fails for lack of space or a temporary reason is reported on stderr and tried again when the
// next one is due: training goes on, older checkpoints stay. Errors of the first one, when training begins,
// and after end_patience of the last one are returned.
//
// A folder that somebody moves away, deletes or empties meanwhile is made anew by the next save: that is said
// on stderr, once each time.
HookPtr CheckpointSaverHook(CheckpointSaverOptions options);

}  // namespace weir
