// Softmax cross entropy, of classes and of distributions.
#include "graph/types/status_macros.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cuda/argument_checks.h"
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
      return ShapesDiffer("logits and labels must be matrices of one shape: logits", logits, "labels",
                          labels);
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

// The labels come in the host's memory, where they are looked at before anything is enqueued: a step with a
// class that does not exist fails here, and what would have used its gradient does not run.
class SparseCrossEntropy final : public CudaKernel {
 public:
  explicit SparseCrossEntropy(const KernelConstruction& construction) : CudaKernel(construction) {}

 private:
  absl::Status Enqueue(KernelContext& context) override {
    const Tensor& logits = context.input(0);
    const Tensor& labels = context.input(1);
    WEIR_RETURN_IF_ERROR(CheckLabels(logits, labels));
    WEIR_ASSIGN_OR_RETURN(Tensor * losses, context.AllocateOutput(0, labels.shape()));
    if (labels.num_elements() == 0) return context.AllocateOutput(1, logits.shape()).status();
    WEIR_ASSIGN_OR_RETURN(const Tensor there, device().CopyIn(labels, [](const absl::Status&) {}));
    WEIR_ASSIGN_OR_RETURN(Tensor * gradient, context.ForwardOrAllocateOutput({0}, 1, logits.shape()));
    // No label is bad: nobody writes to where the first one would be noted.
    return LaunchSparseCrossEntropy(stream(), kernels(), logits, there, *losses, *gradient, nullptr);
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
