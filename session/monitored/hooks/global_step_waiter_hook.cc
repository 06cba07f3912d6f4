#include "session/monitored/hooks/global_step_waiter_hook.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/environment.h"
#include "kernels/long_wait.h"
#include "kernels/notice.h"
#include "session/monitored/global_step_output.h"

namespace weir {
namespace {

constexpr int64_t kStepsBetweenReports = 1000;

class GlobalStepWaiter final : public Hook {
 public:
  explicit GlobalStepWaiter(GlobalStepWaiterOptions options) : options_(std::move(options)) {}

  absl::string_view name() const override { return "GlobalStepWaiterHook"; }

  absl::Status Begin(GraphBuilder& graph) override {
    has_started_ = options_.wait_until_step <= 0;
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "GlobalStepWaiterHook"));
    return absl::OkStatus();
  }

  absl::Status AfterCreateSession(Session&, Coordinator& coordinator) override {
    coordinator_ = coordinator;
    return absl::OkStatus();
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override {
    if (has_started_) return RunArgs();
    const Environment& environment = context.session().environment();
    const absl::Time deadline = environment.Now() + options_.max_wait;
    LongWait wait(environment, deadline);
    std::optional<int64_t> reported;
    while (true) {
      WEIR_ASSIGN_OR_RETURN(const int64_t step, ReadGlobalStep(context.session(), options_.global_step));
      if (step >= options_.wait_until_step) break;
      if (environment.Now() >= deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("GlobalStepWaiterHook waited ", absl::FormatDuration(options_.max_wait),
                         " for the global step ", options_.wait_until_step, "; it is ", step));
      }
      const auto what = [&] {
        return absl::StrCat("waiting for global step ", options_.wait_until_step, ", it is ", step);
      };
      if (!reported || step - *reported > kStepsBetweenReports) {
        PrintNotice(what());
        reported = step;
      }
      const absl::Time next_look = std::min(environment.Now() + options_.poll_interval, deadline);
      for (absl::Time now = environment.Now(); now < next_look; now = environment.Now()) {
        const absl::Duration pause = std::min(next_look, wait.next_word()) - now;
        if (context.WaitForSessionStop(pause) || coordinator_->should_stop()) return RunArgs();
        wait.Say(what);
      }
    }
    has_started_ = true;
    return RunArgs();
  }

 private:
  GlobalStepWaiterOptions options_;
  std::optional<Coordinator> coordinator_;  // from AfterCreateSession on
  bool has_started_ = false;
};

}  // namespace

HookPtr GlobalStepWaiterHook(GlobalStepWaiterOptions options) {
  return std::make_shared<GlobalStepWaiter>(std::move(options));
}

}  // namespace weir
