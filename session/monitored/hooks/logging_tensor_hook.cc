#include "session/monitored/hooks/logging_tensor_hook.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"
#include "kernels/process_clock.h"
#include "session/monitored/hooks/collective_fetches.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

class LoggingTensor final : public Hook {
 public:
  explicit LoggingTensor(LoggingTensorOptions options)
      : options_(std::move(options)), timer_(options_.every_steps, options_.interval) {
    if (!options_.sink) {
      options_.sink = [](const std::string& line) {
        std::fprintf(stderr, "%s\n", PrintableText(line).c_str());
      };
    }
  }

  absl::string_view name() const override { return "LoggingTensorHook"; }

  absl::Status Begin(GraphBuilder&) override {
    timer_.Reset();
    num_steps_ = 0;
    if (options_.tensors.empty())
      return absl::InvalidArgumentError("LoggingTensorHook has no tensor to print");
    if (options_.every_steps < 0 || options_.interval < absl::ZeroDuration() ||
        (!options_.at_end && options_.every_steps == 0 && options_.interval == absl::ZeroDuration())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LoggingTensorHook prints every so many steps, every so often, or at the end: got every_steps ",
          options_.every_steps, " and interval ", absl::FormatDuration(options_.interval)));
    }
    for (const auto& [name, output] : options_.tensors) {
      if (!output)
        return absl::InvalidArgumentError(absl::StrCat("LoggingTensorHook: '", name, "' is no output"));
    }
    std::vector<Output> outputs;
    for (const auto& [name, output] : options_.tensors) outputs.push_back(output);
    fetches_always_ = DependOnCollectives(outputs);
    return absl::OkStatus();
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
    is_due_ = timer_.IsDue(num_steps_);
    return is_due_ || fetches_always_ ? RunArgs{.fetches = Fetches()} : RunArgs();
  }

  absl::Status AfterRun(RunContext&, const RunValues& values) override {
    if (is_due_) Print(values.results);
    ++num_steps_;
    return absl::OkStatus();
  }

  absl::Status End(Session& session) override {
    if (!options_.at_end) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values, session.Run({}, Fetches()));
    Print(values);
    return absl::OkStatus();
  }

 private:
  std::vector<TensorRef> Fetches() const {
    std::vector<TensorRef> fetches;
    for (const auto& [name, output] : options_.tensors) fetches.push_back(output);
    return fetches;
  }

  // One number is shown without its type and shape.
  static std::string TextOf(const Tensor& value) {
    if (value.num_elements() != 1) return value.ToString();
    switch (value.dtype()) {
      case DType::kFloat32:
        return absl::StrCat(value.scalar<float>());
      case DType::kFloat64:
        return absl::StrCat(value.scalar<double>());
      case DType::kInt32:
        return absl::StrCat(value.scalar<int32_t>());
      case DType::kInt64:
        return absl::StrCat(value.scalar<int64_t>());
      case DType::kBool:
        return value.scalar<bool>() ? "true" : "false";
      default:
        return value.ToString();
    }
  }

  std::string DefaultLine(absl::Span<const Tensor> values, absl::Time now) const {
    std::string line;
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor& value = values[i];
      absl::StrAppend(&line, i == 0 ? "" : ", ", options_.tensors[i].first, " = ", TextOf(value));
    }
    if (timer_.last_step()) {
      absl::StrAppend(&line, absl::StrFormat(" (%.3f s)", absl::ToDoubleSeconds(now - timer_.last_time())));
    }
    return line;
  }

  void Print(absl::Span<const Tensor> values) {
    const absl::Time now = ProcessNow();
    options_.sink(options_.formatter ? options_.formatter(values) : DefaultLine(values, now));
    timer_.Mark(num_steps_, now);
  }

  LoggingTensorOptions options_;
  StepTimer timer_;
  int64_t num_steps_ = 0;
  bool is_due_ = false;
  bool fetches_always_ = false;
};

}  // namespace

HookPtr LoggingTensorHook(LoggingTensorOptions options) {
  return std::make_shared<LoggingTensor>(std::move(options));
}

}  // namespace weir
