#include "session/monitored/hooks/stop_after_evals_hook.h"

#include <memory>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

class StopAfterEvals final : public Hook {
 public:
  explicit StopAfterEvals(int64_t num_evals) : num_evals_(num_evals) {}

  absl::string_view name() const override { return "StopAfterEvalsHook"; }

  absl::Status Begin(GraphBuilder&) override {
    if (num_evals_ > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("StopAfterEvalsHook: the number of steps must be positive, is ", num_evals_));
  }

  absl::Status AfterCreateSession(Session&, Coordinator&) override {
    num_done_ = 0;
    return absl::OkStatus();
  }

  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    if (++num_done_ >= num_evals_) context.RequestStop();
    return absl::OkStatus();
  }

 private:
  const int64_t num_evals_;
  int64_t num_done_ = 0;
};

}  // namespace

HookPtr StopAfterEvalsHook(int64_t num_evals) { return std::make_shared<StopAfterEvals>(num_evals); }

}  // namespace weir
