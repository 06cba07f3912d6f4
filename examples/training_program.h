// The main program of an example: it is every task of a job, a parameter server, a worker or an evaluator, or
// runs alone.
//
// fashion_mnist_explained.cc does all of this by hand, line by line.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distributed/command/flag_parser.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "graph/graph_builder.h"
#include "session/monitored/training_session.h"
#include "session/session.h"

namespace weir::examples {

struct TrainingProgram {
  std::string name;
  std::string summary;
  std::function<void(FlagParser&)> add_flags;
  // What a worker does. The server is shut down afterwards.
  std::function<absl::Status(const TaskConfig&, Server&)> train;
  // What an evaluator does, which never trains. Empty: it is refused.
  std::function<absl::Status(const TaskConfig&, Server&)> evaluate;
};

// Finds out which task this is, parses the flags, starts the server; parameter servers serve, an evaluator
// evaluates, the others train. Returns the exit code (session/monitored/exit_code.h); errors are on stderr.
int RunTrainingProgram(const TrainingProgram& program, int argc, char** argv);

// Stops at last_step and where the loss is not a number; the chief shows progress, and writes checkpoints and
// summaries to model_dir unless it is empty.
TrainingSessionOptions TrainingOptions(const TaskConfig& task, Server& server, Output loss, int64_t last_step,
                                       const std::string& model_dir);

// What an evaluator does: measures every checkpoint in model_dir, until that of last_step, prints the metric
// and writes it to model_dir/eval. InvalidArgument without a model_dir.
absl::Status FollowCheckpoints(GraphBuilder& g, Server& server, int64_t last_step,
                               const std::string& model_dir, const std::string& metric,
                               const std::function<absl::StatusOr<double>(Session& session)>& measure);

}  // namespace weir::examples
