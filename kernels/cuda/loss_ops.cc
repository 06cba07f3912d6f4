// Softmax cross entropy, of classes and of distributions.
#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/row_launches.h"
#include "kernels/cuda/spread.h"

namespace weir::cuda {
namespace {

class CrossEntropy final : public CudaKernel {
 public:
  explicit CrossEntropy(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& logits = context.input(0);
    const Tensor& labels = context.input(1);
    const absl::StatusOr<Shape> shape = BroadcastShapes({&logits.shape(), &labels.shape()});
    if (logits.shape().rank() != 2 || labels.shape().rank() != 2 || !shape.ok()) {
      return ShapesDiffer("logits and labels must be matrices of one shape: logits", logits.shape(), "labels",
                          labels.shape());
    }
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_logits, Widened(context, logits, *shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor wide_labels, Widened(context, labels, *shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * losses, context.AllocateOutput(0, {shape->dim(0)}));
    WEIR_ASSIGN_OR_RETURN(Tensor * gradient, context.AllocateOutput(1, *shape));
    return LaunchCrossEntropy(stream(), kernels(), wide_logits, wide_labels, *losses, *gradient);
  }

  absl::StatusOr<Tensor> Widened(KernelContext& context, const Tensor& x, const Shape& shape) const {
    if (x.shape() == shape) return x;
    WEIR_ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(x.dtype(), shape));
    WEIR_RETURN_IF_ERROR(Broadcast(stream(), kernels(), x, wide));
    return wide;
  }
};

// The labels are looked at on the GPU. Where one is no class, loss and gradient are NaN, variables stay as
// they are, and the step has the CPU's error when somebody waits for it.
class SparseCrossEntropy final : public CudaKernel {
 public:
  explicit SparseCrossEntropy(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& logits = context.input(0);
    const Tensor& labels = context.input(1);
    WEIR_RETURN_IF_ERROR(CheckLabelShape(logits.shape(), labels.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * losses, context.AllocateOutput(0, labels.shape()));
    if (labels.num_elements() == 0) return context.AllocateOutput(1, logits.shape()).status();
    WEIR_ASSIGN_OR_RETURN(Tensor * gradient, context.ForwardOrAllocateOutput({0}, 1, logits.shape()));
    const auto explain = [shape = logits.shape()](absl::Span<const Tensor> on_host, const DataError&) {
      return CheckLabels(shape, on_host[0]);
    };
    return Check(context, {labels}, explain, [&](const DataErrorPlace& place) {
      return LaunchSparseCrossEntropy(stream(), kernels(), logits, labels, *losses, *gradient, place);
    });
  }
};

}  // namespace

void RegisterLossOps(DeviceKernels& kernels) {
  const std::vector<DType> floats = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};
  kernels.Add<CrossEntropy>("SoftmaxCrossEntropyWithLogits", {{"T", floats}});
  kernels.Add<SparseCrossEntropy>("SparseSoftmaxCrossEntropyWithLogits",
                                  {{"T", floats}, {"Tlabels", {DType::kInt32, DType::kInt64}}});
}

}  // namespace weir::cuda
