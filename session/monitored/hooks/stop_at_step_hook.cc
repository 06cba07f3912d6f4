#include "session/monitored/hooks/stop_at_step_hook.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "session/monitored/global_step_output.h"

namespace weir {
namespace {

class StopAtStep final : public Hook {
 public:
  explicit StopAtStep(StopAtStepOptions options) : options_(options), last_step_(options.last_step) {}

  absl::string_view name() const override { return "StopAtStepHook"; }

  absl::Status Begin(GraphBuilder& graph) override {
    const bool is_negative = options_.last_step < 0 || options_.num_steps < 0;
    if (is_negative || (options_.last_step > 0) == (options_.num_steps > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("StopAtStepHook takes either last_step or num_steps, got ", options_.last_step,
                       " and ", options_.num_steps));
    }
    last_step_ = options_.last_step;  // the hook may have been used before
    reached_ = 0;
    WEIR_ASSIGN_OR_RETURN(global_step_,
                          GlobalStepOutput(graph.graph(), options_.global_step, "StopAtStepHook"));
    return absl::OkStatus();
  }

  absl::Status AfterCreateSession(Session& session, Coordinator&) override {
    WEIR_ASSIGN_OR_RETURN(int64_t now, ReadGlobalStep(session, global_step_));
    if (last_step_ == 0) {
      last_step_ =
          now + std::min(options_.num_steps, std::numeric_limits<int64_t>::max() - std::max(now, int64_t{0}));
    }
    is_at_end_ = now >= last_step_;
    TellSetback(now);
    return absl::OkStatus();
  }

  bool IsAtEnd() const override { return is_at_end_; }
  bool WouldBeAtEnd(int64_t step) const override {
    return options_.last_step > 0 && step >= options_.last_step;
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override { return RunArgs{.fetches = {global_step_}}; }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    const int64_t seen = values.results[0].scalar<int64_t>();
    reached_ = std::max(reached_, seen);
    // The step may have read the counter before or after it counted itself.
    if (seen + 1 < last_step_) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(int64_t now, ReadGlobalStep(context.session(), global_step_));
    if (now >= last_step_) context.RequestStop();
    return absl::OkStatus();
  }

 private:
  // A worker hears of it in no other way: the chief restores the variables.
  void TellSetback(int64_t now) {
    if (now < reached_) {
      PrintNotice(absl::StrCat("training was set back from step ", reached_, " to step ", now,
                               ": the variables were lost, and were set anew"));
    }
    reached_ = now;
  }

  const StopAtStepOptions options_;
  Output global_step_;
  int64_t last_step_;
  int64_t reached_ = 0;     // the greatest step that was seen since the variables were set
  bool is_at_end_ = false;  // when the session was created
};

}  // namespace

HookPtr StopAtStepHook(StopAtStepOptions options) { return std::make_shared<StopAtStep>(options); }

}  // namespace weir
