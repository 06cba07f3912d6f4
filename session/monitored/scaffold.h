// The parts of a graph that training needs beside the model: initialisation, readiness, checkpoints,
// summaries.
//
// Finalize fills in what its user left empty. Thread safety: none; lives in one MonitoredSession.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph_builder.h"
#include "session/monitored/saver.h"
#include "session/session.h"

namespace weir {

struct Scaffold {
  // Runs once on the chief when there is no checkpoint. Default: every variable's initializer.
  Node* init = nullptr;
  // Runs in every process after initialisation. Default: nothing.
  Node* local_init = nullptr;
  // A serialized Summary. Default: the collection "summaries" merged; stays null when that is empty.
  Output summary;
  // The int64 step counter's value. Default: the variable of the collection "global_step"; null without one.
  Output global_step;
  std::shared_ptr<Saver> saver;
  SaverOptions saver_options;

  // One bool per variable, in the order of graph.variables().
  std::vector<Output> is_initialized;

  absl::Status Finalize(GraphBuilder& graph);

  // Names of the variables that have no value yet.
  absl::StatusOr<std::vector<std::string>> UninitializedVariables(Session& session) const;
};

}  // namespace weir
