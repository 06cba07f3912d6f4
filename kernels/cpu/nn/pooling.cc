// MaxPool, AvgPool and their gradients; the second derivative of MaxPool. MaxPoolV2 has its windows as
// inputs.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "graph/types/status_macros.h"
#include "kernels/cpu/nn/pool_loops.h"
#include "kernels/cpu/nn/pool_operands.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Pools a batch image by image. A batch with channels first is one of as many images with one channel.
struct Images {
  explicit Images(const WindowGeometry& geometry) : geometry(geometry), count(geometry.batch) {
    if (geometry.channels_first) {
      count *= geometry.channels;
      this->geometry.channels = 1;
    }
    input_elements = geometry.input[0] * geometry.input[1] * this->geometry.channels;
    output_elements = geometry.output[0] * geometry.output[1] * this->geometry.channels;
    if (input_elements == 0 && output_elements == 0) count = 0;  // there may be very many of them
  }

  WindowGeometry geometry;
  int64_t count;
  int64_t input_elements;
  int64_t output_elements;

  // Nanoseconds of one image.
  double cost() const {
    constexpr double kPerWindowElement = 0.2;
    return kPerWindowElement * geometry.PixelPairs() * static_cast<double>(geometry.channels);
  }
};

// What MaxPool gives when no element is larger. It is computed as a ComputeType<T>, whose own lowest number
// would become an infinity.
template <typename T>
constexpr ComputeType<T> Lowest() {
  if constexpr (std::is_same_v<T, Half>) return -65504;
  if constexpr (std::is_same_v<T, Bfloat16>) return -0x1.fep127f;
  return std::numeric_limits<ComputeType<T>>::lowest();
}

template <typename T>
void RunMax(ThreadPool& threads, const Images& images, const ComputeType<T>* input, ComputeType<T>* output) {
  const PoolLoops<ComputeType<T>> loops = PoolLoopsFor<ComputeType<T>>();
  threads.ParallelFor(images.count, images.cost(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      loops.max(images.geometry, input + n * images.input_elements, Lowest<T>(),
                output + n * images.output_elements);
    }
  });
}

template <typename T>
void RunMaxGradient(ThreadPool& threads, const Images& images, const T* input, const T* gradient, T* result) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  threads.ParallelFor(images.count, 2 * images.cost(), [&](int64_t begin, int64_t end) {
    std::fill(result + begin * images.input_elements, result + end * images.input_elements, T(0));
    for (int64_t n = begin; n < end; ++n) {
      const int64_t in = n * images.input_elements, out = n * images.output_elements;
      loops.max_gradient(images.geometry, input + in, gradient + out, result + in);
    }
  });
}

template <typename T>
void RunPickAtMax(ThreadPool& threads, const Images& images, const T* input, const T* maxima, const T* values,
                  T* output) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  threads.ParallelFor(images.count, images.cost(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t in = n * images.input_elements, out = n * images.output_elements;
      loops.pick_at_max(images.geometry, input + in, maxima + out, values + in, output + out);
    }
  });
}

template <typename T>
void RunAverage(ThreadPool& threads, const Images& images, const T* input, T* output) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  threads.ParallelFor(images.count, images.cost(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      loops.average(images.geometry, input + n * images.input_elements, output + n * images.output_elements);
    }
  });
}

template <typename T>
void RunAverageGradient(ThreadPool& threads, const Images& images, const T* gradient, T* result) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  threads.ParallelFor(images.count, images.cost(), [&](int64_t begin, int64_t end) {
    std::fill(result + begin * images.input_elements, result + end * images.input_elements, T(0));
    for (int64_t n = begin; n < end; ++n) {
      loops.average_gradient(images.geometry, gradient + n * images.output_elements,
                             result + n * images.input_elements);
    }
  });
}

// Makes a `Pool` of checked attrs.
template <typename Pool>
struct Checked {
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(PoolWindows windows, PoolWindows::Of(construction));
    return std::make_unique<Pool>(std::move(windows));
  }
};

class PoolKernel : public Kernel {
 public:
  explicit PoolKernel(PoolWindows windows) : windows_(std::move(windows)) {}

 protected:
  const PoolWindows windows_;
};

template <typename T, void (*run)(ThreadPool&, const Images&, const ComputeType<T>*, ComputeType<T>*)>
class ForwardPool final : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, windows_.Geometry(context, input.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, PooledShape(geometry)));
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, input));
    WEIR_ASSIGN_OR_RETURN(Tensor y, WideOutput(context, *output));
    run(context.threads(), Images(geometry), x.flat<Wide>().data(), y.flat<Wide>().data());
    Narrow(context, y, output);
    return absl::OkStatus();
  }
};

// As in TensorFlow's CPU kernel only the shape of orig_output is used: it may have been fed something else
// than the maxima.
template <typename T>
class MaxPoolGrad final : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Shape& shape = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, windows_.OfMaxPoolGrad(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Tensor gradient, Widen(context, context.input(2)));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    RunMaxGradient(context.threads(), Images(geometry), x.flat<Wide>().data(), gradient.flat<Wide>().data(),
                   result.flat<Wide>().data());
    Narrow(context, result, output);
    return absl::OkStatus();
  }
};

// Unlike MaxPoolGrad it looks for the elements of orig_output, as TensorFlow's CPU kernel does.
template <typename T>
class MaxPoolGradGrad final : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Shape& shape = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, windows_.Geometry(context, shape));
    WEIR_RETURN_IF_ERROR(CheckPoolShape("orig_output", context.input(1), PooledShape(geometry)));
    WEIR_RETURN_IF_ERROR(CheckPoolShape("grad", context.input(2), shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, PooledShape(geometry)));
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Tensor maxima, Widen(context, context.input(1)));
    WEIR_ASSIGN_OR_RETURN(const Tensor gradient, Widen(context, context.input(2)));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    RunPickAtMax(context.threads(), Images(geometry), x.flat<Wide>().data(), maxima.flat<Wide>().data(),
                 gradient.flat<Wide>().data(), result.flat<Wide>().data());
    Narrow(context, result, output);
    return absl::OkStatus();
  }
};

template <typename T>
class AvgPoolGrad final : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, windows_.OfAvgPoolGrad(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, geometry.ImageShape(geometry.input, geometry.channels)));
    WEIR_ASSIGN_OR_RETURN(const Tensor gradient, Widen(context, context.input(1)));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    RunAverageGradient(context.threads(), Images(geometry), gradient.flat<Wide>().data(),
                       result.flat<Wide>().data());
    Narrow(context, result, output);
    return absl::OkStatus();
  }
};

template <typename T>
using MaxPoolKernel = Checked<ForwardPool<T, RunMax<T>>>;
template <typename T>
using AvgPoolKernel = Checked<ForwardPool<T, RunAverage<ComputeType<T>>>>;
template <typename T>
using MaxPoolGradKernel = Checked<MaxPoolGrad<T>>;
template <typename T>
using MaxPoolGradGradKernel = Checked<MaxPoolGradGrad<T>>;
template <typename T>
using AvgPoolGradKernel = Checked<AvgPoolGrad<T>>;

}  // namespace

void RegisterPoolingKernels(DeviceKernels& kernels) {
  const auto reals = Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                           uint16_t, uint32_t, uint64_t>("T");
  kernels.Add<MaxPoolKernel>("MaxPool", reals);
  kernels.Add<MaxPoolGradKernel>("MaxPoolGrad", reals);
  kernels.Add<MaxPoolGradGradKernel>("MaxPoolGradGrad", reals);
  kernels.Add<MaxPoolKernel>("MaxPoolV2", reals);
  kernels.Add<MaxPoolGradKernel>("MaxPoolGradV2", reals);
  kernels.Add<MaxPoolGradGradKernel>("MaxPoolGradGradV2", reals);
  const auto floats = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<AvgPoolKernel>("AvgPool", floats);
  kernels.Add<AvgPoolGradKernel>("AvgPoolGrad", floats);
}

}  // namespace weir
