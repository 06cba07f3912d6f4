#include "session/monitored/hooks/logging_tensor_hook.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/types/status_macros.h"
#include "session/monitored/hooks/step_timer.h"

namespace weir {
namespace {

class LoggingTensor final : public Hook {
 public:
  explicit LoggingTensor(LoggingTensorOptions options)
      : options_(std::move(options)), timer_(options_.every_steps, options_.interval) {
    if (!options_.sink) {
      options_.sink = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    }
  }

  absl::Status Begin(GraphBuilder&) override {
    if (options_.tensors.empty())
      return absl::InvalidArgumentError("LoggingTensorHook has no tensor to print");
    for (const auto& [name, output] : options_.tensors) {
      if (!output)
        return absl::InvalidArgumentError(absl::StrCat("LoggingTensorHook: '", name, "' is no output"));
    }
    return absl::OkStatus();
  }

  std::vector<Output> BeforeRun() override {
    is_due_ = timer_.IsDue(num_steps_);
    return is_due_ ? Outputs() : std::vector<Output>();
  }

  absl::Status AfterRun(RunContext& context) override {
    if (is_due_) Print(context.results);
    ++num_steps_;
    return absl::OkStatus();
  }

  absl::Status End(Session& session) override {
    if (!options_.at_end) return absl::OkStatus();
    const std::vector<Output> outputs = Outputs();
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> values,
                          session.Run({}, std::vector<TensorRef>(outputs.begin(), outputs.end())));
    Print(values);
    return absl::OkStatus();
  }

 private:
  std::vector<Output> Outputs() const {
    std::vector<Output> outputs;
    for (const auto& [name, output] : options_.tensors) outputs.push_back(output);
    return outputs;
  }

  void Print(absl::Span<const Tensor> values) {
    std::string line;
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor& value = values[i];
      const bool is_float = value.dtype() == DType::kFloat32 && value.num_elements() == 1;
      absl::StrAppend(&line, i == 0 ? "" : ", ", options_.tensors[i].first, " = ",
                      is_float ? absl::StrCat(value.scalar<float>()) : value.ToString());
    }
    const absl::Time now = absl::Now();
    if (timer_.last_step()) {
      absl::StrAppend(&line, absl::StrFormat(" (%.3f s)", absl::ToDoubleSeconds(now - timer_.last_time())));
    }
    timer_.Mark(num_steps_, now);
    options_.sink(line);
  }

  LoggingTensorOptions options_;
  StepTimer timer_;
  int64_t num_steps_ = 0;
  bool is_due_ = false;
};

}  // namespace

HookPtr LoggingTensorHook(LoggingTensorOptions options) {
  return std::make_shared<LoggingTensor>(std::move(options));
}

}  // namespace weir
