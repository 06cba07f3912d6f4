#include "session/monitored/hooks/profiler_hook.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/interchange/step_stats.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "kernels/notice.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/chrome_trace.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

class Profiler final : public Hook {
 public:
  explicit Profiler(ProfilerOptions options)
      : options_(std::move(options)), timer_(options_.every_steps, options_.interval) {}

  absl::string_view name() const override { return "ProfilerHook"; }

  absl::Status Begin(GraphBuilder& graph) override {
    if ((options_.every_steps > 0) == (options_.interval > absl::ZeroDuration())) {
      return absl::InvalidArgumentError(
          absl::StrCat("ProfilerHook takes either every_steps or an interval, got ", options_.every_steps,
                       " and ", absl::FormatDuration(options_.interval)));
    }
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "ProfilerHook"));
    return CreateDurableDirectories(PosixFileSystem(), options_.directory);
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    is_due_ = next_step_ && timer_.IsDue(*next_step_);
    return RunArgs{.fetches = {options_.global_step}, .options = {.trace = is_due_}};
  }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    // The step may have read the counter before it counted itself.
    int64_t step = values.results[0].scalar<int64_t>() + 1;
    if (!next_step_) timer_.Mark(step - 1);
    if (is_due_) {
      WEIR_ASSIGN_OR_RETURN(step, ReadGlobalStep(context.session(), options_.global_step));
      timer_.Mark(step);
      if (absl::Status status = Write(step, values.metadata->step_stats); !status.ok()) {
        PrintNotice(absl::StrCat("the timeline of step ", step, " was not written: ", status.message()));
      }
    }
    next_step_ = step + 1;
    return absl::OkStatus();
  }

  absl::Status End(Session&) override {
    if (options_.writer != nullptr) options_.writer->Flush().IgnoreError();
    return absl::OkStatus();
  }

 private:
  absl::Status Write(int64_t step, const StepStats& stats) {
    const std::string path = JoinPath(options_.directory, absl::StrCat("timeline-", step, ".json"));
    WEIR_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), path,
                                             ChromeTrace(stats, {.show_dataflow = options_.show_dataflow})));
    if (options_.writer == nullptr) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const std::string bytes, RunMetadataBytes(stats));
    return options_.writer->AddRunMetadata(step, absl::StrCat("step_", step), bytes);
  }

  ProfilerOptions options_;
  StepTimer timer_;
  std::optional<int64_t> next_step_;  // before the first step: none
  bool is_due_ = false;
};

}  // namespace

HookPtr ProfilerHook(ProfilerOptions options) { return std::make_shared<Profiler>(std::move(options)); }

}  // namespace weir
