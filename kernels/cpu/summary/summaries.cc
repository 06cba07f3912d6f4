// ScalarSummary, HistogramSummary, MergeSummary: serialized tensorflow.Summary messages for TensorBoard.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/summary.h"

namespace weir {
namespace {

template <typename T>
class ScalarSummaries final : public Kernel {
 public:
  explicit ScalarSummaries(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& tags = context.input(0);
    const Tensor& values = context.input(1);
    if (tags.shape() != values.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tags is ", tags.shape().ToString(), " but values is ", values.shape().ToString(),
          tags.num_elements() == 1 ? absl::StrCat(" (tag '", tags.scalar<std::string>(), "')") : ""));
    }
    std::vector<std::string> summaries;
    for (int64_t i = 0; i < tags.num_elements(); ++i) {
      summaries.push_back(
          ScalarSummary(tags.flat<std::string>()[i], static_cast<float>(values.flat<T>()[i])));
    }
    if (summaries.size() != 1) {
      WEIR_ASSIGN_OR_RETURN(std::string merged, MergeSummaries(summaries));
      summaries = {std::move(merged)};
    }
    context.set_output(0, Tensor::Scalar(std::move(summaries[0])));
    return absl::OkStatus();
  }
};

absl::Status ComputeHistogramSummary(KernelContext& context) {
  const Tensor& tag = context.input(0);
  if (tag.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("tag must be one string, is ", tag.ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(std::string summary, HistogramSummary(tag.scalar<std::string>(), context.input(1)));
  context.set_output(0, Tensor::Scalar(std::move(summary)));
  return absl::OkStatus();
}

absl::Status ComputeMergeSummary(KernelContext& context) {
  std::vector<std::string> summaries;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const absl::Span<const std::string> input = context.input(i).flat<std::string>();
    summaries.insert(summaries.end(), input.begin(), input.end());
  }
  WEIR_ASSIGN_OR_RETURN(std::string merged, MergeSummaries(summaries));
  context.set_output(0, Tensor::Scalar(std::move(merged)));
  return absl::OkStatus();
}

}  // namespace

void RegisterSummariesKernels(DeviceKernels& kernels) {
  kernels.Add<ScalarSummaries>("ScalarSummary", Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t,
                                                      int64_t, uint8_t, uint16_t, uint32_t, uint64_t>("T"));
  kernels.Add<&ComputeHistogramSummary>("HistogramSummary");
  kernels.Add<&ComputeMergeSummary>("MergeSummary");
}

}  // namespace weir
