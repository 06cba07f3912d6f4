// FusedBatchNorm and FusedBatchNormGrad, in all their versions.
#include <string>

#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/batch_norm_operands.h"
#include "kernels/cuda/batch_norm_launches.h"
#include "kernels/cuda/cuda_kernel.h"

namespace weir::cuda {
namespace {

class BatchNormKernel : public CudaKernel {
 public:
  BatchNormKernel(const KernelConstruction& construction, float average_factor)
      : CudaKernel(construction),
        data_format_(construction.attr<std::string>("data_format")),
        attrs_{.epsilon = construction.attr<float>("epsilon"),
               .average_factor = average_factor,
               .is_training = construction.attr<bool>("is_training")} {}

 protected:
  // Every byte of it: all ones are NaN of any floating type.
  absl::Status Fill(Tensor& tensor, uint8_t value) const {
    if (tensor.num_bytes() == 0) return absl::OkStatus();
    return stream().Fill(tensor.data(), value, tensor.num_bytes());
  }

  const std::string data_format_;
  const BatchNormAttrs attrs_;
};

class FusedBatchNorm final : public BatchNormKernel {
 public:
  explicit FusedBatchNorm(const KernelConstruction& construction)
      : BatchNormKernel(construction, construction.attr<float>("exponential_avg_factor")) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& x = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const NormalizedChannels dims, ReadNormalizedChannels(x.shape(), data_format_));
    WEIR_RETURN_IF_ERROR(
        CheckBatchNorm(context, dims.channels, !attrs_.is_training || attrs_.average_factor != 1));
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.AllocateOutput(0, x.shape()));
    Tensor* statistics[4];  // batch_mean, batch_variance, and what the gradient will want
    for (int i = 0; i < 4; ++i) {
      WEIR_ASSIGN_OR_RETURN(statistics[i], context.AllocateOutput(1 + i, Shape({dims.channels})));
    }
    if (context.num_outputs() == 6) {
      WEIR_ASSIGN_OR_RETURN(Tensor * reserve, context.AllocateOutput(5, Shape()));
      WEIR_RETURN_IF_ERROR(Fill(*reserve, 0));
    }
    if (x.num_elements() == 0) {  // of nothing there is no mean
      for (Tensor* tensor : statistics) WEIR_RETURN_IF_ERROR(Fill(*tensor, 0xFF));
      return absl::OkStatus();
    }
    return LaunchBatchNorm(stream(), kernels(), context.allocator(), {dims.outer, dims.channels, dims.inner},
                           attrs_,
                           {x, context.input(1), context.input(2), context.input(3), context.input(4), *y,
                            *statistics[0], *statistics[1], *statistics[2], *statistics[3]});
  }
};

class FusedBatchNormGrad final : public BatchNormKernel {
 public:
  explicit FusedBatchNormGrad(const KernelConstruction& construction) : BatchNormKernel(construction, 1) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& x = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const NormalizedChannels dims, ReadNormalizedChannels(x.shape(), data_format_));
    WEIR_RETURN_IF_ERROR(CheckBatchNormGrad(context, dims.channels));
    WEIR_ASSIGN_OR_RETURN(Tensor * dx, context.AllocateOutput(0, x.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * scale_gradient, context.AllocateOutput(1, Shape({dims.channels})));
    WEIR_ASSIGN_OR_RETURN(Tensor * offset_gradient, context.AllocateOutput(2, Shape({dims.channels})));
    for (int i = 3; i < 5; ++i) {  // mean and variance get no gradient
      WEIR_RETURN_IF_ERROR(context.AllocateOutput(i, Shape({0})).status());
    }
    if (x.num_elements() == 0) {
      WEIR_RETURN_IF_ERROR(Fill(*scale_gradient, 0));
      return Fill(*offset_gradient, 0);
    }
    return LaunchBatchNormGrad(stream(), kernels(), context.allocator(),
                               {dims.outer, dims.channels, dims.inner}, attrs_,
                               {context.input(0), x, context.input(2), context.input(3), context.input(4),
                                *dx, *scale_gradient, *offset_gradient});
  }
};

}  // namespace

void RegisterBatchNormOps(DeviceKernels& kernels) {
  kernels.Add<FusedBatchNorm>("FusedBatchNorm", {{"T", {DType::kFloat32}}});
  kernels.Add<FusedBatchNormGrad>("FusedBatchNormGrad", {{"T", {DType::kFloat32}}});
  const DeviceKernels::TypeAttrs types = {{"T", {DType::kFloat32, DType::kHalf, DType::kBfloat16}},
                                          {"U", {DType::kFloat32}}};
  for (const char* op : {"FusedBatchNormV2", "FusedBatchNormV3"}) kernels.Add<FusedBatchNorm>(op, types);
  for (const char* op : {"FusedBatchNormGradV2", "FusedBatchNormGradV3"}) {
    kernels.Add<FusedBatchNormGrad>(op, types);
  }
}

}  // namespace weir::cuda
