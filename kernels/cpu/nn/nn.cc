// Activations, biases, softmax and its losses, InTopK.
#include <cmath>
#include <complex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/nn_math.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/cpu/widened.h"
#include "kernels/kernel_registry.h"

namespace weir {
namespace {

// Nanoseconds per element on one core.
constexpr double kCopyCost = 0.2;
constexpr double kSumCost = 0.15;
constexpr double kSoftmaxCost = 1.0;

template <typename T>
inline constexpr bool kHasVectorMath = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <typename T>
absl::Status ComputeRelu(KernelContext& context) {
  const Tensor& x = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocateOutput({0}, 0, x.shape()));
  const T* from = x.flat<T>().data();
  T* to = y->flat<T>().data();
  context.threads().ParallelFor(x.num_elements(), kCopyCost, [=](int64_t begin, int64_t end) {
    if constexpr (kHasVectorMath<T>) {
      Relu<T>(end - begin, from + begin, to + begin);
    } else {
      for (int64_t i = begin; i < end; ++i) to[i] = from[i] < T(0) ? T(0) : from[i];
    }
  });
  return absl::OkStatus();
}

absl::Status ShapesDiffer(absl::string_view a_name, const Tensor& a, absl::string_view b_name,
                          const Tensor& b) {
  return absl::InvalidArgumentError(
      absl::StrCat(a_name, " is ", a.shape().ToString(), " but ", b_name, " is ", b.shape().ToString()));
}

template <typename T>
absl::Status ComputeReluGrad(KernelContext& context) {
  const Tensor& gradient = context.input(0);
  const Tensor& x = context.input(1);
  if (gradient.shape() != x.shape()) return ShapesDiffer("gradients", gradient, "features", x);
  WEIR_ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocateOutput({0, 1}, 0, x.shape()));
  const T* g = gradient.flat<T>().data();
  const T* from = x.flat<T>().data();
  T* to = y->flat<T>().data();
  context.threads().ParallelFor(x.num_elements(), kCopyCost, [=](int64_t begin, int64_t end) {
    if constexpr (kHasVectorMath<T>) {
      ReluGradient<T>(end - begin, g + begin, from + begin, to + begin);
    } else {
      for (int64_t i = begin; i < end; ++i) to[i] = from[i] > T(0) ? g[i] : T(0);
    }
  });
  return absl::OkStatus();
}

// A tensor as BiasAdd sees it: `outer` times `channels` times `inner` elements (inner is 1 for channels
// last).
struct ChannelView {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};

absl::StatusOr<ChannelView> ViewChannels(const Shape& shape, bool channels_first) {
  if (shape.rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input needs a batch and a channel dimension, is ", shape.ToString()));
  }
  const int axis = channels_first ? 1 : shape.rank() - 1;
  ChannelView view;
  view.channels = shape.dim(axis);
  for (int i = 0; i < axis; ++i) view.outer *= shape.dim(i);
  for (int i = axis + 1; i < shape.rank(); ++i) view.inner *= shape.dim(i);
  return view;
}

// Wraps integers around instead of overflowing.
template <typename T>
T PlainSum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return T(a + b);
  }
}

template <typename T>
class BiasAdd final : public Kernel {
 public:
  explicit BiasAdd(const KernelConstruction& construction)
      : channels_first_(construction.attr<std::string>("data_format") == "NCHW") {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& value = context.input(0);
    const Tensor& bias = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const ChannelView view, ViewChannels(value.shape(), channels_first_));
    if (bias.shape() != Shape({view.channels})) {
      return absl::InvalidArgumentError(absl::StrCat("the bias must be [", view.channels, "] for an input ",
                                                     value.shape().ToString(), ", is ",
                                                     bias.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, value.shape()));
    if (value.num_elements() == 0) return absl::OkStatus();
    const T* x = value.flat<T>().data();
    const T* b = bias.flat<T>().data();
    T* y = output->flat<T>().data();
    if (view.inner == 1) {
      context.threads().ParallelFor(view.outer, kCopyCost * static_cast<double>(view.channels),
                                    [=](int64_t begin, int64_t end) {
                                      const int64_t at = begin * view.channels;
                                      AddBias(end - begin, view.channels, x + at, b, y + at);
                                    });
    } else {
      context.threads().ParallelFor(view.outer * view.channels, kCopyCost * static_cast<double>(view.inner),
                                    [=](int64_t begin, int64_t end) {
                                      for (int64_t i = begin; i < end; ++i) {
                                        AddOneBias(view.inner, x + i * view.inner, b[i % view.channels],
                                                   y + i * view.inner);
                                      }
                                    });
    }
    return absl::OkStatus();
  }

 private:
  static void AddBias(int64_t rows, int64_t columns, const T* x, const T* bias, T* y) {
    if constexpr (kHasVectorMath<T>) {
      AddToRows<T>(rows, columns, x, bias, y);
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) y[r * columns + c] = PlainSum(x[r * columns + c], bias[c]);
      }
    }
  }
  static void AddOneBias(int64_t count, const T* x, T bias, T* y) {
    for (int64_t i = 0; i < count; ++i) y[i] = PlainSum(x[i], bias);
  }

  const bool channels_first_;
};

template <typename T>
class BiasAddGrad final : public Kernel {
 public:
  explicit BiasAddGrad(const KernelConstruction& construction)
      : channels_first_(construction.attr<std::string>("data_format") == "NCHW") {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& gradient = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const ChannelView view, ViewChannels(gradient.shape(), channels_first_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, {view.channels}));
    const T* x = gradient.flat<T>().data();
    T* sums = output->flat<T>().data();
    if (gradient.num_elements() == 0) {
      std::fill_n(sums, view.channels, T{});
      return absl::OkStatus();
    }
    if (view.inner == 1) return SumRows(context, view, x, sums);
    context.threads().ParallelFor(view.channels, kSumCost * static_cast<double>(view.outer * view.inner),
                                  [=](int64_t begin, int64_t end) {
                                    for (int64_t c = begin; c < end; ++c) sums[c] = SumOfChannel(view, c, x);
                                  });
    return absl::OkStatus();
  }

 private:
  using Sum = ComputeType<T>;
  // The rows are summed in blocks of about this many elements, and then the sums of the blocks, whatever the
  // number of threads: so it cannot change the result.
  static constexpr int64_t kBlockElements = 1 << 16;
  // A block of wide rows is a part of each: then it still has 16 of them, and the blocks' sums together take
  // no more than a sixteenth of the input.
  static constexpr int64_t kMaxBlockColumns = 1 << 12;

  static absl::Status SumRows(KernelContext& context, const ChannelView& view, const T* x, T* sums) {
    if (view.channels == 0) return absl::OkStatus();
    const int64_t channels = view.channels;
    const int64_t block_columns = std::min(channels, kMaxBlockColumns);
    const int64_t block_rows = kBlockElements / block_columns;
    const int64_t across = (channels + block_columns - 1) / block_columns;
    const int64_t down = (view.outer + block_rows - 1) / block_rows;
    const auto columns_of = [=](int64_t begin) { return std::min(block_columns, channels - begin); };
    Tensor partial;
    Sum* block_sums = nullptr;
    if constexpr (std::is_same_v<T, Sum>) {
      if (down == 1) block_sums = sums;
    }
    if (block_sums == nullptr) {
      WEIR_ASSIGN_OR_RETURN(partial, context.AllocateTemporary(DTypeOf<Sum>, Shape({down, channels})));
      block_sums = partial.flat<Sum>().data();
    }
    const double block_cost = kSumCost * static_cast<double>(block_rows * block_columns);
    context.threads().ParallelFor(down * across, block_cost, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block / across * block_rows, column = block % across * block_columns;
        SumBlock(std::min(block_rows, view.outer - row), columns_of(column), x + row * channels + column,
                 channels, block_sums + block / across * channels + column);
      }
    });
    if (!partial.is_valid()) return absl::OkStatus();
    const double column_cost = kSumCost * static_cast<double>(down * block_columns);
    context.threads().ParallelFor(across, column_cost, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t column = block * block_columns;
        AddBlocks(down, columns_of(column), channels, block_sums + column, sums + column);
      }
    });
    return absl::OkStatus();
  }

  static void SumBlock(int64_t rows, int64_t columns, const T* x, int64_t stride, Sum* sums) {
    std::fill_n(sums, columns, Sum{});
    if constexpr (kHasVectorMath<T>) {
      AddColumnSums<T>(rows, columns, x, stride, sums);
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c)
          sums[c] = PlainSum(sums[c], static_cast<Sum>(x[r * stride + c]));
      }
    }
  }

  // The sums of the blocks below each other go to `sums`; those of the first block are overwritten.
  static void AddBlocks(int64_t down, int64_t columns, int64_t stride, Sum* block_sums, T* sums) {
    for (int64_t block = 1; block < down; ++block) {
      const Sum* next = block_sums + block * stride;
      for (int64_t c = 0; c < columns; ++c) block_sums[c] = PlainSum(block_sums[c], next[c]);
    }
    for (int64_t c = 0; c < columns; ++c) sums[c] = T(block_sums[c]);
  }

  static T SumOfChannel(const ChannelView& view, int64_t channel, const T* x) {
    Sum total{};
    for (int64_t o = 0; o < view.outer; ++o) {
      const T* plane = x + (o * view.channels + channel) * view.inner;
      Sum sum{};  // planes apart, so that rounding errors do not grow with the batch
      for (int64_t i = 0; i < view.inner; ++i) sum = PlainSum(sum, static_cast<Sum>(plane[i]));
      total = PlainSum(total, sum);
    }
    return T(total);
  }

  const bool channels_first_;
};

template <typename T, void (*softmax)(int64_t, int64_t, const ComputeType<T>*, ComputeType<T>*)>
absl::Status ComputeSoftmax(KernelContext& context) {
  using Wide = ComputeType<T>;
  const Tensor& logits = context.input(0);
  if (logits.shape().rank() < 1)
    return absl::InvalidArgumentError("logits must have a class dimension, are a scalar");
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, logits.shape()));
  if (logits.num_elements() == 0) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen<T>(context, logits));
  WEIR_ASSIGN_OR_RETURN(Tensor y, WideOutput<T>(context, *output));
  const int64_t columns = logits.shape().dim(logits.shape().rank() - 1);
  const Wide* from = x.flat<Wide>().data();
  Wide* to = y.flat<Wide>().data();
  context.threads().ParallelFor(logits.num_elements() / columns, kSoftmaxCost * static_cast<double>(columns),
                                [=](int64_t begin, int64_t end) {
                                  softmax(end - begin, columns, from + begin * columns, to + begin * columns);
                                });
  Narrow<T>(y, output);
  return absl::OkStatus();
}

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

absl::StatusOr<Shape> BroadcastMatrices(const Tensor& features, const Tensor& labels) {
  const Shape& a = features.shape();
  const Shape& b = labels.shape();
  bool fits = a.rank() == 2 && b.rank() == 2;
  Dims dims(2);
  for (int i = 0; fits && i < 2; ++i) {
    fits = a.dim(i) == b.dim(i) || a.dim(i) == 1 || b.dim(i) == 1;
    dims[i] = a.dim(i) == 1 ? b.dim(i) : a.dim(i);
  }
  if (!fits)
    return ShapesDiffer("logits and labels must be matrices of one shape: logits", features, "labels",
                        labels);
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
  WEIR_ASSIGN_OR_RETURN(const Tensor wide_logits, Widen<T>(context, context.input(0)));
  WEIR_ASSIGN_OR_RETURN(const Tensor wide_labels, Widen<T>(context, context.input(1)));
  WEIR_ASSIGN_OR_RETURN(const Tensor logits, BroadcastColumns<Wide>(context, wide_logits, columns));
  WEIR_ASSIGN_OR_RETURN(const Tensor labels, BroadcastColumns<Wide>(context, wide_labels, columns));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_loss, WideOutput<T>(context, *loss));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_backprop, WideOutput<T>(context, *backprop));
  const int64_t logits_stride = logits.shape().dim(0) == 1 ? 0 : columns;
  const int64_t labels_stride = labels.shape().dim(0) == 1 ? 0 : columns;
  const Wide* x = logits.flat<Wide>().data();
  const Wide* y = labels.flat<Wide>().data();
  Wide* losses = wide_loss.flat<Wide>().data();
  Wide* gradient = wide_backprop.flat<Wide>().data();
  context.threads().ParallelFor(shape.dim(0), kSoftmaxCost * 1.5 * static_cast<double>(columns),
                                [=](int64_t begin, int64_t end) {
                                  CrossEntropy<Wide>(end - begin, columns, x + begin * logits_stride,
                                                     logits_stride, y + begin * labels_stride, labels_stride,
                                                     losses + begin, gradient + begin * columns);
                                });
  Narrow<T>(wide_loss, loss);
  Narrow<T>(wide_backprop, backprop);
  return absl::OkStatus();
}

template <typename Label>
absl::Status CheckLabels(const Tensor& logits, const Tensor& labels) {
  if (logits.shape().rank() != 2 || labels.shape().rank() != 1 ||
      logits.shape().dim(0) != labels.shape().dim(0)) {
    return ShapesDiffer("logits must be [batch,classes] and labels [batch]: logits", logits, "labels",
                        labels);
  }
  const int64_t classes = logits.shape().dim(1);
  const absl::Span<const Label> values = labels.flat<Label>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < classes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("label ", values[i], " of example ", i, " is outside [0,", classes, ")"));
  }
  return absl::OkStatus();
}

template <typename T, typename Label>
absl::Status ComputeSparseCrossEntropy(KernelContext& context) {
  using Wide = ComputeType<T>;
  const Tensor& logits = context.input(0);
  const Tensor& labels = context.input(1);
  WEIR_RETURN_IF_ERROR(CheckLabels<Label>(logits, labels));
  WEIR_ASSIGN_OR_RETURN(Tensor * loss, context.AllocateOutput(0, labels.shape()));
  WEIR_ASSIGN_OR_RETURN(Tensor * backprop, context.ForwardOrAllocateOutput({0}, 1, logits.shape()));
  WEIR_ASSIGN_OR_RETURN(const Tensor wide_logits, Widen<T>(context, logits));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_loss, WideOutput<T>(context, *loss));
  WEIR_ASSIGN_OR_RETURN(Tensor wide_backprop, WideOutput<T>(context, *backprop));
  const int64_t columns = logits.shape().dim(1);
  const Wide* x = wide_logits.flat<Wide>().data();
  const Label* y = labels.flat<Label>().data();
  Wide* losses = wide_loss.flat<Wide>().data();
  Wide* gradient = wide_backprop.flat<Wide>().data();
  context.threads().ParallelFor(
      labels.num_elements(), kSoftmaxCost * static_cast<double>(columns), [=](int64_t begin, int64_t end) {
        SparseCrossEntropy<Wide, Label>(end - begin, columns, x + begin * columns, y + begin, losses + begin,
                                        gradient + begin * columns);
      });
  Narrow<T>(wide_loss, loss);
  Narrow<T>(wide_backprop, backprop);
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
    return ShapesDiffer("predictions must be [batch,classes] and targets [batch]: predictions", predictions,
                        "targets", targets);
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

class Registration {
 public:
  Registration(KernelRegistry& registry, absl::string_view device) : registry_(registry), device_(device) {}

  void Add(const char* op, std::map<std::string, std::vector<DType>> types, KernelFactory create) {
    registry_.Register({.op = op, .device_type = device_, .types = std::move(types), .create = create});
  }

  template <typename T>
  void AddActivations() {
    Add("Relu", {{"T", {DTypeOf<T>}}}, CreateKernel<FunctionKernel<ComputeRelu<T>>>);
    Add("ReluGrad", {{"T", {DTypeOf<T>}}}, CreateKernel<FunctionKernel<ComputeReluGrad<T>>>);
  }
  template <typename T>
  void AddBiases() {
    Add("BiasAdd", {{"T", {DTypeOf<T>}}}, CreateKernel<BiasAdd<T>>);
    Add("BiasAddGrad", {{"T", {DTypeOf<T>}}}, CreateKernel<BiasAddGrad<T>>);
  }
  template <typename T>
  void AddSoftmax() {
    using Wide = ComputeType<T>;
    Add("Softmax", {{"T", {DTypeOf<T>}}}, CreateKernel<FunctionKernel<ComputeSoftmax<T, Softmax<Wide>>>>);
    Add("LogSoftmax", {{"T", {DTypeOf<T>}}},
        CreateKernel<FunctionKernel<ComputeSoftmax<T, LogSoftmax<Wide>>>>);
    Add("SoftmaxCrossEntropyWithLogits", {{"T", {DTypeOf<T>}}},
        CreateKernel<FunctionKernel<ComputeCrossEntropy<T>>>);
    AddSparseCrossEntropy<T, int32_t>();
    AddSparseCrossEntropy<T, int64_t>();
  }
  template <typename Label>
  void AddInTopK() {
    Add("InTopKV2", {{"T", {DTypeOf<Label>}}}, CreateKernel<FunctionKernel<ComputeInTopK<Label>>>);
  }

 private:
  template <typename T, typename Label>
  void AddSparseCrossEntropy() {
    Add("SparseSoftmaxCrossEntropyWithLogits", {{"T", {DTypeOf<T>}}, {"Tlabels", {DTypeOf<Label>}}},
        CreateKernel<FunctionKernel<ComputeSparseCrossEntropy<T, Label>>>);
  }

  KernelRegistry& registry_;
  const std::string device_;
};

template <typename... T>
void AddForRealTypes(Registration& registration) {
  (registration.AddActivations<T>(), ...);
  (registration.AddBiases<T>(), ...);
}

template <typename... T>
void AddForFloatingTypes(Registration& registration) {
  (registration.AddSoftmax<T>(), ...);
}

}  // namespace

void RegisterNnKernels(DeviceKernels& kernels) {
  KernelRegistry& registry = kernels.registry();
  const std::string& device_type = kernels.device_type();
  Registration registration(registry, device_type);
  AddForRealTypes<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                  uint32_t, uint64_t>(registration);
  registration.AddBiases<std::complex<float>>();
  registration.AddBiases<std::complex<double>>();
  AddForFloatingTypes<float, double, Half, Bfloat16>(registration);
  registration.AddInTopK<int32_t>();
  registration.AddInTopK<int64_t>();
}

}  // namespace weir
