#include "session/monitored/evaluation.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "kernels/notice.h"
#include "session/monitored/checkpoint_step.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/session_creator.h"
#include "session/monitored/termination.h"

namespace weir {
namespace {

std::optional<float> NumberIn(const Tensor& value) {
  if (!value.is_valid() || value.num_elements() != 1) return std::nullopt;
  switch (value.dtype()) {
    case DType::kFloat32:
      return value.scalar<float>();
    case DType::kFloat64:
      return static_cast<float>(value.scalar<double>());
    case DType::kInt32:
      return static_cast<float>(value.scalar<int32_t>());
    case DType::kInt64:
      return static_cast<float>(value.scalar<int64_t>());
    default:
      return std::nullopt;
  }
}

// Whether the evaluation failed because the checkpoint was deleted while it was read. Whoever misses one of
// its files says so; any other error has other reasons, also when the checkpoint has gone meanwhile.
bool WasDeletedWhileRead(const absl::Status& error, const std::string& checkpoint, FileSystem& files) {
  return (absl::IsNotFound(error) || absl::IsDataLoss(error)) &&
         absl::StrContains(error.message(), checkpoint) && !BundleExists(checkpoint, files);
}

}  // namespace

Evaluator::Evaluator(GraphBuilder& graph, EvaluationOptions options)
    : graph_(graph), options_([&] {
        // The variables are those of one checkpoint: nobody else may change them.
        options.session.isolate_session_state = true;
        if (options.scaffold == nullptr) options.scaffold = std::make_shared<Scaffold>();
        return std::move(options);
      }()) {}

absl::StatusOr<Evaluation> Evaluator::Evaluate(const std::string& checkpoint) {
  if (options_.steps && !options_.eval_ops.empty()) {
    return absl::InvalidArgumentError("an evaluation has either eval_ops or steps, got both");
  }
  Evaluation result;
  result.checkpoint = checkpoint;
  FileSystem* const files = options_.scaffold->saver_options.file_system;
  const absl::StatusOr<Output> step =
      GlobalStepOutput(graph_.graph(), options_.scaffold->global_step, "Evaluator");
  WEIR_ASSIGN_OR_RETURN(
      result.global_step,
      GlobalStepOf(checkpoint, files != nullptr ? *files : PosixFileSystem(),
                   step.ok() ? VariableNameOf(graph_.graph(), *step) : std::string("global_step")));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<MonitoredSession> session,
                        MonitoredSession::Create(graph_,
                                                 ChiefSessionCreator({.target = options_.target,
                                                                      .session = options_.session,
                                                                      .scaffold = options_.scaffold,
                                                                      .checkpoint_path = checkpoint}),
                                                 {.hooks = options_.hooks, .recovers = false}));
  std::string summary;
  WEIR_RETURN_IF_ERROR(RunSteps(*session, &result.values));
  WEIR_RETURN_IF_ERROR(RunFinalOps(*session, &result.values, &summary));
  WEIR_RETURN_IF_ERROR(session->Close());
  WEIR_RETURN_IF_ERROR(Write(result, summary));
  return result;
}

absl::Status Evaluator::RunSteps(MonitoredSession& session, NamedValues* values) const {
  if (options_.steps) {
    WEIR_ASSIGN_OR_RETURN(*values, options_.steps(session));
    return absl::OkStatus();
  }
  while (!options_.eval_ops.empty() && !session.should_stop()) {
    const absl::Status status = session.Run({}, {}, options_.eval_ops).status();
    if (absl::IsOutOfRange(status)) break;
    WEIR_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Evaluator::RunFinalOps(MonitoredSession& session, NamedValues* values,
                                    std::string* summary) const {
  std::vector<TensorRef> fetches;
  for (const auto& [name, output] : options_.final_ops) fetches.push_back(output);
  if (options_.summary) fetches.push_back(options_.summary);
  if (fetches.empty()) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> results, session.session().Run(options_.final_feeds, fetches));
  for (size_t i = 0; i < options_.final_ops.size(); ++i) {
    values->emplace_back(options_.final_ops[i].first, std::move(results[i]));
  }
  if (!options_.summary) return absl::OkStatus();
  const Tensor& serialized = results.back();
  if (serialized.dtype() != DType::kString || serialized.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("an evaluation's summary must be one string, is ", serialized.ToString()));
  }
  *summary = serialized.scalar<std::string>();
  return absl::OkStatus();
}

absl::Status Evaluator::Write(const Evaluation& evaluation, const std::string& summary) {
  if (options_.summary_dir.empty()) return absl::OkStatus();
  if (writer_ == nullptr) {
    WEIR_ASSIGN_OR_RETURN(writer_, EventWriter::Create(options_.summary_dir));
  }
  for (const auto& [name, value] : evaluation.values) {
    if (const std::optional<float> number = NumberIn(value); number.has_value()) {
      WEIR_RETURN_IF_ERROR(writer_->AddScalar(evaluation.global_step, name, *number));
    }
  }
  if (!summary.empty()) WEIR_RETURN_IF_ERROR(writer_->AddSummary(evaluation.global_step, summary));
  return writer_->Flush();
}

absl::StatusOr<Evaluation> EvaluateOnce(GraphBuilder& graph, const std::string& checkpoint,
                                        EvaluationOptions options) {
  return Evaluator(graph, std::move(options)).Evaluate(checkpoint);
}

absl::StatusOr<Evaluation> EvaluateRepeatedly(
    const std::string& directory,
    const std::function<absl::StatusOr<Evaluation>(const std::string& checkpoint)>& evaluate,
    const RepeatedEvaluationOptions& options) {
  CheckpointIterator checkpoints(directory, options.checkpoints);
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Termination> termination,
                        Termination::Watch([&checkpoints] { checkpoints.RequestStop(); }));
  Evaluation last;
  int64_t num_evaluations = 0;
  while (true) {
    if (Termination::IsRequested()) return TerminatedError("stopped by SIGTERM");
    WEIR_ASSIGN_OR_RETURN(const std::optional<std::string> checkpoint, checkpoints.Next());
    if (Termination::IsRequested()) return TerminatedError("stopped by SIGTERM");
    if (!checkpoint.has_value()) break;
    absl::StatusOr<Evaluation> evaluation = evaluate(*checkpoint);
    if (!evaluation.ok()) {
      if (!WasDeletedWhileRead(evaluation.status(), *checkpoint, *options.checkpoints.file_system)) {
        return evaluation.status();
      }
      PrintNotice(absl::StrCat(
          "checkpoint ", *checkpoint,
          " was deleted before it was evaluated, and is left out: ", evaluation.status().message()));
      continue;
    }
    last = *std::move(evaluation);
    ++num_evaluations;
    bool is_over = (options.last_step > 0 && last.global_step >= options.last_step) ||
                   (options.max_evaluations > 0 && num_evaluations >= options.max_evaluations);
    if (options.after_evaluation) {
      WEIR_ASSIGN_OR_RETURN(const bool wants_stop, options.after_evaluation(last));
      is_over |= wants_stop;
    }
    if (is_over) return last;
  }
  if (options.last_step > last.global_step && !options.checkpoints.timeout_fn) {
    return absl::DeadlineExceededError(absl::StrCat("no new checkpoint in ", directory, " within ",
                                                    absl::FormatDuration(options.checkpoints.timeout),
                                                    ": the last one is of step ", last.global_step,
                                                    ", training was to come to step ", options.last_step));
  }
  return last;
}

}  // namespace weir
