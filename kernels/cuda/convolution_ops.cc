// Conv2D, DepthwiseConv2dNative, and their gradients, by the device's CudaDnn.
//
// Filters are [height, width, channels of a group, output channels] in TensorFlow, and lie otherwise for GPUs
// (cuda_dnn.h): they are copied into that order before, and their gradients back from it after. That is
// little beside the convolution, which reads them for every image.
#include <memory>
#include <utility>

#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/convolution_operands.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/element_launches.h"

namespace weir::cuda {
namespace {

// The loops over a filter's elements in the order that GPUs want, and how far each of them goes in
// TensorFlow's order, and the other way.
struct FilterLoops {
  Dims sizes, strides;
};

FilterLoops ForGpus(const ConvGeometry& geometry) {
  const int64_t window = geometry.windows.window[0] * geometry.windows.window[1];
  const int64_t in = geometry.group_channels, out = geometry.output_channels;
  if (geometry.windows.channels_first) return {{out, in, window}, {1, out, in * out}};
  return {{out, window * in}, {1, out}};
}

FilterLoops FromGpus(const ConvGeometry& geometry) {
  const int64_t window = geometry.windows.window[0] * geometry.windows.window[1];
  const int64_t in = geometry.group_channels, out = geometry.output_channels;
  if (geometry.windows.channels_first) return {{window, in, out}, {1, window, in * window}};
  return {{window * in, out}, {1, window * in}};
}

template <ConvDirection direction, FilterKind kind = FilterKind::kGroups>
class Conv final : public CudaKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForConvolution(construction));
    return std::unique_ptr<Kernel>(new Conv(construction, std::move(attrs)));
  }

 private:
  Conv(const KernelConstruction& construction, WindowAttrs attrs)
      : CudaKernel(construction), attrs_(std::move(attrs)) {}

  absl::Status Enqueue(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ConvOperands operands, ReadConvOperands(context, attrs_, kind, direction));
    WEIR_ASSIGN_OR_RETURN(Tensor * result, context.AllocateOutput(0, operands.result));
    const Tensor& first = context.input(operands.first);
    const Tensor& second = context.input(operands.second);
    if (result->num_elements() == 0) return absl::OkStatus();
    if (first.num_elements() == 0 || second.num_elements() == 0) {  // a sum of nothing
      return stream().Fill(result->data(), 0, result->num_bytes());
    }
    const ConvGeometry& geometry = operands.geometry;
    WEIR_ASSIGN_OR_RETURN(Tensor filter, context.AllocateTemporary(first.dtype(), geometry.FilterShape()));
    if constexpr (direction == ConvDirection::kFilterGradient) {
      WEIR_RETURN_IF_ERROR(Compute(geometry, first, filter, second));
      const auto [sizes, strides] = FromGpus(geometry);
      return LaunchSpread(stream(), kernels(), filter, sizes, strides, *result);
    } else {
      const auto [sizes, strides] = ForGpus(geometry);
      WEIR_RETURN_IF_ERROR(LaunchSpread(stream(), kernels(), second, sizes, strides, filter));
      return direction == ConvDirection::kOutput ? Compute(geometry, first, filter, *result)
                                                 : Compute(geometry, *result, filter, first);
    }
  }

  absl::Status Compute(const ConvGeometry& geometry, const Tensor& input, const Tensor& filter,
                       const Tensor& output) const {
    return device().Convolve({.direction = direction,
                              .dtype = input.dtype(),
                              .geometry = geometry,
                              .input = const_cast<void*>(input.data()),
                              .filter = const_cast<void*>(filter.data()),
                              .output = const_cast<void*>(output.data())});
  }

  const WindowAttrs attrs_;
};

}  // namespace

void RegisterConvolutionOps(DeviceKernels& kernels) {
  const DeviceKernels::TypeAttrs types = {
      {"T", {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}}};
  kernels.Add<Conv<ConvDirection::kOutput>>("Conv2D", types);
  kernels.Add<Conv<ConvDirection::kInputGradient>>("Conv2DBackpropInput", types);
  kernels.Add<Conv<ConvDirection::kFilterGradient>>("Conv2DBackpropFilter", types);
  constexpr FilterKind kDepthwise = FilterKind::kDepthwise;
  kernels.Add<Conv<ConvDirection::kOutput, kDepthwise>>("DepthwiseConv2dNative", types);
  kernels.Add<Conv<ConvDirection::kInputGradient, kDepthwise>>("DepthwiseConv2dNativeBackpropInput", types);
  kernels.Add<Conv<ConvDirection::kFilterGradient, kDepthwise>>("DepthwiseConv2dNativeBackpropFilter", types);
}

}  // namespace weir::cuda
