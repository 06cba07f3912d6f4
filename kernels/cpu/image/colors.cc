// Conversions between red, green, blue and hue, saturation, value, and the adjustments of colours.
//
// Definitions: A. Smith, "Color gamut transform pairs", SIGGRAPH 1978. Hue is in turns. TensorFlow's
// colorspace_op.h and adjust_*_op.cc say which terms are rounded where.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kColorCost = 10;  // nanoseconds on one core

template <typename T>
struct Hsv {
  T hue, saturation, value;
};

template <typename T>
Hsv<T> ToHsv(const T* rgb) {
  const T r = rgb[0], g = rgb[1], b = rgb[2];
  const T value = std::max(r, std::max(g, b)), range = value - std::min(r, std::min(g, b));
  const T norm = T(1) / range * (T(1) / T(6));
  T hue = r == value   ? norm * (g - b)
          : g == value ? norm * (b - r) + T(2) / T(6)
                       : norm * (r - g) + T(4) / T(6);
  if (!(range > 0)) hue = 0;
  if (hue < 0) hue += 1;
  return {hue, value > 0 ? range / value : T(0), value};
}

template <typename T>
void FromHsv(const Hsv<T>& hsv, T* rgb) {
  const T sixth = hsv.hue * T(6);
  const auto part = [](T x) { return std::min(std::max(x, T(0)), T(1)); };
  const T parts[] = {part(std::abs(sixth - T(3)) - T(1)), part(T(2) - std::abs(sixth - T(2))),
                     part(T(2) - std::abs(sixth - T(4)))};
  for (int i = 0; i < 3; ++i) rgb[i] = ((T(1) - hsv.saturation) + hsv.saturation * parts[i]) * hsv.value;
}

// Calls convert(from, to) for each colour of input 0, in the type that its dtype is computed in.
template <typename T, typename Convert>
absl::Status ConvertColors(KernelContext& context, const Convert& convert) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  if (input.num_elements() == 0) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const Tensor wide, Widen(context, input));
  WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
  using Wide = ComputeType<T>;
  const Wide* const from = wide.flat<Wide>().data();
  Wide* const to = result.flat<Wide>().data();
  context.threads().ParallelFor(input.num_elements() / 3, kColorCost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) convert(from + 3 * i, to + 3 * i);
  });
  Narrow(context, result, output);
  return absl::OkStatus();
}

absl::Status CheckColors(const Shape& shape) {
  if (shape.rank() < 1) return absl::InvalidArgumentError("input must be at least 1D");
  const int64_t channels = shape.dim(shape.rank() - 1);
  if (channels == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input must have 3 channels but input only has ", channels, " channels."));
}

template <typename T>
class RgbToHsv final : public Kernel {
 public:
  explicit RgbToHsv(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckColors(context.input(0).shape()));
    return ConvertColors<T>(context, [](const auto* rgb, auto* to) {
      const auto hsv = ToHsv(rgb);
      to[0] = hsv.hue;
      to[1] = hsv.saturation;
      to[2] = hsv.value;
    });
  }
};

template <typename T>
class HsvToRgb final : public Kernel {
 public:
  explicit HsvToRgb(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckColors(context.input(0).shape()));
    return ConvertColors<T>(context, [](const auto* from, auto* to) {
      FromHsv<ComputeType<T>>({from[0], from[1], from[2]}, to);
    });
  }
};

// Images of at least rank 3 and a scalar.
absl::StatusOr<float> ReadAdjustment(const KernelContext& context, absl::string_view name) {
  const Shape& images = context.input(0).shape();
  if (images.rank() < 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("input must be at least 3-D, got shape", images.ToString()));
  }
  if (!context.input(1).shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be scalar: ", context.input(1).shape().ToString()));
  }
  return context.input(1).scalar<float>();
}

absl::Status CheckThreeChannels(const Shape& images) {
  const int64_t channels = images.dim(images.rank() - 1);
  if (channels == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input must have 3 channels but instead has ", channels, " channels."));
}

// The hue in sixths of a turn: between the largest channel and the middle one. Which one is largest, and
// which smallest, is told by its whole part.
struct HueAndRange {
  float hue, smallest, largest;

  explicit HueAndRange(const float* rgb) {
    const float r = rgb[0], g = rgb[1], b = rgb[2];
    int sector = 0;
    float middle = 0;
    const auto set = [&](int which, float low, float mid, float high) {
      sector = which;
      smallest = low;
      middle = mid;
      largest = high;
    };
    if (r < g) {
      if (b < r)
        set(1, b, r, g);
      else if (b > g)
        set(3, r, g, b);
      else
        set(2, r, b, g);
    } else {
      if (b < g)
        set(0, b, g, r);
      else if (b > r)
        set(4, g, r, b);
      else
        set(5, g, b, r);
    }
    hue = 0;
    if (largest == smallest) return;
    const float ratio = (middle - smallest) / (largest - smallest);
    hue = static_cast<float>(sector) + (sector % 2 == 0 ? ratio : 1 - ratio);
  }

  void ToRgb(float* rgb) const {
    const int sector = static_cast<int>(hue);
    const float ratio = hue - static_cast<float>(sector);
    const float middle = smallest + (sector % 2 == 0 ? ratio : 1 - ratio) * (largest - smallest);
    constexpr int kLargest[] = {0, 1, 1, 2, 2, 0}, kSmallest[] = {2, 2, 0, 0, 1, 1};
    const int at = std::clamp(sector, 0, 5);
    rgb[kLargest[at]] = largest;
    rgb[kSmallest[at]] = smallest;
    rgb[3 - kLargest[at] - kSmallest[at]] = middle;
  }
};

template <typename T>
class AdjustHue final : public Kernel {
 public:
  explicit AdjustHue(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const float delta, ReadAdjustment(context, "delta"));
    WEIR_RETURN_IF_ERROR(CheckThreeChannels(context.input(0).shape()));
    return ConvertColors<T>(context, [delta](const float* from, float* to) {
      HueAndRange color(from);
      // Not by steps of a turn: a huge delta would take as long as it is large.
      color.hue = std::fmod(color.hue + delta * 6, 6.0f);
      if (color.hue < 0) color.hue += 6;
      if (!(color.hue < 6)) color.hue = 0;  // rounded to a full turn, or no number
      color.ToRgb(to);
    });
  }
};

template <typename T>
class AdjustSaturation final : public Kernel {
 public:
  explicit AdjustSaturation(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const float scale, ReadAdjustment(context, "scale"));
    WEIR_RETURN_IF_ERROR(CheckThreeChannels(context.input(0).shape()));
    return ConvertColors<T>(context, [scale](const float* from, float* to) {
      Hsv<float> hsv = ToHsv(from);
      hsv.saturation = std::min(1.0f, std::max(0.0f, hsv.saturation * scale));
      FromHsv(hsv, to);
    });
  }
};

// Each channel of each image has a mean; distances from it are multiplied.
template <typename T>
class AdjustContrast final : public Kernel {
 public:
  explicit AdjustContrast(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const float factor, ReadAdjustment(context, "contrast_factor"));
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    if (input.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Tensor wide, Widen(context, input));
    WEIR_ASSIGN_OR_RETURN(Tensor result, WideOutput(context, *output));
    const int rank = input.shape().rank();
    const int64_t channels = input.shape().dim(rank - 1);
    const int64_t pixels = input.shape().dim(rank - 2) * input.shape().dim(rank - 3);
    const float* const from = wide.flat<float>().data();
    float* const to = result.flat<float>().data();
    context.threads().ParallelFor(input.num_elements() / (pixels * channels) * channels,
                                  4.0 * static_cast<double>(pixels), [&](int64_t begin, int64_t end) {
                                    for (int64_t i = begin; i < end; ++i) {
                                      const int64_t at = i / channels * pixels * channels + i % channels;
                                      Adjust(from + at, pixels, channels, factor, to + at);
                                    }
                                  });
    Narrow(context, result, output);
    return absl::OkStatus();
  }

 private:
  static void Adjust(const float* from, int64_t pixels, int64_t stride, float factor, float* to) {
    double sum = 0;
    for (int64_t i = 0; i < pixels; ++i) sum += from[i * stride];
    const auto mean = static_cast<float>(sum / static_cast<double>(pixels));
    for (int64_t i = 0; i < pixels; ++i) to[i * stride] = (from[i * stride] - mean) * factor + mean;
  }
};

}  // namespace

void RegisterColorsKernels(DeviceKernels& kernels) {
  const auto floats = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<RgbToHsv>("RGBToHSV", floats);
  kernels.Add<HsvToRgb>("HSVToRGB", floats);
  const auto adjusted = Types<float, Half>("T");
  kernels.Add<AdjustHue>("AdjustHue", adjusted);
  kernels.Add<AdjustSaturation>("AdjustSaturation", adjusted);
  kernels.Add<AdjustContrast>("AdjustContrastv2", adjusted);
}

}  // namespace weir
