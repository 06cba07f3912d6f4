#include "session/monitored/hooks/nan_tensor_hook.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/notice.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

template <typename T>
bool AllFinite(const Tensor& tensor) {
  const absl::Span<const T> values = tensor.flat<T>();
  return std::all_of(values.begin(), values.end(), [](T value) { return std::isfinite(value); });
}

class NanTensor final : public Hook {
 public:
  explicit NanTensor(NanTensorOptions options) : options_(options) {}

  absl::string_view name() const override { return "NanTensorHook"; }

  absl::Status Begin(GraphBuilder&) override {
    if (!options_.tensor) return absl::InvalidArgumentError("NanTensorHook: the tensor is no output");
    const DType dtype = options_.tensor.dtype();
    if (dtype == DType::kFloat32 || dtype == DType::kFloat64) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("NanTensorHook: '", options_.tensor.name(), "' is ",
                                                   DTypeName(dtype), ", not float or double"));
  }

  absl::StatusOr<RunArgs> BeforeRun(RunContext&) override { return RunArgs{.fetches = {options_.tensor}}; }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    const Tensor& value = values.results[0];
    if (value.dtype() == DType::kFloat64 ? AllFinite<double>(value) : AllFinite<float>(value))
      return absl::OkStatus();
    const std::string message =
        absl::StrCat("the model diverged: '", options_.tensor.name(), "' is ", value.ToString(4));
    if (options_.fail_on_nan) return DivergedError(message);
    PrintNotice(absl::StrCat(message, "; stopping"));
    context.RequestStop();
    return absl::OkStatus();
  }

 private:
  const NanTensorOptions options_;
};

}  // namespace

HookPtr NanTensorHook(NanTensorOptions options) { return std::make_shared<NanTensor>(options); }

}  // namespace weir
