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
#include "kernels/cpu/nn/window_parts.h"
#include "kernels/cpu/timely_loop.h"
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

  // Nanoseconds of one image, and of an element of a window in all channels.
  double cost() const { return geometry.PixelPairs() * cost_of_place(); }
  double cost_of_place() const {
    constexpr double kPerWindowElement = 0.2;
    return kPerWindowElement * static_cast<double>(geometry.channels);
  }
};

// Calls body(part, input offset, output offset) for all images, on several threads, and for the parts of each
// in their order; before them begin(first, end) for the images of a range.
template <typename Begin, typename Body>
absl::Status ForEachImage(KernelContext& context, const Images& images, double cost_factor,
                          const Begin& begin_range, const Body& body) {
  return ParallelForInTime(
      context, images.count, cost_factor * images.cost(), [&](int64_t begin, int64_t end) {
        begin_range(begin, end);
        for (int64_t n = begin; n < end; ++n) {
          ForEachPart(context, images.geometry, cost_factor * images.cost_of_place(),
                      [&](const WindowGeometry& part, int64_t first) {
                        body(part, n * images.input_elements,
                             n * images.output_elements + first * images.geometry.channels);
                      });
        }
      });
}

// The same for outputs that are written, and for gradients that are added to.
template <typename Body>
absl::Status ForEachImage(KernelContext& context, const Images& images, const Body& body) {
  return ForEachImage(
      context, images, 1, [](int64_t, int64_t) {}, body);
}
template <typename T, typename Body>
absl::Status AddForEachImage(KernelContext& context, const Images& images, double cost_factor, T* sums,
                             const Body& body) {
  const auto clear = [&](int64_t begin, int64_t end) {
    std::fill(sums + begin * images.input_elements, sums + end * images.input_elements, T(0));
  };
  return ForEachImage(context, images, cost_factor, clear, body);
}

// What MaxPool gives when no element is larger. It is computed as a ComputeType<T>, whose own lowest number
// would become an infinity.
template <typename T>
constexpr ComputeType<T> Lowest() {
  if constexpr (std::is_same_v<T, Half>) return -65504;
  if constexpr (std::is_same_v<T, Bfloat16>) return -0x1.fep127f;
  return std::numeric_limits<ComputeType<T>>::lowest();
}

template <typename T>
absl::Status RunMax(KernelContext& context, const Images& images, const ComputeType<T>* input,
                    ComputeType<T>* output) {
  const PoolLoops<ComputeType<T>> loops = PoolLoopsFor<ComputeType<T>>();
  return ForEachImage(context, images, [&](const WindowGeometry& part, int64_t in, int64_t out) {
    loops.max(part, input + in, Lowest<T>(), output + out);
  });
}

template <typename T>
absl::Status RunMaxGradient(KernelContext& context, const Images& images, const T* input, const T* gradient,
                            T* result) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  return AddForEachImage(context, images, 2, result,
                         [&](const WindowGeometry& part, int64_t in, int64_t out) {
                           loops.max_gradient(part, input + in, gradient + out, result + in);
                         });
}

template <typename T>
absl::Status RunPickAtMax(KernelContext& context, const Images& images, const T* input, const T* maxima,
                          const T* values, T* output) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  return ForEachImage(context, images, [&](const WindowGeometry& part, int64_t in, int64_t out) {
    loops.pick_at_max(part, input + in, maxima + out, values + in, output + out);
  });
}

template <typename T>
absl::Status RunAverage(KernelContext& context, const Images& images, const T* input, T* output) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  return ForEachImage(context, images, [&](const WindowGeometry& part, int64_t in, int64_t out) {
    loops.average(part, input + in, output + out);
  });
}

template <typename T>
absl::Status RunAverageGradient(KernelContext& context, const Images& images, const T* gradient, T* result) {
  const PoolLoops<T> loops = PoolLoopsFor<T>();
  return AddForEachImage(context, images, 1, result,
                         [&](const WindowGeometry& part, int64_t in, int64_t out) {
                           loops.average_gradient(part, gradient + out, result + in);
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

template <typename T,
          absl::Status (*run)(KernelContext&, const Images&, const ComputeType<T>*, ComputeType<T>*)>
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
    WEIR_RETURN_IF_ERROR(run(context, Images(geometry), x.flat<Wide>().data(), y.flat<Wide>().data()));
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
    WEIR_RETURN_IF_ERROR(RunMaxGradient(context, Images(geometry), x.flat<Wide>().data(),
                                        gradient.flat<Wide>().data(), result.flat<Wide>().data()));
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
    WEIR_RETURN_IF_ERROR(RunPickAtMax(context, Images(geometry), x.flat<Wide>().data(),
                                      maxima.flat<Wide>().data(), gradient.flat<Wide>().data(),
                                      result.flat<Wide>().data()));
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
    WEIR_RETURN_IF_ERROR(RunAverageGradient(context, Images(geometry), gradient.flat<Wide>().data(),
                                            result.flat<Wide>().data()));
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
