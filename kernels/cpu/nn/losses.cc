// Losses of classifiers, and whether a class is among the top k.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/argument_checks.h"
#include "kernels/cpu/nn/nn_math.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 1.0;  // nanoseconds per logit on one core

// The matrix broadcast to `shape`: as it is when a stride of its rows can express that, else a copy.
template <typename T>
absl::StatusOr<Tensor> BroadcastColumns(KernelContext& context, const Tensor& matrix, int64_t columns) {
  if (matrix.shape().dim(1) == columns) return matrix;
  const int64_t rows = matrix.shape().dim(0);
  WEIR_ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(DTypeOf<T>, {rows, columns}));
  const T* from = matrix.flat<T>().data();
  for (int64_t r = 0; r < rows; ++r) std::fill_n(wide.flat<T>().data() + r * columns, columns, from[r]);
  return wide;
}

// A vector is the only row of a matrix.
Tensor AsMatrix(const Tensor& tensor) {
  return tensor.shape().rank() == 2 ? tensor : tensor.WithShape({1, tensor.num_elements()});
}

absl::StatusOr<Shape> BroadcastMatrices(const Tensor& features, const Tensor& labels) {
  const Shape& a = features.shape();
  const Shape& b = labels.shape();
  bool fits = std::max(a.rank(), b.rank()) == 2;
  Dims dims(2);
  for (int i = 1; fits && i <= 2; ++i) {  // from the last dimension
    const int64_t of_a = i <= a.rank() ? a.dim(a.rank() - i) : 1,
                  of_b = i <= b.rank() ? b.dim(b.rank() - i) : 1;
    fits = of_a == of_b || of_a == 1 || of_b == 1;
    dims[2 - i] = of_a == 1 ? of_b : of_a;
  }
  if (!fits) return ShapesDiffer("logits and labels must be matrices of one shape: logits", a, "labels", b);
  return Shape::FromDims(dims);
}

template <typename T>
absl::Status ComputeCrossEntropy(KernelContext& context) {
  using Wide = ComputeType<T>;
  WEIR_ASSIGN_OR_RETURN(const Shape shape, BroadcastMatrices(context.input(0), context.input(1)));
  WEIR_ASSIGN_OR_RETURN(Tensor * loss, context.AllocateOutput(0, {shape.dim(0)}));
  const bool same_shapes = context.input(0).shape() == context.input(1).shape();
  WEIR_ASSIGN_OR_RETURN(Tensor * backprop, same_shapes ? context.ForwardOrAllocateOutput({0}, 1, shape)
                                                       : context.AllocateOutput(1, shape));
  const int64_t columns = shape.dim(1);
  WEIR_ASSIGN_OR_RETURN(const Tensor wide_logits, Widen(context, AsMatrix(context.input(0))));
  WEIR_ASSIGN_OR_RETURN(const Tensor wide_labels, Widen(context, AsMatrix(context.input(1))));
  WEIR_ASSIGN_OR_RETURN(const Tensor logits, BroadcastColumns<Wide>(context, wide_logits, columns));
  WEIR_ASSIGN_OR_RETURN(const Tensor labels, BroadcastColumns<Wide>(context, wide_labels, columns));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_loss, WideOutput(context, *loss));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_backprop, WideOutput(context, *backprop));
  const int64_t logits_stride = logits.shape().dim(0) == 1 ? 0 : columns;
  const int64_t labels_stride = labels.shape().dim(0) == 1 ? 0 : columns;
  const Wide* x = logits.flat<Wide>().data();
  const Wide* y = labels.flat<Wide>().data();
  Wide* losses = wide_loss.flat<Wide>().data();
  Wide* gradient = wide_backprop.flat<Wide>().data();
  context.threads().ParallelFor(shape.dim(0), kCost * 1.5 * static_cast<double>(columns),
                                [=](int64_t begin, int64_t end) {
                                  CrossEntropy<Wide>(end - begin, columns, x + begin * logits_stride,
                                                     logits_stride, y + begin * labels_stride, labels_stride,
                                                     losses + begin, gradient + begin * columns);
                                });
  Narrow(context, wide_loss, loss);
  Narrow(context, wide_backprop, backprop);
  return absl::OkStatus();
}

template <typename T, typename Label>
absl::Status ComputeSparseCrossEntropy(KernelContext& context) {
  using Wide = ComputeType<T>;
  const Tensor& logits = context.input(0);
  const Tensor& labels = context.input(1);
  WEIR_RETURN_IF_ERROR(CheckLabelShape(logits.shape(), labels.shape()));
  WEIR_RETURN_IF_ERROR(CheckLabels(logits.shape(), labels));
  WEIR_ASSIGN_OR_RETURN(Tensor * loss, context.AllocateOutput(0, labels.shape()));
  WEIR_ASSIGN_OR_RETURN(Tensor * backprop, context.ForwardOrAllocateOutput({0}, 1, logits.shape()));
  WEIR_ASSIGN_OR_RETURN(const Tensor wide_logits, Widen(context, logits));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_loss, WideOutput(context, *loss));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_backprop, WideOutput(context, *backprop));
  const int64_t columns = logits.shape().dim(1);
  const Wide* x = wide_logits.flat<Wide>().data();
  const Label* y = labels.flat<Label>().data();
  Wide* losses = wide_loss.flat<Wide>().data();
  Wide* gradient = wide_backprop.flat<Wide>().data();
  context.threads().ParallelFor(
      labels.num_elements(), kCost * static_cast<double>(columns), [=](int64_t begin, int64_t end) {
        SparseCrossEntropy<Wide, Label>(end - begin, columns, x + begin * columns, y + begin, losses + begin,
                                        gradient + begin * columns);
      });
  Narrow(context, wide_loss, loss);
  Narrow(context, wide_backprop, backprop);
  return absl::OkStatus();
}

// Whether fewer than k classes are more probable than the target. A row with a target out of range, or in
// which a value that matters is not finite, is not in its top k.
template <typename Label>
bool IsInTopK(absl::Span<const float> predictions, Label target, int64_t k) {
  if (target < 0 || target >= static_cast<int64_t>(predictions.size())) return false;
  const float of_target = predictions[target];
  if (!std::isfinite(of_target)) return false;
  int64_t more_probable = 0;
  for (const float prediction : predictions) {
    if (!std::isfinite(prediction)) return false;
    if (prediction > of_target && ++more_probable > k) break;
  }
  return more_probable < k;
}

template <typename Label>
absl::Status ComputeInTopK(KernelContext& context) {
  const Tensor& predictions = context.input(0);
  const Tensor& targets = context.input(1);
  if (predictions.shape().rank() != 2 || targets.shape().rank() != 1 ||
      predictions.shape().dim(0) != targets.shape().dim(0)) {
    return ShapesDiffer("predictions must be [batch,classes] and targets [batch]: predictions",
                        predictions.shape(), "targets", targets.shape());
  }
  if (context.input(2).num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("k must be a scalar, is ", context.input(2).shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, targets.shape()));
  const int64_t classes = predictions.shape().dim(1);
  for (int64_t i = 0; i < targets.num_elements(); ++i) {
    output->flat<bool>()[i] = IsInTopK<Label>(predictions.flat<float>().subspan(i * classes, classes),
                                              targets.flat<Label>()[i], context.input(2).scalar<Label>());
  }
  return absl::OkStatus();
}

template <typename T>
using CrossEntropyKernel = FunctionKernel<ComputeCrossEntropy<T>>;
template <typename T, typename Label>
using SparseCrossEntropyKernel = FunctionKernel<ComputeSparseCrossEntropy<T, Label>>;
template <typename Label>
using InTopKKernel = FunctionKernel<ComputeInTopK<Label>>;

}  // namespace

void RegisterLossesKernels(DeviceKernels& kernels) {
  const auto types = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<CrossEntropyKernel>("SoftmaxCrossEntropyWithLogits", types);
  kernels.Add<SparseCrossEntropyKernel>("SparseSoftmaxCrossEntropyWithLogits", types,
                                        Types<int32_t, int64_t>("Tlabels"));
  kernels.Add<InTopKKernel>("InTopKV2", Types<int32_t, int64_t>("T"));
}

}  // namespace weir
