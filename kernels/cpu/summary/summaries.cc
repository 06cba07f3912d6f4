// ScalarSummary, HistogramSummary, ImageSummary, AudioSummaryV2, TensorSummaryV2, MergeSummary: serialized
// tensorflow.Summary messages for TensorBoard.
#include <string>
#include <utility>
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
    std::string summaries;  // one message after another is a message with the values of all; tags may repeat
    for (int64_t i = 0; i < tags.num_elements(); ++i) {
      absl::StrAppend(&summaries,
                      ScalarSummary(tags.flat<std::string>()[i], static_cast<float>(values.flat<T>()[i])));
    }
    context.set_output(0, Tensor::Scalar(std::move(summaries)));
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

absl::StatusOr<std::string> ScalarString(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape().is_scalar()) return tensor.scalar<std::string>();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be scalar, is ", tensor.shape().ToString()));
}

class ImageSummaries final : public Kernel {
 public:
  explicit ImageSummaries(const KernelConstruction& construction)
      : max_images_(construction.attr<int64_t>("max_images")),
        bad_color_(construction.attr<Tensor>("bad_color")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string tag, ScalarString(context.input(0), "Tags"));
    WEIR_ASSIGN_OR_RETURN(std::string summary, ImageSummary(tag, context.input(1), max_images_, bad_color_));
    context.set_output(0, Tensor::Scalar(std::move(summary)));
    return absl::OkStatus();
  }

 private:
  const int64_t max_images_;
  const Tensor bad_color_;
};

class AudioSummaries final : public Kernel {
 public:
  explicit AudioSummaries(const KernelConstruction& construction)
      : max_outputs_(construction.attr<int64_t>("max_outputs")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string tag, ScalarString(context.input(0), "Tag"));
    const Tensor& rate = context.input(2);
    if (!rate.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample_rate must be rank-0 or scalar, is ", rate.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(std::string summary,
                          AudioSummary(tag, context.input(1), rate.scalar<float>(), max_outputs_));
    context.set_output(0, Tensor::Scalar(std::move(summary)));
    return absl::OkStatus();
  }

 private:
  const int64_t max_outputs_;
};

absl::Status ComputeTensorSummary(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const std::string tag, ScalarString(context.input(0), "tag"));
  WEIR_ASSIGN_OR_RETURN(const std::string metadata,
                        ScalarString(context.input(2), "serialized_summary_metadata"));
  WEIR_ASSIGN_OR_RETURN(std::string summary, TensorSummary(tag, context.input(1), metadata));
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
  kernels.Add<ImageSummaries>("ImageSummary",
                              {{"T", {DType::kUint8, DType::kFloat32, DType::kHalf, DType::kFloat64}}});
  kernels.Add<AudioSummaries>("AudioSummaryV2");
  kernels.Add<&ComputeTensorSummary>("TensorSummaryV2");
  kernels.Add<&ComputeMergeSummary>("MergeSummary");
}

}  // namespace weir
