#include "session/monitored/hooks/summary_saver_hook.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/node_of_graph.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/collective_fetches.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

class SummarySaver final : public Hook {
 public:
  explicit SummarySaver(SummarySaverOptions options)
      : options_(std::move(options)),
        timer_(options_.interval > absl::ZeroDuration() ? 0 : options_.every_steps, options_.interval) {}

  absl::string_view name() const override { return "SummarySaverHook"; }

  absl::Status Begin(GraphBuilder& graph) override {
    if (static_cast<bool>(options_.summary) == (options_.scaffold != nullptr)) {
      return absl::InvalidArgumentError("SummarySaverHook needs either a summary output or a scaffold");
    }
    WEIR_RETURN_IF_ERROR(CheckSummary(graph.graph()));
    if (options_.writer == nullptr) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "SummarySaverHook"));
    return absl::OkStatus();
  }

  // A scaffold has its summary by now.
  absl::Status AfterCreateSession(Session&, Coordinator&) override {
    fetches_always_ = summary() && DependOnCollectives({summary()});
    return absl::OkStatus();
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    RunArgs args;
    if (options_.writer != nullptr) {
      is_due_ = !next_step_ || timer_.IsDue(*next_step_);
      args.fetches.push_back(options_.global_step);
    }
    if (summary() && (is_due_ || fetches_always_)) args.fetches.push_back(summary());
    return args;
  }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    if (options_.writer == nullptr) return absl::OkStatus();
    // The step may have read the counter before it counted itself.
    int64_t step = values.results[0].scalar<int64_t>() + 1;
    if (is_due_) {
      WEIR_ASSIGN_OR_RETURN(step, ReadGlobalStep(context.session(), options_.global_step));
      if (!next_step_) Report(options_.writer->AddSessionLog(step, EventWriter::SessionStatus::kStart));
      timer_.Mark(step);
      if (values.results.size() > 1) {
        const Tensor& serialized = values.results[1];
        if (serialized.dtype() != DType::kString || serialized.num_elements() != 1) {
          return absl::InvalidArgumentError(absl::StrCat("SummarySaverHook: the summary '", summary().name(),
                                                         "' must be one string, is ", serialized.ToString()));
        }
        Report(options_.writer->AddSummary(step, serialized.scalar<std::string>()));
      }
    }
    next_step_ = step + 1;
    return absl::OkStatus();
  }

  absl::Status End(Session&) override {
    if (options_.writer != nullptr) Report(options_.writer->Flush());
    return absl::OkStatus();
  }

 private:
  // A scaffold checks its own.
  absl::Status CheckSummary(const Graph& graph) const {
    const Output& summary = options_.summary;
    if (!summary) return absl::OkStatus();
    if (!IsNodeOf(graph, *summary.node) || summary.index < 0 ||
        summary.index >= summary.node->num_outputs()) {
      return absl::InvalidArgumentError(
          absl::StrCat("SummarySaverHook: the graph has no output '", summary.name(), "' for the summary"));
    }
    if (summary.dtype() == DType::kString && summary.shape().IsCompatibleWith(Shape())) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("SummarySaverHook: the summary '", summary.name(),
                                                   "' must be one string, is ",
                                                   TypeString(summary.dtype(), summary.shape())));
  }

  Output summary() const { return options_.summary ? options_.summary : options_.scaffold->summary; }

  void Report(const absl::Status& status) {
    if (status.ok() || std::exchange(has_failed_, true)) return;
    PrintNotice(absl::StrCat("summaries are no longer written: ", status.message()));
  }

  SummarySaverOptions options_;
  StepTimer timer_;
  std::optional<int64_t> next_step_;  // before the first step: none
  bool is_due_ = false;
  bool fetches_always_ = false;
  bool has_failed_ = false;
};

}  // namespace

HookPtr SummarySaverHook(SummarySaverOptions options) {
  return std::make_shared<SummarySaver>(std::move(options));
}

}  // namespace weir
