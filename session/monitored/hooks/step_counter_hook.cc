#include "session/monitored/hooks/step_counter_hook.h"

#include <cstdio>
#include <utility>

#include "graph/types/status_macros.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

class StepCounter final : public Hook {
 public:
  explicit StepCounter(StepCounterOptions options)
      : options_(std::move(options)), timer_(options_.every_steps, absl::InfiniteDuration()) {}

  absl::Status Begin(GraphBuilder& graph) override {
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "StepCounterHook"));
    return absl::OkStatus();
  }

  std::vector<Output> BeforeRun() override { return {options_.global_step}; }

  absl::Status AfterRun(RunContext& context) override {
    const int64_t step = context.results[0].scalar<int64_t>();
    const absl::Time now = absl::Now();
    if (!timer_.IsDue(step, now)) return absl::OkStatus();
    if (timer_.last_step())
      Write(step, (step - *timer_.last_step()) / absl::ToDoubleSeconds(now - timer_.last_time()));
    timer_.Mark(step, now);
    return absl::OkStatus();
  }

 private:
  void Write(int64_t step, double rate) {
    if (options_.log)
      std::fprintf(stderr, "weir: step %lld, %.1f steps/s\n", static_cast<long long>(step), rate);
    if (!options_.writer) return;
    // A full disk must not end training: the rate is only lost.
    options_.writer->AddScalar(step, "global_step/sec", static_cast<float>(rate)).IgnoreError();
  }

  StepCounterOptions options_;
  StepTimer timer_;
};

}  // namespace

HookPtr StepCounterHook(StepCounterOptions options) {
  return std::make_shared<StepCounter>(std::move(options));
}

}  // namespace weir
