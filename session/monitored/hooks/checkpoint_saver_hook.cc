#include "session/monitored/hooks/checkpoint_saver_hook.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

class CheckpointSaver final : public Hook {
 public:
  explicit CheckpointSaver(CheckpointSaverOptions options)
      : options_(std::move(options)), timer_(options_.every_steps, options_.interval) {}

  absl::Status Begin(GraphBuilder& graph) override {
    if (!options_.saver) return absl::InvalidArgumentError("CheckpointSaverHook needs a saver");
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "CheckpointSaverHook"));
    WEIR_RETURN_IF_ERROR(CreateDurableDirectories(PosixFileSystem(), options_.directory));
    // What a writer that was killed has left; nobody else writes here.
    return RemoveTemporaryFiles(PosixFileSystem(), options_.directory).status();
  }

  absl::Status AfterCreateSession(Session& session) override {
    WEIR_ASSIGN_OR_RETURN(int64_t step, ReadGlobalStep(session, options_.global_step));
    return Save(session, step);
  }

  std::vector<Output> BeforeRun() override { return {options_.global_step}; }

  absl::Status AfterRun(RunContext& context) override {
    const int64_t stale = context.results[0].scalar<int64_t>();
    if (!timer_.IsDue(stale + 1)) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(int64_t step, ReadGlobalStep(context.session(), options_.global_step));
    if (!timer_.IsDue(step)) return absl::OkStatus();
    const absl::Status status = Save(context.session(), step);
    if (status.ok() || absl::IsUnavailable(status) || absl::IsAborted(status)) return status;
    std::fprintf(stderr, "weir: the checkpoint at step %lld was not saved: %s\n",
                 static_cast<long long>(step), std::string(status.message()).c_str());
    timer_.Mark(step);
    return absl::OkStatus();
  }

  absl::Status End(Session& session) override {
    WEIR_ASSIGN_OR_RETURN(int64_t step, ReadGlobalStep(session, options_.global_step));
    return saved_step_ == step ? absl::OkStatus() : Save(session, step);
  }

 private:
  absl::Status Save(Session& session, int64_t step) {
    const std::string prefix = absl::StrCat(options_.directory, "/", options_.base_name);
    WEIR_RETURN_IF_ERROR(options_.saver->Save(session, prefix, step).status());
    timer_.Mark(step);
    saved_step_ = step;
    return absl::OkStatus();
  }

  CheckpointSaverOptions options_;
  StepTimer timer_;
  int64_t saved_step_ = -1;
};

}  // namespace

HookPtr CheckpointSaverHook(CheckpointSaverOptions options) {
  return std::make_shared<CheckpointSaver>(std::move(options));
}

}  // namespace weir
