#include "examples/training_program.h"

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "session/monitored/evaluation.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"

namespace weir::examples {

int RunTrainingProgram(const TrainingProgram& program, int argc, char** argv) {
  const auto fail = [&](const absl::Status& status) {
    std::fprintf(stderr, "%s: %s\n", program.name.c_str(), std::string(status.message()).c_str());
    return ExitCodeFor(status);
  };
  absl::StatusOr<TaskConfig> task = TaskConfigFromCommandLine(&argc, argv);
  if (!task.ok()) return fail(task.status());

  FlagParser parser(program.name, "[flags]", program.summary);
  program.add_flags(parser);
  absl::Status status = parser.Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (parser.wants_help()) return std::fputs((parser.Help() + TaskFlagsHelp()).c_str(), stdout), 0;
  if (!status.ok()) {  // it names the program already
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return ExitCodeFor(status);
  }

  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*task);
  if (!server.ok()) return fail(server.status());
  if (task->job() == "ps") return (*server)->Join();
  if (!task->is_evaluator()) {
    status = program.train(*task, **server);
  } else if (program.evaluate) {
    status = program.evaluate(*task, **server);
  } else {
    status = absl::InvalidArgumentError("this program has nothing for an evaluator to do");
  }
  (*server)->Shutdown(status);
  return status.ok() ? kExitDone : fail(status);
}

TrainingSessionOptions TrainingOptions(const TaskConfig& task, Server& server, Output loss, int64_t last_step,
                                       const std::string& model_dir) {
  TrainingSessionOptions options = {
      .target = server.target(),
      .is_chief = task.is_chief(),
      .checkpoint_dir = model_dir,
      .hooks = {StopAtStepHook({.last_step = last_step}), NanTensorHook({.tensor = loss})},
      .save_checkpoint_interval = absl::Seconds(30)};
  if (task.is_chief()) {
    options.hooks.push_back(ProgressHook({.last_step = last_step, .tensors = {{"loss", loss}}}));
  }
  return options;
}

absl::Status FollowCheckpoints(GraphBuilder& g, Server& server, int64_t last_step,
                               const std::string& model_dir, const std::string& metric,
                               const std::function<absl::StatusOr<double>(Session& session)>& measure) {
  if (model_dir.empty()) return absl::InvalidArgumentError("an evaluator needs --model_dir");
  Evaluator evaluator(g, {.target = server.target(),
                          .steps = [&](MonitoredSession& session) -> absl::StatusOr<NamedValues> {
                            WEIR_ASSIGN_OR_RETURN(const double value, measure(session.session()));
                            return NamedValues{{metric, Tensor::Scalar(value)}};
                          },
                          .summary_dir = JoinPath(model_dir, "eval")});
  const auto print = [&metric](const Evaluation& found) -> absl::StatusOr<bool> {
    std::printf("step %lld: %s %.3f\n", static_cast<long long>(found.global_step), metric.c_str(),
                found.values[0].second.scalar<double>());
    std::fflush(stdout);
    return false;
  };
  return EvaluateRepeatedly(model_dir,
                            [&](const std::string& checkpoint) { return evaluator.Evaluate(checkpoint); },
                            {.last_step = last_step, .after_evaluation = print})
      .status();
}

}  // namespace weir::examples
