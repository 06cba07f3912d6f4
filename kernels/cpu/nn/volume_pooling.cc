// MaxPool3D, AvgPool3D and their gradients; the second derivative of MaxPool3D.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/nn/window_parts.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 0.5;  // nanoseconds per element of a window and channel on one core

// Calls body(input offset) for each pixel of the window of output pixel `out`
// that lies in the volume, in order; offsets are those of the pixels' first
// channels.
template <typename Body>
void ForEachPixel(const WindowGeometry& g, const SpatialSizes& out, const Body& body) {
  SpatialSizes begin, end;
  for (int i = 0; i < 3; ++i) {
    const int64_t first = out[i] * g.stride[i] - g.padding_before[i];
    begin[i] = std::max<int64_t>(first, 0);
    end[i] = std::min(first + g.window[i], g.input[i]);
  }
  for (int64_t d = begin[0]; d < end[0]; ++d)
    for (int64_t h = begin[1]; h < end[1]; ++h)
      for (int64_t w = begin[2]; w < end[2]; ++w) {
        body(((d * g.input[1] + h) * g.input[2] + w) * g.channels);
      }
}

// Calls body(place, output offset) for each output pixel of a volume.
template <typename Body>
void ForEachWindow(const WindowGeometry& g, const Body& body) {
  int64_t offset = 0;
  for (int64_t d = 0; d < g.output[0]; ++d)
    for (int64_t h = 0; h < g.output[1]; ++h)
      for (int64_t w = 0; w < g.output[2]; ++w, offset += g.channels) body(SpatialSizes{d, h, w}, offset);
}

// The largest number; NaN only where there is nothing else.
template <typename T>
void Max(const WindowGeometry& g, const T* input, T* output) {
  ForEachWindow(g, [&](const SpatialSizes& place, int64_t out) {
    bool is_first = true;
    ForEachPixel(g, place, [&](int64_t in) {
      for (int64_t c = 0; c < g.channels; ++c) {
        const T x = input[in + c];
        T& largest = output[out + c];
        if (is_first || x > largest || std::isnan(largest)) largest = x;
      }
      is_first = false;
    });
  });
}

// Every element that equals orig_output gets the whole gradient, as in
// TensorFlow's CPU kernel.
template <typename T>
void MaxGradient(const WindowGeometry& g, const T* input, const T* maxima, const T* gradient, T* result) {
  ForEachWindow(g, [&](const SpatialSizes& place, int64_t out) {
    ForEachPixel(g, place, [&](int64_t in) {
      for (int64_t c = 0; c < g.channels; ++c) {
        if (input[in + c] == maxima[out + c]) result[in + c] += gradient[out + c];
      }
    });
  });
}

// The number at the first element that equals orig_output; 0 where none does.
template <typename T>
void PickAtMax(const WindowGeometry& g, const T* input, const T* maxima, const T* values, T* output) {
  ForEachWindow(g, [&](const SpatialSizes& place, int64_t out) {
    for (int64_t c = 0; c < g.channels; ++c) {
      bool is_found = false;
      output[out + c] = 0;
      ForEachPixel(g, place, [&](int64_t in) {
        if (is_found || input[in + c] != maxima[out + c]) return;
        is_found = true;
        output[out + c] = values[in + c];
      });
    }
  });
}

// Calls body(input offset, output offset, factor) for every pixel of every
// window; the factor is one divided by the number of the window's pixels.
template <typename T, typename Body>
void ForEachShare(const WindowGeometry& g, const Body& body) {
  ForEachWindow(g, [&](const SpatialSizes& place, int64_t out) {
    int64_t count = 0;
    ForEachPixel(g, place, [&](int64_t) { ++count; });
    ForEachPixel(g, place, [&](int64_t in) { body(in, out, T(1) / static_cast<T>(count)); });
  });
}

template <typename T>
void Average(const WindowGeometry& g, const T* input, T* output) {
  std::fill_n(output, g.OutputPixels() * g.channels, T(0));
  ForEachShare<T>(g, [&](int64_t in, int64_t out, T share) {
    for (int64_t c = 0; c < g.channels; ++c) output[out + c] += share * input[in + c];
  });
}

template <typename T>
void AverageGradient(const WindowGeometry& g, const T* gradient, T* result) {
  ForEachShare<T>(g, [&](int64_t in, int64_t out, T share) {
    for (int64_t c = 0; c < g.channels; ++c) result[in + c] += share * gradient[out + c];
  });
}

Shape PooledShape(const WindowGeometry& geometry) {
  return geometry.ImageShape(geometry.output, geometry.channels);
}

absl::Status CheckShape(absl::string_view name, const Tensor& tensor, const Shape& expected) {
  if (tensor.shape() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be ", expected.ToString(), ", is ", tensor.shape().ToString()));
}

enum class Pool { kMax, kMaxGradient, kMaxSecondGradient, kAverage, kAverageGradient };

template <typename T, Pool pool>
class VolumePool final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::ForPooling(construction));
    return std::make_unique<VolumePool>(std::move(attrs));
  }
  explicit VolumePool(WindowAttrs attrs) : attrs_(std::move(attrs)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape volume, VolumeShape(context));
    WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, attrs_.Pooling(volume));
    WEIR_RETURN_IF_ERROR(CheckOtherInputs(context, volume, PooledShape(geometry)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, kGivesVolumes ? volume : PooledShape(geometry)));
    if (output->num_elements() == 0) return absl::OkStatus();  // of maybe very many volumes
    const Wide* data[3] = {};
    Tensor inputs[3];
    for (int i = pool == Pool::kAverageGradient ? 1 : 0; i < context.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(inputs[i], Widen(context, context.input(i)));
      data[i] = inputs[i].template flat<Wide>().data();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    const double cost = kCost * static_cast<double>(geometry.channels);
    WEIR_RETURN_IF_ERROR(ParallelForInTime(
        context, geometry.batch, cost * geometry.PixelPairs(), [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            BeginVolume(geometry, n, result.flat<Wide>().data());
            ForEachPart(context, geometry, cost, [&](const WindowGeometry& part, int64_t first) {
              const int64_t pixels = n * geometry.OutputPixels() + first;
              PoolPart(part, n, pixels * geometry.channels, data, result.flat<Wide>().data());
            });
          }
        }));
    Narrow(context, result, output);
    return absl::OkStatus();
  }

 private:
  using Wide = ComputeType<T>;
  static constexpr bool kGivesVolumes = pool == Pool::kMaxGradient || pool == Pool::kAverageGradient;

  absl::StatusOr<Shape> VolumeShape(KernelContext& context) const {
    if (pool != Pool::kAverageGradient) return context.input(0).shape();
    WEIR_RETURN_IF_ERROR(CheckShape("orig_input_shape", context.input(0), {attrs_.rank()}));
    return ReadShape(context.input(0), "orig_input_shape");
  }

  static absl::Status CheckOtherInputs(KernelContext& context, const Shape& volume, const Shape& pooled) {
    if (pool == Pool::kAverageGradient) return CheckShape("grad", context.input(1), pooled);
    if (pool != Pool::kMaxGradient && pool != Pool::kMaxSecondGradient) return absl::OkStatus();
    WEIR_RETURN_IF_ERROR(CheckShape("orig_output", context.input(1), pooled));
    return CheckShape("grad", context.input(2), kGivesVolumes ? pooled : volume);
  }

  static void BeginVolume(const WindowGeometry& g, int64_t n, Wide* result) {
    const int64_t volume = g.InputPixels() * g.channels;
    if constexpr (kGivesVolumes) std::fill_n(result + n * volume, volume, Wide(0));
  }

  // A part of volume n, whose output begins at element `out`. `inputs`: those of the node, null where one is
  // no volume.
  static void PoolPart(const WindowGeometry& g, int64_t n, int64_t out, const Wide* const (&inputs)[3],
                       Wide* result) {
    const int64_t in = n * g.InputPixels() * g.channels;
    if constexpr (pool == Pool::kMax) Max(g, inputs[0] + in, result + out);
    if constexpr (pool == Pool::kMaxGradient) {
      MaxGradient(g, inputs[0] + in, inputs[1] + out, inputs[2] + out, result + in);
    }
    if constexpr (pool == Pool::kMaxSecondGradient) {
      PickAtMax(g, inputs[0] + in, inputs[1] + out, inputs[2] + in, result + out);
    }
    if constexpr (pool == Pool::kAverage) Average(g, inputs[0] + in, result + out);
    if constexpr (pool == Pool::kAverageGradient) AverageGradient(g, inputs[1] + out, result + in);
  }

  const WindowAttrs attrs_;
};

template <typename T>
using MaxPool3D = VolumePool<T, Pool::kMax>;
template <typename T>
using MaxPool3DGrad = VolumePool<T, Pool::kMaxGradient>;
template <typename T>
using MaxPool3DGradGrad = VolumePool<T, Pool::kMaxSecondGradient>;
template <typename T>
using AvgPool3D = VolumePool<T, Pool::kAverage>;
template <typename T>
using AvgPool3DGrad = VolumePool<T, Pool::kAverageGradient>;

}  // namespace

void RegisterVolumePoolingKernels(DeviceKernels& kernels) {
  kernels.Add<MaxPool3D>("MaxPool3D", Types<float, Half, Bfloat16>("T"));
  kernels.Add<AvgPool3D>("AvgPool3D", Types<float, double, Half, Bfloat16>("T"));
  kernels.Add<AvgPool3DGrad>("AvgPool3DGrad", Types<float, double, Half, Bfloat16>("T"));
  // All of them are computed in float.
  kernels.Add<MaxPool3DGrad>("MaxPool3DGrad", Types<float, Half, Bfloat16>("T"),
                             {{"TInput", {DType::kFloat32, DType::kHalf, DType::kBfloat16}}});
  kernels.Add<MaxPool3DGradGrad>(
      "MaxPool3DGradGrad", Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                                 uint16_t, uint32_t, uint64_t>("T"));
}

}  // namespace weir
