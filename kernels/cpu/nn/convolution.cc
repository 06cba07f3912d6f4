// Conv2D, DepthwiseConv2dNative and Conv3D, and their gradients.
#include <algorithm>

#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/convolution_operands.h"
#include "kernels/cpu/nn/onednn_convolution.h"
#include "kernels/cpu/nn/plain_convolution.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel_registry.h"

namespace weir {
namespace {

using Direction = ConvDirection;

template <typename T, Direction direction>
absl::Status RunPlain(KernelContext& context, const ConvGeometry& geometry, const T* first, const T* second,
                      T* result) {
  if constexpr (direction == Direction::kOutput) {
    return PlainConvolution(context, geometry, first, second, result);
  } else if constexpr (direction == Direction::kInputGradient) {
    return PlainInputGradient(context, geometry, first, second, result);
  } else {
    return PlainFilterGradient(context, geometry, first, second, result);
  }
}

template <typename T, Direction direction, FilterKind kind = FilterKind::kGroups>
class ConvKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForConvolution(construction));
    return std::make_unique<ConvKernel>(std::move(attrs));
  }
  explicit ConvKernel(WindowAttrs attrs) : attrs_(std::move(attrs)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const ConvOperands operands, ReadConvOperands(context, attrs_, kind, direction));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, operands.result));
    const Tensor& first = context.input(operands.first);
    const Tensor& second = context.input(operands.second);
    if (output->num_elements() == 0) return absl::OkStatus();
    if (first.num_elements() == 0 || second.num_elements() == 0) {  // a sum of nothing
      std::fill(output->flat<T>().begin(), output->flat<T>().end(), T(0));
      return absl::OkStatus();
    }
    if (std::is_same_v<T, Bfloat16> && OneDnnConvolution::IsFastInBfloat16()) {
      const absl::Status status =
          convolutions_.Run(context, operands.geometry, DType::kBfloat16, first.flat<T>().data(),
                            second.flat<T>().data(), nullptr, output->flat<T>().data());
      if (!absl::IsUnimplemented(status)) return status;
    }
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_first, Widen(context, first));
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_second, Widen(context, second));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    WEIR_RETURN_IF_ERROR(RunWide(context, operands.geometry, wide_first.flat<Wide>().data(),
                                 wide_second.flat<Wide>().data(), result.flat<Wide>().data()));
    Narrow(context, result, output);
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;

  absl::Status RunWide(KernelContext& context, const ConvGeometry& geometry, const Wide* first,
                       const Wide* second, Wide* result) {
    if constexpr (std::is_same_v<Wide, float>) {
      const absl::Status status =
          convolutions_.Run(context, geometry, DType::kFloat32, first, second, nullptr, result);
      if (!absl::IsUnimplemented(status)) return status;
    }
    return RunPlain<Wide, direction>(context, geometry, first, second, result);
  }

  const WindowAttrs attrs_;
  OneDnnConvolutions convolutions_{direction};
};

template <typename T>
using Conv2D = ConvKernel<T, Direction::kOutput>;
template <typename T>
using Conv2DBackpropInput = ConvKernel<T, Direction::kInputGradient>;
template <typename T>
using Conv2DBackpropFilter = ConvKernel<T, Direction::kFilterGradient>;

template <typename T>
using Depthwise = ConvKernel<T, Direction::kOutput, FilterKind::kDepthwise>;
template <typename T>
using DepthwiseBackpropInput = ConvKernel<T, Direction::kInputGradient, FilterKind::kDepthwise>;
template <typename T>
using DepthwiseBackpropFilter = ConvKernel<T, Direction::kFilterGradient, FilterKind::kDepthwise>;

template <typename T>
using Conv3D = ConvKernel<T, Direction::kOutput, FilterKind::kAllChannels>;
template <typename T>
using Conv3DBackpropInput = ConvKernel<T, Direction::kInputGradient, FilterKind::kAllChannels>;
template <typename T>
using Conv3DBackpropFilter = ConvKernel<T, Direction::kFilterGradient, FilterKind::kAllChannels>;

}  // namespace

void RegisterConvolutionKernels(DeviceKernels& kernels) {
  const auto types = Types<float, double, Half, Bfloat16, int32_t>("T");
  kernels.Add<Conv2D>("Conv2D", types);
  kernels.Add<Conv2DBackpropInput>("Conv2DBackpropInput", types);
  kernels.Add<Conv2DBackpropFilter>("Conv2DBackpropFilter", types);
  const auto floats = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<Depthwise>("DepthwiseConv2dNative", floats);
  kernels.Add<DepthwiseBackpropInput>("DepthwiseConv2dNativeBackpropInput", floats);
  kernels.Add<DepthwiseBackpropFilter>("DepthwiseConv2dNativeBackpropFilter", floats);
  kernels.Add<Conv3D>("Conv3D", floats);
  kernels.Add<Conv3DBackpropInput>("Conv3DBackpropInputV2", floats);
  kernels.Add<Conv3DBackpropFilter>("Conv3DBackpropFilterV2", floats);
}

}  // namespace weir
