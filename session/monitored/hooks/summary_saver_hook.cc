#include "session/monitored/hooks/summary_saver_hook.h"

#include <cstdio>
#include <utility>

#include "graph/types/status_macros.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

class SummarySaver final : public Hook {
 public:
  explicit SummarySaver(SummarySaverOptions options)
      : options_(std::move(options)), timer_(options_.every_steps, absl::InfiniteDuration()) {}

  absl::Status Begin(GraphBuilder& graph) override {
    if (!options_.summary) return absl::InvalidArgumentError("SummarySaverHook needs a summary output");
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "SummarySaverHook"));
    if (!options_.writer) return absl::InvalidArgumentError("SummarySaverHook needs an event writer");
    return absl::OkStatus();
  }

  std::vector<Output> BeforeRun() override {
    is_due_ = timer_.IsDue(next_step_);
    if (is_due_) return {options_.global_step, options_.summary};
    return {options_.global_step};
  }

  absl::Status AfterRun(RunContext& context) override {
    const int64_t step = context.results[0].scalar<int64_t>();
    next_step_ = step + 1;
    if (!is_due_) return absl::OkStatus();
    timer_.Mark(step);
    Report(options_.writer->AddSummary(step, context.results[1].scalar<std::string>()));
    return absl::OkStatus();
  }

  absl::Status End(Session&) override {
    Report(options_.writer->Flush());
    return absl::OkStatus();
  }

 private:
  void Report(const absl::Status& status) {
    if (status.ok() || std::exchange(has_failed_, true)) return;
    std::fprintf(stderr, "weir: summaries are no longer written: %s\n",
                 std::string(status.message()).c_str());
  }

  SummarySaverOptions options_;
  StepTimer timer_;
  int64_t next_step_ = 0;
  bool is_due_ = false;
  bool has_failed_ = false;
};

}  // namespace

HookPtr SummarySaverHook(SummarySaverOptions options) {
  return std::make_shared<SummarySaver>(std::move(options));
}

}  // namespace weir
