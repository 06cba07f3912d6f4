// One program for every task of a job that trains and evaluates (tf.estimator.train_and_evaluate).
//
//   chief, worker   train until max_steps; the chief saves checkpoints to model_dir
//   ps              serves until the job is over
//   evaluator       never trains: evaluates each new checkpoint of model_dir, until that of max_steps, or
//                   the one that after_evaluation says is the last
//   alone           trains, and evaluates when a checkpoint has been saved
// An evaluator is no part of the training cluster (task_config.h): all that it shares with the others is
// model_dir.
//
// Thread safety: none; once for a program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "session/monitored/checkpoint_iterator.h"
#include "session/monitored/evaluation.h"
#include "session/monitored/hooks/checkpoint_saver_listener.h"

namespace weir {

struct TrainAndEvaluateOptions {
  std::string model_dir;
  // SaverOptions::latest_filename of the saver that trains: the file in model_dir that names its checkpoints.
  std::string latest_filename = "checkpoint";
  // The global step that training comes to.
  int64_t max_steps = 0;
  // Trains, with a StopAtStepHook for max_steps, the checkpoint_dir model_dir and these checkpoint_listeners
  // (TrainingSessionOptions).
  std::function<absl::Status(const std::vector<CheckpointSaverListenerPtr>& listeners)> train;
  // Evaluates one checkpoint (Evaluator::Evaluate).
  std::function<absl::StatusOr<Evaluation>(const std::string& checkpoint)> evaluate;
  // Told of each evaluation, may be null. True ends the evaluator, as max_steps does: for training that stops
  // early (docs/guide/fine_tuning.md). A program that runs alone then stops training.
  std::function<absl::StatusOr<bool>(const Evaluation& evaluation)> after_evaluation;
  // At least this long between the beginnings of two evaluations. The last checkpoint is always evaluated.
  absl::Duration throttle = absl::Minutes(10);
  // How long an evaluator waits for the next checkpoint.
  absl::Duration timeout = absl::InfiniteDuration();
  absl::Duration poll_interval = absl::Seconds(1);
};

// Returns when this task is done. Errors: InvalidArgument, naming the option that is missing; those of
// `train` and `evaluate`; an evaluator's are those of EvaluateRepeatedly; TerminatedError of a ps that
// SIGTERM told to leave before the job was over.
absl::Status TrainAndEvaluate(const TaskConfig& task, Server& server, const TrainAndEvaluateOptions& options);

}  // namespace weir
