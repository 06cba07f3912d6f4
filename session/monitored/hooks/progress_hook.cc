#include "session/monitored/hooks/progress_hook.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/hooks/collective_fetches.h"

namespace weir {
namespace {

constexpr int kBarWidth = 24;

std::string Eta(double seconds) {
  if (seconds < 100) return absl::StrFormat("%.0fs", seconds);
  if (seconds < 6000) return absl::StrFormat("%.0fm", seconds / 60);
  return absl::StrFormat("%.1fh", seconds / 3600);
}

class Progress final : public Hook {
 public:
  explicit Progress(ProgressOptions options)
      : options_(std::move(options)),
        is_terminal_(options_.out != nullptr && ::isatty(::fileno(options_.out)) != 0) {
    if (options_.interval == absl::ZeroDuration()) {
      options_.interval = is_terminal_ ? absl::Milliseconds(200) : absl::Seconds(5);
    }
  }

  absl::string_view name() const override { return "ProgressHook"; }

  absl::Status Begin(GraphBuilder& graph) override {
    if (options_.out == nullptr) return absl::InvalidArgumentError("ProgressHook: `out` is null");
    WEIR_ASSIGN_OR_RETURN(options_.global_step,
                          GlobalStepOutput(graph.graph(), options_.global_step, "ProgressHook"));
    std::vector<Output> outputs;
    for (const auto& [name, output] : options_.tensors) outputs.push_back(output);
    fetches_always_ = DependOnCollectives(outputs);
    return absl::OkStatus();
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    is_due_ = ProcessNow() >= next_;
    RunArgs args;
    if (!is_due_ && !fetches_always_) return args;
    args.fetches.push_back(options_.global_step);
    for (const auto& [name, output] : options_.tensors) args.fetches.push_back(output);
    return args;
  }

  absl::Status AfterRun(RunContext&, const RunValues& values) override {
    if (!is_due_) return absl::OkStatus();
    Show(values.results[0].scalar<int64_t>(), values.results.subspan(1));
    next_ = ProcessNow() + options_.interval;
    return absl::OkStatus();
  }

  absl::Status End(Session& session) override {
    WEIR_ASSIGN_OR_RETURN(int64_t step, ReadGlobalStep(session, options_.global_step));
    Show(step, {});
    if (is_terminal_) std::fputc('\n', options_.out);
    std::fflush(options_.out);
    return absl::OkStatus();
  }

 private:
  void Show(int64_t step, absl::Span<const Tensor> values) {
    const absl::Time now = ProcessNow();
    const double seconds = absl::ToDoubleSeconds(now - last_time_);
    if (last_step_ >= 0 && seconds > 0 && step > last_step_) rate_ = (step - last_step_) / seconds;
    last_step_ = step;
    last_time_ = now;
    std::string line = ProgressLine(step, options_.last_step, rate_, is_terminal_);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].dtype() != DType::kFloat32 || values[i].num_elements() != 1) continue;
      absl::StrAppendFormat(&line, "  %s %.4f", PrintableText(options_.tensors[i].first),
                            values[i].scalar<float>());
    }
    // \033[K clears what a longer line left.
    std::fprintf(options_.out, is_terminal_ ? "\r%s\033[K" : "%s\n", line.c_str());
    std::fflush(options_.out);
  }

  ProgressOptions options_;
  const bool is_terminal_;
  absl::Time next_ = absl::InfinitePast();
  bool is_due_ = false;
  bool fetches_always_ = false;
  int64_t last_step_ = -1;
  absl::Time last_time_ = ProcessNow();
  double rate_ = 0;
};

}  // namespace

std::string ProgressLine(int64_t step, int64_t last_step, double steps_per_second, bool is_bar) {
  const double part = last_step <= 0 ? 0 : std::clamp(static_cast<double>(step) / last_step, 0.0, 1.0);
  std::string line;
  if (is_bar) {
    const int filled = static_cast<int>(part * kBarWidth);
    line = "[" + std::string(filled, '=') + (filled < kBarWidth ? ">" : "") +
           std::string(std::max(0, kBarWidth - filled - 1), ' ') + "] ";
  }
  absl::StrAppendFormat(&line, "%3.0f%%  step %d/%d", part * 100, step, last_step);
  if (steps_per_second > 0) {
    absl::StrAppendFormat(&line, "  %.1f steps/s  ETA %s", steps_per_second,
                          Eta(std::max<int64_t>(0, last_step - step) / steps_per_second));
  }
  return line;
}

HookPtr ProgressHook(ProgressOptions options) { return std::make_shared<Progress>(std::move(options)); }

}  // namespace weir
