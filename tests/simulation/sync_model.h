// A model of two variables for synchronous replicas, whose batches follow from the global step and the rank:
// whatever befalls a job that waits for lost replicas, it ends with the same bits.
//
// Thread safety: none.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distributed/task_config.h"
#include "graph/graph_builder.h"
#include "ops/training/sync_replicas.h"
#include "ops/variable.h"
#include "session/monitored/monitored_session.h"

namespace weir {

struct SyncModel {
  // Adds it to the graph. The session needs a SyncReplicasHook.
  static absl::StatusOr<SyncModel> Build(GraphBuilder& g, const TaskConfig& task, OnLoss on_loss);

  // On the batch of the step that the session is at.
  absl::Status RunStep(MonitoredSession& session) const;

  int rank = 0;
  Output x;
  ModelVariable step, a, b;
  Node* train = nullptr;
};

// "step 15, 3f8ccccd 40066666": the bits of a and b.
std::string DescribeWeights(int64_t step, float a, float b);

}  // namespace weir
