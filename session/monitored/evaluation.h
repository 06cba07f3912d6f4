// Evaluates checkpoints: a model's graph, restored from one, runs for some steps, and what it found is
// written at the checkpoint's global step (tf.contrib.training's evaluate_once and evaluate_repeatedly).
//
//   Evaluator evaluator(g, {.target = server->target(),
//                           .hooks = {FeedFnHook(next_batch), StopAfterEvalsHook(100)},
//                           .eval_ops = {update_accuracy},
//                           .final_ops = {{"accuracy", accuracy}},
//                           .summary_dir = model_dir + "/eval"});
//   EvaluateRepeatedly(
//       model_dir, [&](const std::string& checkpoint) { return evaluator.Evaluate(checkpoint); },
//       {.last_step = max_steps});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph_builder.h"
#include "graph/types/tensor.h"
#include "kernels/formats/event_file.h"
#include "session/monitored/checkpoint_iterator.h"
#include "session/monitored/hook.h"
#include "session/monitored/monitored_session.h"
#include "session/monitored/scaffold.h"
#include "session/session.h"
#include "session/session_target.h"

namespace weir {

using NamedValues = std::vector<std::pair<std::string, Tensor>>;

// What an evaluation found.
struct Evaluation {
  std::string checkpoint;
  int64_t global_step = 0;  // the checkpoint's
  NamedValues values;
};

struct EvaluationOptions {
  SessionTarget target;
  SessionOptions session;              // always with variables of its own
  std::shared_ptr<Scaffold> scaffold;  // null: the default one
  std::vector<HookPtr> hooks;
  // Run step by step until a hook requests a stop (StopAfterEvalsHook) or the input ends (OutOfRange).
  std::vector<TargetRef> eval_ops;
  // Evaluated after the last step, fed with final_feeds.
  std::vector<std::pair<std::string, Output>> final_ops;
  Feeds final_feeds;
  // Instead of eval_ops: steps that the program runs itself; what it returns stands before the final_ops.
  std::function<absl::StatusOr<NamedValues>(MonitoredSession& session)> steps;
  // Where an event file goes, with every value that is one number; empty: none.
  std::string summary_dir;
  // A serialized Summary, computed and written after the last step, too. Null: none.
  Output summary;
};

// Evaluates one graph again and again. Borrows the graph's builder and the target's workers.
// Thread safety: one thread at a time.
class Evaluator {
 public:
  Evaluator(GraphBuilder& graph, EvaluationOptions options);

  // Errors: those of restoring (NotFound and InvalidArgument name the variable: a checkpoint of another
  // model), of a step, of hooks; ResourceExhausted when the disk of summary_dir is full.
  absl::StatusOr<Evaluation> Evaluate(const std::string& checkpoint);

 private:
  absl::Status RunSteps(MonitoredSession& session, NamedValues* values) const;
  // Also appends the summary to `summary`, if there is one.
  absl::Status RunFinalOps(MonitoredSession& session, NamedValues* values, std::string* summary) const;
  absl::Status Write(const Evaluation& evaluation, const std::string& summary);

  GraphBuilder& graph_;
  const EvaluationOptions options_;
  std::shared_ptr<EventWriter> writer_;
};

absl::StatusOr<Evaluation> EvaluateOnce(GraphBuilder& graph, const std::string& checkpoint,
                                        EvaluationOptions options);

struct RepeatedEvaluationOptions {
  CheckpointIteratorOptions checkpoints;
  // Ends after a checkpoint whose global step has come so far; 0: only as the iterator does.
  int64_t last_step = 0;
  int64_t max_evaluations = 0;  // when > 0
  // Told of each; true ends.
  std::function<absl::StatusOr<bool>(const Evaluation& evaluation)> after_evaluation;
};

// Calls `evaluate` with each new checkpoint of the directory. One that is deleted while it is read is named
// on stderr, with the error, and left out: an error (NotFound or DataLoss) that names a file of a checkpoint
// that is no longer there. SIGTERM ends it as it ends a MonitoredSession.
//
// Returns the last evaluation. Errors: those of `evaluate` and of CheckpointIterator::Next; DeadlineExceeded,
// naming both steps, when checkpoints stop coming before last_step (unless timeout_fn says that this is
// right); TerminatedError.
absl::StatusOr<Evaluation> EvaluateRepeatedly(
    const std::string& directory,
    const std::function<absl::StatusOr<Evaluation>(const std::string& checkpoint)>& evaluate,
    const RepeatedEvaluationOptions& options = {});

}  // namespace weir
