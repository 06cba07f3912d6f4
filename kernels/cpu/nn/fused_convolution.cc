// _FusedConv2D: a convolution, a bias for each output channel, perhaps Relu.
//
// oneDNN adds the bias to what it has just computed. Its Relu makes 0 of NaN, which would hide a training
// that has diverged, so Relu is a pass in place. What oneDNN cannot do is computed by the plain loops, and
// the bias is added in that pass.
//
// Half, and bfloat16 where the processor has no fast instructions for it, are computed in float. Either way
// a result is rounded once, after the bias; the single ops round before it too. So the last digit may differ,
// which may_change_rounding (graph/rewrite/rewrite_options.h) allows.
#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/fused_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/float16_rows.h"
#include "kernels/cpu/nn/onednn_convolution.h"
#include "kernels/cpu/nn/plain_convolution.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kFinishCost = 0.3;  // nanoseconds per element on one core

template <typename T>
class FusedConv2D final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& ops = construction.attr<std::vector<std::string>>("fused_ops");
    const std::string all = absl::StrJoin(ops, ", ");
    const auto& arg_types = construction.attr<std::vector<DType>>("TArgs");
    const bool has_bias = construction.attr<int64_t>("num_args") == 1 &&
                          construction.attr<int64_t>("num_host_args") == 0 && arg_types.size() == 1 &&
                          arg_types[0] == DTypeOf<T>;
    if (!has_bias || (all != "BiasAdd" && all != "BiasAdd, Relu")) {
      return absl::UnimplementedError(absl::StrCat(kFusedConv2DOp, " needs one argument of ",
                                                   DTypeName(DTypeOf<T>),
                                                   " and fused_ops of BiasAdd or BiasAdd, Relu; has ",
                                                   arg_types.size(), " arguments and [", all, "]"));
    }
    if (construction.attr<std::string>("filter_format") != "HWIO") {
      return absl::UnimplementedError(absl::StrCat(kFusedConv2DOp, " reads filters as HWIO, not ",
                                                   construction.attr<std::string>("filter_format")));
    }
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForConvolution(construction));
    const bool channels_first = construction.attr<std::string>("data_format") == "NCHW";
    return std::unique_ptr<Kernel>(new FusedConv2D(std::move(attrs), ops.size() == 2, channels_first));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &input = context.input(0), &filter = context.input(1), &bias = context.input(2);
    WEIR_ASSIGN_OR_RETURN(const ConvGeometry geometry, attrs_.Convolution(input.shape(), filter.shape()));
    const Shape shape = geometry.OutputShape();
    const int64_t channels = shape.dim(channels_first_ ? 1 : 3);
    if (bias.shape() != Shape({channels})) {
      return absl::InvalidArgumentError(absl::StrCat("the bias must be [", channels, "] for an output ",
                                                     shape.ToString(), ", is ", bias.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    const bool is_sum_of_nothing = input.num_elements() == 0 || filter.num_elements() == 0;
    if (std::is_same_v<T, Bfloat16> && !is_sum_of_nothing && OneDnnConvolution::IsFastInBfloat16()) {
      const absl::Status status = convolutions_.Run(context, geometry, DType::kBfloat16, input.data(),
                                                    filter.data(), bias.data(), output->data());
      if (status.ok()) Leave(context, *output, output);
      if (!absl::IsUnimplemented(status)) return status;
    }
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_bias, Widen(context, bias));
    WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput(context, *output));
    const float* const b = wide_bias.flat<float>().data();
    if (is_sum_of_nothing) {
      std::fill_n(wide.flat<float>().data(), wide.num_elements(), 0.0f);
      AddBias(context.threads(), shape, channels, b, wide.flat<float>().data());
    } else {
      WEIR_RETURN_IF_ERROR(ConvolveInFloat(context, geometry, channels, b, wide));
    }
    Leave(context, wide, output);
    return absl::OkStatus();
  }

 private:
  FusedConv2D(WindowAttrs attrs, bool has_relu, bool channels_first)
      : attrs_(std::move(attrs)),
        has_relu_(has_relu),
        channels_first_(channels_first),
        convolutions_(OneDnnConvolution::Direction::kOutput, /*has_bias=*/true) {}

  absl::Status ConvolveInFloat(KernelContext& context, const ConvGeometry& geometry, int64_t channels,
                               const float* bias, Tensor& output) {
    WEIR_ASSIGN_OR_RETURN(const Tensor input, Widen(context, context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Tensor filter, Widen(context, context.input(1)));
    const float *x = input.flat<float>().data(), *w = filter.flat<float>().data();
    float* const y = output.flat<float>().data();
    const absl::Status status = convolutions_.Run(context, geometry, DType::kFloat32, x, w, bias, y);
    if (!absl::IsUnimplemented(status)) return status;
    WEIR_RETURN_IF_ERROR(PlainConvolution<float>(context, geometry, x, w, y));
    AddBias(context.threads(), output.shape(), channels, bias, y);
    return absl::OkStatus();
  }

  void AddBias(ThreadPool& threads, const Shape& shape, int64_t channels, const float* bias, float* y) const {
    const int64_t inner = channels_first_ ? shape.dim(2) * shape.dim(3) : 1;
    threads.ParallelFor(shape.num_elements(), kFinishCost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] += bias[i / inner % channels];
    });
  }

  // What was computed, rounded if it is wide and rectified if asked for, becomes the output. It may be the
  // output already.
  void Leave(KernelContext& context, const Tensor& computed, Tensor* output) const {
    const bool is_wide = computed.dtype() != output->dtype();
    if (!is_wide && !has_relu_) return;
    T* const y = output->flat<T>().data();
    ConvertBlocks(context, output->num_elements(), [&](int64_t begin, int64_t count) {
      if constexpr (std::is_same_v<T, float>) {
        for (int64_t i = begin; i < begin + count; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
      } else {
        if (is_wide) FromFloats(computed.flat<float>().data() + begin, y + begin, count);
        if (has_relu_) Rectify(y + begin, count);
      }
    });
  }

  const WindowAttrs attrs_;
  const bool has_relu_;
  const bool channels_first_;
  OneDnnConvolutions convolutions_;
};

}  // namespace

void RegisterFusedConvolutionKernels(DeviceKernels& kernels) {
  kernels.Add<FusedConv2D>(kFusedConv2DOp, Types<float, Half, Bfloat16>("T"));
}

}  // namespace weir
