// Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/nn/onednn_convolution.h"
#include "kernels/cpu/nn/plain_convolution.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/cpu/widened.h"
#include "kernels/kernel_registry.h"

namespace weir {
namespace {

using Direction = OneDnnConvolution::Direction;

// Computes in one direction; float by oneDNN, prepared once per geometry.
template <typename T, Direction direction>
class Convolution {
 public:
  // Preconditions: the arrays have the geometry's shapes.
  absl::Status Run(KernelContext& context, const ConvGeometry& geometry, const T* first, const T* second,
                   T* result) {
    if constexpr (std::is_same_v<T, float>) {
      const int pieces = NumPieces(context, geometry);
      absl::StatusOr<std::shared_ptr<const OneDnnConvolution>> prepared = prepared_.FindOrCreate(
          {geometry, pieces}, [&] { return OneDnnConvolution::Create(direction, geometry, pieces); });
      if (prepared.ok()) return (*prepared)->Run(context, first, second, result);
      if (!absl::IsUnimplemented(prepared.status())) return prepared.status();
    }
    RunPlain(context.threads(), geometry, first, second, result);
    return absl::OkStatus();
  }

 private:
  struct Key {
    ConvGeometry geometry;
    int pieces;
    friend bool operator==(const Key&, const Key&) = default;
  };

  // One piece per thread where that is worth waking them.
  static int NumPieces(KernelContext& context, const ConvGeometry& geometry) {
    constexpr double kOperationsWorthSplitting = 8e6;  // 0.1 ms on one core
    const int64_t batch = geometry.windows.batch;
    if (geometry.OperationsPerImage() * static_cast<double>(batch) < kOperationsWorthSplitting) return 1;
    return static_cast<int>(std::min<int64_t>(batch, context.threads().num_threads()));
  }

  static void RunPlain(ThreadPool& threads, const ConvGeometry& geometry, const T* first, const T* second,
                       T* result) {
    if constexpr (direction == Direction::kOutput) PlainConvolution(threads, geometry, first, second, result);
    if constexpr (direction == Direction::kInputGradient)
      PlainInputGradient(threads, geometry, first, second, result);
    if constexpr (direction == Direction::kFilterGradient)
      PlainFilterGradient(threads, geometry, first, second, result);
  }

  PreparedForms<Key, OneDnnConvolution> prepared_;
};

absl::StatusOr<Shape> SizesInput(KernelContext& context, int input, absl::string_view name) {
  const Tensor& sizes = context.input(input);
  if (sizes.shape() != Shape({4})) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must have 4 elements, is ", sizes.ToString()));
  }
  return ReadShape(sizes, name);
}

absl::Status CheckOutputGradient(const ConvGeometry& geometry, const Shape& gradient) {
  if (gradient == geometry.OutputShape()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("out_backprop must be ", geometry.OutputShape().ToString(),
                                                 " for the input ", geometry.InputShape().ToString(),
                                                 " and the filter ", geometry.FilterShape().ToString(),
                                                 ", is ", gradient.ToString()));
}

// Inputs 0 and 1, or those of them that are no sizes, and the result's shape.
struct Operands {
  ConvGeometry geometry;
  int first;
  int second;
  Shape result;
};

absl::StatusOr<Operands> ReadOperands(KernelContext& context, const WindowAttrs& attrs, Direction direction) {
  Operands operands;
  if (direction == Direction::kOutput) {
    WEIR_ASSIGN_OR_RETURN(operands.geometry,
                          attrs.Convolution(context.input(0).shape(), context.input(1).shape()));
    operands.first = 0;
    operands.second = 1;
    operands.result = operands.geometry.OutputShape();
    return operands;
  }
  if (direction == Direction::kInputGradient) {
    WEIR_ASSIGN_OR_RETURN(operands.result, SizesInput(context, 0, "input_sizes"));
    WEIR_ASSIGN_OR_RETURN(operands.geometry, attrs.Convolution(operands.result, context.input(1).shape()));
    operands.first = 2;
    operands.second = 1;
  } else {
    WEIR_ASSIGN_OR_RETURN(operands.result, SizesInput(context, 1, "filter_sizes"));
    WEIR_ASSIGN_OR_RETURN(operands.geometry, attrs.Convolution(context.input(0).shape(), operands.result));
    operands.first = 0;
    operands.second = 2;
  }
  WEIR_RETURN_IF_ERROR(CheckOutputGradient(operands.geometry, context.input(2).shape()));
  return operands;
}

template <typename T, Direction direction>
class ConvKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForConvolution(construction));
    return std::make_unique<ConvKernel>(std::move(attrs));
  }
  explicit ConvKernel(WindowAttrs attrs) : attrs_(std::move(attrs)) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    WEIR_ASSIGN_OR_RETURN(const Operands operands, ReadOperands(context, attrs_, direction));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, operands.result));
    const Tensor& first = context.input(operands.first);
    const Tensor& second = context.input(operands.second);
    if (output->num_elements() == 0) return absl::OkStatus();
    if (first.num_elements() == 0 || second.num_elements() == 0) {  // a sum of nothing
      std::fill(output->flat<T>().begin(), output->flat<T>().end(), T(0));
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_first, Widen<T>(context, first));
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_second, Widen<T>(context, second));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput<T>(context, *output));
    WEIR_RETURN_IF_ERROR(convolution_.Run(context, operands.geometry, wide_first.flat<Wide>().data(),
                                          wide_second.flat<Wide>().data(), result.flat<Wide>().data()));
    Narrow<T>(result, output);
    return absl::OkStatus();
  }

 private:
  const WindowAttrs attrs_;
  Convolution<ComputeType<T>, direction> convolution_;
};

template <typename T>
void RegisterConvolutions(KernelRegistry& registry, const std::string& device) {
  const auto add = [&](const char* op, KernelFactory create) {
    registry.Register({.op = op, .device_type = device, .types = {{"T", {DTypeOf<T>}}}, .create = create});
  };
  add("Conv2D", CreateCheckedKernel<ConvKernel<T, Direction::kOutput>>);
  add("Conv2DBackpropInput", CreateCheckedKernel<ConvKernel<T, Direction::kInputGradient>>);
  add("Conv2DBackpropFilter", CreateCheckedKernel<ConvKernel<T, Direction::kFilterGradient>>);
}

}  // namespace

void RegisterConvKernels(DeviceKernels& kernels) {
  KernelRegistry& registry = kernels.registry();
  const std::string& device_type = kernels.device_type();
  const std::string device(device_type);
  RegisterConvolutions<float>(registry, device);
  RegisterConvolutions<double>(registry, device);
  RegisterConvolutions<Half>(registry, device);
  RegisterConvolutions<Bfloat16>(registry, device);
  RegisterConvolutions<int32_t>(registry, device);
}

}  // namespace weir
