#include "session/monitored/hooks/step_counter_hook.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "kernels/process_clock.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

// A backup worker whose gradients were dropped, and a step that is run again after a loss, see the same step
// twice or a few times. Who passes no global step sees it always.
constexpr int64_t kStuckRuns = 20;

class StepCounter final : public Hook {
 public:
  explicit StepCounter(StepCounterOptions options)
      : options_(std::move(options)),
        timer_(options_.interval > absl::ZeroDuration() ? 0 : options_.every_steps, options_.interval) {}

  absl::string_view name() const override { return "StepCounterHook"; }

  absl::Status Begin(GraphBuilder& graph) override {
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "StepCounterHook"));
    tag_ = absl::StrCat(VariableNameOf(graph.graph(), options_.global_step), "/sec");
    return absl::OkStatus();
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    return RunArgs{.fetches = {options_.global_step}};
  }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    // The step may have read the counter before it counted itself.
    const int64_t stale = values.results[0].scalar<int64_t>();
    WarnIfStuck(stale);
    if (!timer_.IsDue(stale + 1)) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const int64_t step, ReadGlobalStep(context.session(), options_.global_step));
    const absl::Time now = ProcessNow();
    if (!timer_.IsDue(step, now)) return absl::OkStatus();
    if (timer_.last_step())
      Write(step, (step - *timer_.last_step()) / absl::ToDoubleSeconds(now - timer_.last_time()));
    timer_.Mark(step, now);
    return absl::OkStatus();
  }

  absl::Status End(Session&) override {
    if (options_.writer) options_.writer->Flush().IgnoreError();
    return absl::OkStatus();
  }

 private:
  void WarnIfStuck(int64_t stale) {
    num_stuck_ = stale == last_stale_ ? num_stuck_ + 1 : 0;
    if (num_stuck_ == kStuckRuns) {
      PrintNotice(absl::StrCat("the global step stays at ", stale, ": pass GlobalStep(g) to Minimize"));
    }
    last_stale_ = stale;
  }

  void Write(int64_t step, double rate) {
    if (options_.log) PrintNotice(absl::StrFormat("step %d, %.1f steps/s", step, rate));
    if (!options_.writer) return;
    // A full disk must not end training: the rate is only lost.
    options_.writer->AddScalar(step, tag_, static_cast<float>(rate)).IgnoreError();
  }

  StepCounterOptions options_;
  StepTimer timer_;
  std::string tag_;
  int64_t last_stale_ = -1;
  int64_t num_stuck_ = 0;  // runs in a row that have seen it
};

}  // namespace

HookPtr StepCounterHook(StepCounterOptions options) {
  return std::make_shared<StepCounter>(std::move(options));
}

}  // namespace weir
