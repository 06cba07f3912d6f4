// ImageProjectiveTransformV2 and V3: pixel (x, y) of a result is what the image has at
//
//   ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)  where  k = c0 x + c1 y + 1
//
// and [a0, a1, a2, b0, b1, b2, c0, c1] is its image's row of transforms, or the only row. Where k is 0 there
// is nothing: the fill value, which V2 has not and takes for 0.
//
// Source: TensorFlow's core/kernels/image/image_ops.h for what is computed in single precision, and for the
// periods of WRAP, which lie between those of the pixels and of the gaps between them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/image/image_types.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr double kPixelCost = 30, kElementCost = 5;  // nanoseconds on one core

enum class FillMode { kConstant, kReflect, kWrap, kNearest };

// NaN stays NaN.
float Clamped(float position, float last) { return position < 0 ? 0 : position > last ? last : position; }

// Where a position leads to that may lie outside of an axis of `size` pixels.
float Mapped(FillMode mode, float position, int64_t size) {
  const auto length = static_cast<float>(size), last = static_cast<float>(size - 1);
  if (mode == FillMode::kConstant) return position;
  if (size <= 1 || mode == FillMode::kNearest || !std::isfinite(position)) return Clamped(position, last);
  if (mode == FillMode::kReflect) {  // dcba|abcd|dcba
    const float period = static_cast<float>(2 * size);
    if (position < 0) {
      position += period * std::trunc(-position / period);
      position = position < -length ? position + period : -position - 1;
    } else if (position > last) {
      position -= period * std::trunc(position / period);
      if (position >= length) position = period - position - 1;
    }
  } else {  // abcd|abcd|abcd
    if (position < 0) {
      position += length * (std::trunc(-position / last) + 1);
    } else if (position > last) {
      position -= length * std::trunc(position / last);
    }
  }
  return Clamped(position, last);
}

// Towards 0. Numbers beyond T's wrap around; what no 64 bits hold, and NaN, is 0.
template <typename T>
T FromFloat(float value) {
  if constexpr (std::is_integral_v<T>) {
    constexpr float kEnd = 0x1p63f;
    return value >= -kEnd && value < kEnd ? static_cast<T>(static_cast<int64_t>(value)) : T(0);
  } else {
    return static_cast<T>(value);
  }
}

// One image [height, width, channels]. Borrows its pixels.
template <typename T>
struct Image {
  const T* pixels;
  int64_t height, width, channels;

  // Null outside of the image, and where row or column is NaN.
  const T* At(float row, float column) const {
    if (!(row >= 0 && row < static_cast<float>(height))) return nullptr;
    if (!(column >= 0 && column < static_cast<float>(width))) return nullptr;
    // Large integers are rounded where they become floats: what is below the size as a float may not be it.
    const int64_t y = std::min(static_cast<int64_t>(row), height - 1);
    const int64_t x = std::min(static_cast<int64_t>(column), width - 1);
    return pixels + (y * width + x) * channels;
  }
};

struct Sampling {
  bool is_nearest;
  FillMode mode;
};

absl::StatusOr<Sampling> SamplingOf(const KernelConstruction& construction) {
  const std::string& interpolation = construction.attr<std::string>("interpolation");
  if (interpolation != "NEAREST" && interpolation != "BILINEAR") {
    return InvalidArgumentError(
        StrCat("Invalid interpolation ", interpolation, ". Supported types: NEAREST, BILINEAR"));
  }
  const std::string& mode = construction.attr<std::string>("fill_mode");
  constexpr std::pair<absl::string_view, FillMode> kModes[] = {{"CONSTANT", FillMode::kConstant},
                                                               {"REFLECT", FillMode::kReflect},
                                                               {"WRAP", FillMode::kWrap},
                                                               {"NEAREST", FillMode::kNearest}};
  for (const auto& [name, known] : kModes) {
    if (mode == name) return Sampling{interpolation == "NEAREST", known};
  }
  return InvalidArgumentError(
      StrCat("Invalid fill_mode ", mode, ". Supported types: CONSTANT, REFLECT, WRAP, NEAREST"));
}

// Inputs: images, transforms, the size of the results, in V3 the fill value.
template <typename T>
class ProjectiveTransform final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const Sampling sampling, SamplingOf(construction));
    return std::make_unique<ProjectiveTransform>(sampling);
  }
  explicit ProjectiveTransform(const Sampling& sampling) : sampling_(sampling) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& images = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const Shape shape, CheckInputs(context));
    const float fill = context.num_inputs() > 3 ? context.input(3).flat<float>()[0] : 0.0f;
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const from = context.input(0).flat<T>().data();
    const float* const transforms = context.input(1).flat<float>().data();
    const int64_t stride = context.input(1).shape().dim(0) == 1 ? 0 : 8;
    const int64_t height = shape.dim(1), row_elements = shape.dim(2) * shape.dim(3);
    T* const to = output->flat<T>().data();
    const double row_cost =
        kPixelCost * static_cast<double>(shape.dim(2)) + kElementCost * static_cast<double>(row_elements);
    return ParallelForInTime(context, shape.dim(0) * height, row_cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / height;
        const Image<T> image = {from + n * images.dim(1) * images.dim(2) * images.dim(3), images.dim(1),
                                images.dim(2), images.dim(3)};
        SampleRow(image, transforms + n * stride, i % height, shape.dim(2), FromFloat<T>(fill),
                  to + i * row_elements);
      }
    });
  }

 private:
  static absl::StatusOr<Shape> CheckInputs(const KernelContext& context) {
    const Shape &images = context.input(0).shape(), &transforms = context.input(1).shape();
    const Tensor& size = context.input(2);
    if (images.rank() != 4) {
      return InvalidArgumentError(StrCat("Input images must have rank 4, are ", images.ToString()));
    }
    if (transforms.rank() != 2 || transforms.dim(1) != 8 ||
        (transforms.dim(0) != images.dim(0) && transforms.dim(0) != 1)) {
      return InvalidArgumentError(StrCat("Input transform should be num_images x 8 or 1 x 8, is ",
                                         transforms.ToString(), " for images ", images.ToString()));
    }
    if (size.shape().rank() != 1) {
      return InvalidArgumentError(StrCat("output shape must be 1-dimensional, is ", size.shape().ToString()));
    }
    if (size.num_elements() != 2) {
      return InvalidArgumentError(
          StrCat("output shape must have two elements, is ", size.shape().ToString()));
    }
    if (context.num_inputs() > 3 && !context.input(3).shape().is_scalar()) {
      return InvalidArgumentError(
          StrCat("fill_value must be a scalar, is ", context.input(3).shape().ToString()));
    }
    const int64_t height = IntegerAt(size, 0), width = IntegerAt(size, 1);
    if (height <= 0 || width <= 0) {
      return InvalidArgumentError(
          StrCat("output dimensions must be positive, are [", height, ",", width, "]"));
    }
    return Shape::FromDims({images.dim(0), height, width, images.dim(3)});
  }

  void SampleRow(const Image<T>& image, const float* transform, int64_t row, int64_t width, T fill,
                 T* to) const {
    const auto y = static_cast<float>(row);
    for (int64_t column = 0; column < width; ++column, to += image.channels) {
      const auto x = static_cast<float>(column);
      const float k = transform[6] * x + transform[7] * y + 1.0f;
      if (k == 0) {
        std::fill_n(to, image.channels, fill);
        continue;
      }
      const float from_x = (transform[0] * x + transform[1] * y + transform[2]) / k;
      const float from_y = (transform[3] * x + transform[4] * y + transform[5]) / k;
      Sample(image, Mapped(sampling_.mode, from_y, image.height), Mapped(sampling_.mode, from_x, image.width),
             fill, to);
    }
  }

  void Sample(const Image<T>& image, float y, float x, T fill, T* to) const {
    if (sampling_.is_nearest) {
      const T* const pixel = image.At(std::round(y), std::round(x));
      pixel == nullptr ? std::fill_n(to, image.channels, fill) : std::copy_n(pixel, image.channels, to);
      return;
    }
    // Where floats have no fractions left, the upper neighbours are the lower ones, and all weights are 0.
    const float top = std::floor(y), left = std::floor(x), bottom = top + 1, right = left + 1;
    const T *const a = image.At(top, left), *const b = image.At(top, right);
    const T *const c = image.At(bottom, left), *const d = image.At(bottom, right);
    const auto value = [&](const T* pixel, int64_t channel) {
      return static_cast<float>(pixel == nullptr ? fill : pixel[channel]);
    };
    for (int64_t i = 0; i < image.channels; ++i) {
      const float above = (right - x) * value(a, i) + (x - left) * value(b, i);
      const float below = (right - x) * value(c, i) + (x - left) * value(d, i);
      to[i] = FromFloat<T>((bottom - y) * above + (y - top) * below);
    }
  }

  const Sampling sampling_;
};

}  // namespace

void RegisterProjectiveTransformsKernels(DeviceKernels& kernels) {
  const auto types = Types<uint8_t, int32_t, int64_t, Half, Bfloat16, float, double>("dtype");
  kernels.Add<ProjectiveTransform>("ImageProjectiveTransformV2", types);
  kernels.Add<ProjectiveTransform>("ImageProjectiveTransformV3", types);
}

}  // namespace weir
