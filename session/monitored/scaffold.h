// The parts of a graph that training needs beside the model: initialisation, readiness, checkpoints,
// summaries (tf.train.Scaffold).
//
// Finalize fills in what its user left empty. Hooks and session creators share it, and read it once it is
// finalized. Thread safety: none; for one graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph_builder.h"
#include "session/monitored/queue_runner.h"
#include "session/monitored/saver.h"
#include "session/session.h"

namespace weir {

struct Scaffold {
  // Runs on the chief when there is no checkpoint, fed with init_feed. Default: the node of the collection
  // "init_op", else every variable's initializer.
  Node* init = nullptr;
  Feeds init_feed;
  // Called after init: for what no op can do, such as reading a model that was trained elsewhere.
  std::function<absl::Status(const Scaffold& scaffold, Session& session)> init_fn;

  // Names the variables that have no value, in a string vector. Default: the collection "ready_op", else the
  // variables of the graph are asked.
  Output ready;
  // The same for what local_init needs. Default: the collection "ready_for_local_init_op", else the
  // variables.
  Output ready_for_local_init;
  // Runs in every process once that is ready, fed with local_init_feed. Default: the collection
  // "local_init_op", else the initializers of local variables (metrics), if there are any.
  Node* local_init = nullptr;
  Feeds local_init_feed;

  // A serialized Summary. Default: the collection "summary_op", else the collection "summaries" merged; stays
  // null when that is empty.
  Output summary;
  // The int64 step counter's value. Default: the variable of the collection "global_step"; null without one.
  Output global_step;
  // Fill queues in every process, from the session's creation to its end.
  std::vector<QueueRunner> queue_runners;
  std::shared_ptr<Saver> saver;
  SaverOptions saver_options;

  // One bool per variable, in the order of graph.variables(); and the shape of its value, int64.
  std::vector<Output> is_initialized;
  std::vector<Output> shapes;

  // May be called again: then it adds nothing, unless the graph has more variables now.
  // Errors: InvalidArgument for a part that is not of the kind it has to be, or a collection with two items.
  absl::Status Finalize(GraphBuilder& graph);

  // Runs init and init_fn.
  absl::Status Initialize(Session& session) const;
  // Runs local_init, if there is one and what it needs has a value. Returns the names of what has none.
  absl::StatusOr<std::vector<std::string>> InitializeLocally(Session& session) const;
  // Names of the variables that have no value yet.
  absl::StatusOr<std::vector<std::string>> UninitializedVariables(Session& session) const;
  // InvalidArgument when a variable has another shape than in the graph: who has set it builds another model.
  // FailedPrecondition when one has no value.
  absl::Status CheckShapes(Session& session) const;
};

}  // namespace weir
