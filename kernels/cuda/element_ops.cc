// Elementwise ops, casts, BiasAdd, AddN.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/cuda/element_launches.h"
#include "kernels/cuda/row_launches.h"
#include "kernels/cuda/spread.h"

namespace weir::cuda {
namespace {

class Unary final : public CudaKernel {
 public:
  explicit Unary(const KernelConstruction& construction)
      : CudaKernel(construction), op_(construction.node().op_name()) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& x = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocateOutput({0}, 0, x.shape()));
    return LaunchUnary(stream(), kernels(), op_, x, *y);
  }

  const std::string op_;
};

// The gradients of activations want operands of one shape.
bool Broadcasts(const std::string& op) { return op != "ReluGrad" && op != "SigmoidGrad" && op != "TanhGrad"; }

class Binary final : public CudaKernel {
 public:
  explicit Binary(const KernelConstruction& construction)
      : CudaKernel(construction),
        op_(construction.node().op_name()),
        x_name_(construction.node().op().inputs()[0].name),
        y_name_(construction.node().op().inputs()[1].name) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    if (x.shape() == y.shape()) {
      WEIR_ASSIGN_OR_RETURN(Tensor * z, context.ForwardOrAllocateOutput({0, 1}, 0, x.shape()));
      return LaunchBinary(stream(), kernels(), op_, x, y, *z);
    }
    if (!Broadcasts(op_)) {
      return absl::InvalidArgumentError(absl::StrCat(x_name_, " is ", x.shape().ToString(), " but ", y_name_,
                                                     " is ", y.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes({&x.shape(), &y.shape()}));
    WEIR_ASSIGN_OR_RETURN(Tensor * z, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_x, Widened(context, stream(), kernels(), x, shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_y, Widened(context, stream(), kernels(), y, shape));
    return LaunchBinary(stream(), kernels(), op_, wide_x, wide_y, *z);
  }

  const std::string op_;
  const std::string x_name_, y_name_;
};

class Cast final : public CudaKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    // It says nothing of other casts.
    const DType from = construction.node().input_type(0), to = construction.node().output_type(0);
    const bool may_truncate = IsFloating(from) && (to == DType::kHalf || to == DType::kBfloat16);
    if (may_truncate && construction.attr<bool>("Truncate")) {
      return absl::UnimplementedError("GPUs have no Cast that truncates");
    }
    return std::unique_ptr<Kernel>(new Cast(construction));
  }

 private:
  explicit Cast(const KernelConstruction& construction) : CudaKernel(construction) {}

  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (x.dtype() == context.output_type(0)) {
      context.set_output(0, x);
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.AllocateOutput(0, x.shape()));
    return LaunchCast(stream(), kernels(), x, *y);
  }
};

class BiasAdd final : public CudaKernel {
 public:
  explicit BiasAdd(const KernelConstruction& construction)
      : CudaKernel(construction), channels_first_(construction.attr<std::string>("data_format") == "NCHW") {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& value = context.input(0);
    const Tensor& bias = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const ChannelView view, ViewChannels(value.shape(), channels_first_));
    WEIR_RETURN_IF_ERROR(CheckBias(view, value.shape(), bias.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, value.shape()));
    return LaunchBiasAdd(stream(), kernels(), value, bias, channels_first_, *output);
  }

  const bool channels_first_;
};

class BiasAddGrad final : public CudaKernel {
 public:
  explicit BiasAddGrad(const KernelConstruction& construction)
      : CudaKernel(construction), channels_first_(construction.attr<std::string>("data_format") == "NCHW") {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& gradient = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const ChannelView view, ViewChannels(gradient.shape(), channels_first_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, {view.channels}));
    Tensor planes = gradient;
    if (view.inner != 1) {
      WEIR_ASSIGN_OR_RETURN(
          planes, context.AllocateTemporary(SumDType(gradient.dtype()), Shape({view.outer, view.channels})));
      WEIR_RETURN_IF_ERROR(LaunchRowReduction(stream(), kernels(), RowReduction::kSum, gradient,
                                              view.outer * view.channels, view.inner, planes));
    }
    return LaunchColumnSum(stream(), kernels(), planes, view.outer, view.channels, context.allocator(),
                           *output);
  }

  const bool channels_first_;
};

class AddN final : public CudaKernel {
 public:
  explicit AddN(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Shape shape = context.input(0).shape();
    for (int i = 1; i < context.num_inputs(); ++i) {
      if (context.input(i).shape() == shape) continue;
      return absl::InvalidArgumentError(absl::StrCat("inputs must have one shape: inputs[0] is ",
                                                     shape.ToString(), ", inputs[", i, "] is ",
                                                     context.input(i).shape().ToString()));
    }
    if (context.num_inputs() == 1) {
      context.set_output(0, context.input(0));
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * sum, context.AllocateOutput(0, shape));
    WEIR_RETURN_IF_ERROR(
        LaunchBinary(stream(), kernels(), "AddV2", context.input(0), context.input(1), *sum));
    for (int i = 2; i < context.num_inputs(); ++i) {
      WEIR_RETURN_IF_ERROR(LaunchBinary(stream(), kernels(), "AddV2", *sum, context.input(i), *sum));
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterElementOps(DeviceKernels& kernels) {
  std::map<std::string, std::vector<DType>> unary, binary;
  VisitUnary([&]<typename F, typename T>(const char* op) { unary[op].push_back(DTypeOf<T>); });
  VisitBinary([&]<typename F, typename T>(const char* op) { binary[op].push_back(DTypeOf<T>); });
  for (const auto& [op, dtypes] : unary) kernels.Add<Unary>(op, {{"T", dtypes}});
  for (const auto& [op, dtypes] : binary) kernels.Add<Binary>(op, {{"T", dtypes}});
  const std::vector<DType> floats = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};
  std::vector<DType> numbers = floats;
  numbers.insert(numbers.end(), {DType::kInt32, DType::kInt64, DType::kUint8, DType::kBool});
  kernels.Add<Cast>("Cast", {{"SrcT", numbers}, {"DstT", numbers}});
  kernels.Add<BiasAdd>("BiasAdd", {{"T", floats}});
  kernels.Add<BiasAddGrad>("BiasAddGrad", {{"T", floats}});
  kernels.Add<AddN>("AddN", {{"T", floats}});
}

}  // namespace weir::cuda
