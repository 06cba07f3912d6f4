// What a program does before or after checkpoints are saved (tf.train.CheckpointSaverListener): copy them
// elsewhere, evaluate them, end training when they are good enough.
//
// Its CheckpointSaverHook calls all of it, on the thread that runs the session. An error ends the session.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph_builder.h"
#include "session/session.h"

namespace weir {

class CheckpointSaverListener {
 public:
  virtual ~CheckpointSaverListener() = default;
  // The graph may still grow.
  virtual absl::Status Begin(GraphBuilder&) { return absl::OkStatus(); }
  virtual absl::Status BeforeSave(Session&, int64_t /*global_step*/) { return absl::OkStatus(); }
  // True requests that training stops.
  virtual absl::StatusOr<bool> AfterSave(Session&, int64_t /*global_step*/) { return false; }
  // After the last checkpoint, for which BeforeSave and AfterSave were called like for every other.
  virtual absl::Status End(Session&, int64_t /*global_step*/) { return absl::OkStatus(); }
};

using CheckpointSaverListenerPtr = std::shared_ptr<CheckpointSaverListener>;

}  // namespace weir
