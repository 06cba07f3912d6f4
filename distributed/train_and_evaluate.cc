#include "distributed/train_and_evaluate.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"
#include "kernels/environment.h"
#include "kernels/formats/file_system.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/saver.h"

namespace weir {
namespace {

// Evaluates beside training, in a program that runs alone.
class EvaluatingListener final : public CheckpointSaverListener {
 public:
  EvaluatingListener(const TrainAndEvaluateOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {}

  absl::StatusOr<bool> AfterSave(Session&, int64_t global_step) override {
    // The first checkpoint is of a model that is not trained yet, or was evaluated by the program before.
    if (!std::exchange(has_begun_, true)) return false;
    if (environment_.Now() < last_time_ + options_.throttle) return false;
    return Evaluate(global_step);
  }

  absl::Status End(Session&, int64_t global_step) override {
    return evaluated_step_ == global_step ? absl::OkStatus() : Evaluate(global_step).status();
  }

 private:
  // True when it was the last evaluation.
  absl::StatusOr<bool> Evaluate(int64_t global_step) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> checkpoints,
                          CheckpointsIn(options_.model_dir, PosixFileSystem(), options_.latest_filename));
    if (checkpoints.empty()) {
      return absl::NotFoundError(absl::StrCat("no checkpoint to evaluate in ", options_.model_dir,
                                              ": the file '", options_.latest_filename, "' names none"));
    }
    last_time_ = environment_.Now();
    evaluated_step_ = global_step;
    WEIR_ASSIGN_OR_RETURN(const Evaluation evaluation, options_.evaluate(checkpoints.front()));
    return options_.after_evaluation ? options_.after_evaluation(evaluation) : false;
  }

  const TrainAndEvaluateOptions& options_;
  const Environment& environment_;
  bool has_begun_ = false;
  int64_t evaluated_step_ = -1;
  absl::Time last_time_ = absl::InfinitePast();
};

absl::Status Check(const TrainAndEvaluateOptions& options) {
  const auto missing = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("TrainAndEvaluate needs ", what));
  };
  if (options.model_dir.empty()) return missing("a model_dir: an evaluator reads the checkpoints there");
  if (options.max_steps <= 0) return missing(absl::StrCat("positive max_steps, got ", options.max_steps));
  if (!options.train) return missing("a function that trains");
  if (!options.evaluate) return missing("a function that evaluates");
  return absl::OkStatus();
}

}  // namespace

absl::Status TrainAndEvaluate(const TaskConfig& task, Server& server,
                              const TrainAndEvaluateOptions& options) {
  if (task.job() == "ps") {
    return server.Join() == kExitDone ? absl::OkStatus() : TerminatedError("stopped by SIGTERM");
  }
  WEIR_RETURN_IF_ERROR(Check(options));
  if (task.is_evaluator()) {
    return EvaluateRepeatedly(options.model_dir, options.evaluate,
                              {.checkpoints = {.min_interval = options.throttle,
                                               .timeout = options.timeout,
                                               .poll_interval = options.poll_interval,
                                               .latest_filename = options.latest_filename},
                               .last_step = options.max_steps,
                               .after_evaluation = options.after_evaluation})
        .status();
  }
  if (!task.runs_alone()) return options.train({});
  return options.train({std::make_shared<EvaluatingListener>(options, server.runtime().environment())});
}

}  // namespace weir
