// ScaleAndTranslate and its gradient: pixel x of the result samples the image at (x + 1/2 - translation) /
// scale through a kernel, which is as wide as a pixel of the result where the image shrinks and antialias is
// set.
//
// Sources: K. Turkowski, "Filters for common resampling tasks" (1990), for Gaussian; R. Keys, "Cubic
// convolution interpolation for digital image processing" (1981); D. Mitchell, A. Netravali, "Reconstruction
// filters in computer graphics", SIGGRAPH 1988; TensorFlow's scale_and_translate_op.cc and sampling_kernels.h
// for borders and for what is computed in single precision.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/image/image_types.h"
#include "kernels/cpu/image/resize_geometry.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kTermCost = 1;  // nanoseconds on one core

struct SamplingKernel {
  float radius;
  float (*weight)(float x);  // of a pixel in a distance of x >= 0
};

template <int radius>
float Lanczos(float x) {
  constexpr auto kPi = 3.14159265359f;
  if (x > radius) return 0;
  if (x <= 1e-3) return 1;
  return static_cast<float>(radius) * std::sin(kPi * x) * std::sin(kPi * x / radius) / (kPi * kPi * x * x);
}

float Gaussian(float x) {
  constexpr float kSigma = 0.5f;
  return x >= 1.5f ? 0.0f : static_cast<float>(std::exp(-x * x / (2.0 * kSigma * kSigma)));
}

float Box(float x) { return x < 0.5f ? 1.0f : x == 0.5f ? 0.5f : 0.0f; }
float Triangle(float x) { return x < 1 ? 1 - x : 0.0f; }

float KeysCubic(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return ((-0.5f * x + 2.5f) * x - 4.0f) * x + 2.0f;
  return ((1.5f * x - 2.5f) * x) * x + 1.0f;
}

float MitchellCubic(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return (((-7.0f / 18.0f) * x + 2.0f) * x - 10.0f / 3.0f) * x + 16.0f / 9.0f;
  return (((7.0f / 6.0f) * x - 2.0f) * x) * x + 8.0f / 9.0f;
}

absl::StatusOr<SamplingKernel> KernelOfName(const std::string& name) {
  constexpr std::pair<absl::string_view, SamplingKernel> kKernels[] = {{"lanczos1", {1, Lanczos<1>}},
                                                                       {"lanczos3", {3, Lanczos<3>}},
                                                                       {"lanczos5", {5, Lanczos<5>}},
                                                                       {"gaussian", {1.5f, Gaussian}},
                                                                       {"box", {1, Box}},
                                                                       {"triangle", {1, Triangle}},
                                                                       {"keyscubic", {2, KeysCubic}},
                                                                       {"mitchellcubic", {2, MitchellCubic}}};
  for (const auto& [known, kernel] : kKernels) {
    if (name == known) return kernel;
  }
  return absl::InvalidArgumentError(absl::StrCat("Unrecognized kernel type: ", name));
}

// One axis: which pixels of the image each pixel of the result is a weighted sum of. The weights of pixel i
// begin at weights[i * size] and are of pixels starts[i], starts[i] + 1 and so on.
struct Spans {
  int64_t size;
  Scratch<int64_t> starts;
  Scratch<float> weights;

  // Pixels from starts[i] on that the image has.
  int64_t Count(int64_t i, int64_t original) const { return std::min(size, original - starts[i]); }
};

// What is asked of one axis.
struct Scaling {
  int64_t original, resized;
  float scale, translation;
};

float Clamped(float x, int64_t most) { return std::min(std::max(x, 0.0f), static_cast<float>(most)); }

absl::StatusOr<Spans> SpansOf(KernelContext& context, const SamplingKernel& kernel, bool antialias,
                              const Scaling& axis) {
  const auto inverse = static_cast<float>(1.0 / axis.scale);
  const float shift = -inverse * axis.translation;
  const float width = antialias ? std::max(inverse, 1.0f) : 1.0f;
  const float reach = kernel.radius * width;
  // In floats first: a tiny scale reaches further than integers count.
  const int64_t widest = 2 * static_cast<int64_t>(Clamped(std::ceil(reach), axis.original)) + 1;
  const int64_t size = std::min(widest, axis.original);
  WEIR_ASSIGN_OR_RETURN(auto starts, Scratch<int64_t>::Allocate(context, axis.resized));
  WEIR_ASSIGN_OR_RETURN(auto weights, Scratch<float>::Allocate(context, axis.resized, size));
  std::fill(starts.begin(), starts.end(), 0);
  std::fill(weights.begin(), weights.end(), 0.0f);
  for (int64_t i = 0; i < axis.resized; ++i) {
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    const float sample = (static_cast<float>(i) + 0.5f) * inverse + shift;
    if (!(sample >= 0 && sample <= static_cast<float>(axis.original))) continue;  // nothing is there
    const int64_t last = axis.original - 1;
    const int64_t begin =
        std::min(static_cast<int64_t>(Clamped(std::ceil(sample - reach - 0.5f), last)), last);
    const int64_t end =
        std::min(static_cast<int64_t>(Clamped(std::floor(sample + reach - 0.5f), last)), last) + 1;
    const int64_t count = std::min(end - begin, size);
    float* const span = &weights[i * size];
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const float distance = static_cast<float>(begin + k) + 0.5f - sample;
      span[k] = kernel.weight(std::abs(distance * (1.0f / width)));
      sum += span[k];
    }
    const bool is_empty = std::abs(sum) < 1000.0f * std::numeric_limits<float>::min();
    for (int64_t k = 0; k < count; ++k) span[k] = is_empty ? 0 : span[k] * (1.0f / sum);
    starts[i] = begin;
  }
  return Spans{size, std::move(starts), std::move(weights)};
}

struct Pair {
  float rows, columns;
};

absl::StatusOr<Pair> ReadPair(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape() != Shape({2})) {
    return absl::InvalidArgumentError(absl::StrCat("t must be 1-dimensional and have two elements: ", name,
                                                   " is ", tensor.shape().ToString()));
  }
  return Pair{tensor.flat<float>()[0], tensor.flat<float>()[1]};
}

// The attrs, and what inputs 2 and 3 ask for.
class Sampling {
 public:
  static absl::StatusOr<Sampling> Of(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const SamplingKernel kernel,
                          KernelOfName(construction.attr<std::string>("kernel_type")));
    return Sampling(kernel, construction.attr<bool>("antialias"));
  }

  struct Axes {
    Spans rows, columns;
  };
  struct Numbers {
    Pair scale, translation;
  };
  static absl::StatusOr<Numbers> Read(const KernelContext& context) {
    WEIR_ASSIGN_OR_RETURN(const Pair scale, ReadPair(context.input(2), "scale"));
    if (!(scale.rows > 0 && scale.columns > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Scale must be greater than zero, is [", scale.rows, ",", scale.columns, "]"));
    }
    WEIR_ASSIGN_OR_RETURN(const Pair translation, ReadPair(context.input(3), "translation"));
    return Numbers{scale, translation};
  }
  // Original and resized images: [batch, height, width, channels]. Takes memory for each pixel of both axes,
  // also where the images have no elements.
  absl::StatusOr<Axes> AxesOf(KernelContext& context, const Numbers& numbers, const Shape& original,
                              const Shape& resized) const {
    const auto& [scale, translation] = numbers;
    WEIR_ASSIGN_OR_RETURN(Spans rows,
                          SpansOf(context, kernel_, antialias_,
                                  {original.dim(1), resized.dim(1), scale.rows, translation.rows}));
    WEIR_ASSIGN_OR_RETURN(Spans columns,
                          SpansOf(context, kernel_, antialias_,
                                  {original.dim(2), resized.dim(2), scale.columns, translation.columns}));
    return Axes{std::move(rows), std::move(columns)};
  }

 private:
  Sampling(const SamplingKernel& kernel, bool antialias) : kernel_(kernel), antialias_(antialias) {}

  SamplingKernel kernel_;
  bool antialias_;
};

// to += weight * from
template <typename T>
void AddScaled(const T* from, float weight, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += weight * static_cast<float>(from[i]);
}

template <typename T>
class ScaleAndTranslate final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const Sampling sampling, Sampling::Of(construction));
    return std::make_unique<ScaleAndTranslate>(sampling);
  }
  explicit ScaleAndTranslate(const Sampling& sampling) : sampling_(sampling) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& images = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ResultShape(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(const Sampling::Numbers numbers, Sampling::Read(context));
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Sampling::Axes axes, sampling_.AxesOf(context, numbers, images, shape));
    const int64_t row = images.dim(2) * images.dim(3), channels = images.dim(3);
    WEIR_ASSIGN_OR_RETURN(Scratch<float> rows,
                          Scratch<float>::Allocate(context, shape.dim(0) * shape.dim(1) * row));
    const T* const from = context.input(0).flat<T>().data();
    float* const to = output->flat<float>().data();
    const double terms = static_cast<double>(row) * static_cast<double>(axes.rows.size + axes.columns.size);
    context.threads().ParallelFor(
        shape.dim(0) * shape.dim(1), kTermCost * terms, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end && !context.cancellation().is_cancelled(); ++i) {
            const T* const image = from + i / shape.dim(1) * images.dim(1) * row;
            float* const sampled = rows.begin() + i * row;
            SampleRows(axes.rows, i % shape.dim(1), image, images.dim(1), row, sampled);
            float* pixel = to + i * shape.dim(2) * channels;
            for (int64_t x = 0; x < shape.dim(2) && !context.cancellation().is_cancelled();
                 ++x, pixel += channels) {
              SampleRows(axes.columns, x, sampled, images.dim(2), channels, pixel);
            }
          }
        });
    return context.cancellation().is_cancelled() ? context.cancellation().reason() : absl::OkStatus();
  }

 private:
  // The weighted sum of those of `original` lines of `size` elements each that pixel i of an axis is made of.
  template <typename From>
  static void SampleRows(const Spans& spans, int64_t i, const From* lines, int64_t original, int64_t size,
                         float* to) {
    std::fill_n(to, size, 0.0f);
    for (int64_t k = 0; k < spans.Count(i, original); ++k) {
      AddScaled(lines + (spans.starts[i] + k) * size, spans.weights[i * spans.size + k], size, to);
    }
  }

  static absl::StatusOr<Shape> ResultShape(const KernelContext& context) {
    const Shape& images = context.input(0).shape();
    constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();
    if (images.rank() != 4) {
      return absl::InvalidArgumentError(absl::StrCat("input must be 4-dimensional, is ", images.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const SizePair size, ReadSize(context.input(1)));
    if (images.dim(1) >= kMostPixels || images.dim(2) >= kMostPixels) {
      return absl::InvalidArgumentError(
          absl::StrCat("input sizes must be between 0 and max int32, input is ", images.ToString()));
    }
    if (size.height <= 0 || size.width <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("output dimensions must be positive, are [", size.height, ",", size.width, "]"));
    }
    if (images.dim(3) == 0) return absl::InvalidArgumentError("image must have at least one channel");
    if (images.dim(1) == 0 || images.dim(2) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("input image must be of non-zero size, is ", images.ToString()));
    }
    // What lies between the two passes must exist too.
    WEIR_RETURN_IF_ERROR(
        Shape::FromDims({images.dim(0), size.height, images.dim(2), images.dim(3)}).status());
    return Shape::FromDims({images.dim(0), size.height, size.width, images.dim(3)});
  }

  const Sampling sampling_;
};

class ScaleAndTranslateGrad final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const Sampling sampling, Sampling::Of(construction));
    return std::make_unique<ScaleAndTranslateGrad>(sampling);
  }
  explicit ScaleAndTranslateGrad(const Sampling& sampling) : sampling_(sampling) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape &gradients = context.input(0).shape(), &images = context.input(1).shape();
    constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();
    for (const auto& [name, shape] :
         {std::pair("input_grad", &gradients), std::pair("original_image", &images)}) {
      if (shape->rank() == 4) continue;
      return absl::InvalidArgumentError(absl::StrCat(name, " must be 4-dimensional, is ", shape->ToString()));
    }
    if (images.dim(1) >= kMostPixels || images.dim(2) >= kMostPixels) {
      return absl::InvalidArgumentError(absl::StrCat(
          "original sizes must be between 0 and max int32, original image is ", images.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({gradients.dim(0), images.dim(1), images.dim(2),
                                                              gradients.dim(3)}));
    WEIR_RETURN_IF_ERROR(
        Shape::FromDims({gradients.dim(0), images.dim(1), gradients.dim(2), gradients.dim(3)}).status());
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(const Sampling::Numbers numbers, Sampling::Read(context));
    if (context.input(0).num_elements() == 0) {
      std::fill(output->flat<float>().begin(), output->flat<float>().end(), 0.0f);
      return absl::OkStatus();
    }
    if (output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Sampling::Axes axes, sampling_.AxesOf(context, numbers, images, gradients));
    const int64_t row = gradients.dim(2) * gradients.dim(3);
    WEIR_ASSIGN_OR_RETURN(Scratch<float> rows,
                          Scratch<float>::Allocate(context, shape.dim(0) * shape.dim(1) * row));
    const float* const from = context.input(0).flat<float>().data();
    float* const to = output->flat<float>().data();
    const double terms =
        static_cast<double>(gradients.dim(1) * row) * static_cast<double>(axes.rows.size + axes.columns.size);
    context.threads().ParallelFor(shape.dim(0), kTermCost * terms, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Spread(axes, from + i * gradients.dim(1) * row, gradients, shape,
               rows.begin() + i * shape.dim(1) * row, to + i * shape.dim(1) * shape.dim(2) * shape.dim(3),
               context.cancellation());
      }
    });
    return context.cancellation().is_cancelled() ? context.cancellation().reason() : absl::OkStatus();
  }

 private:
  // Hands the gradients of one image back to the lines, and then to the pixels, that they were made from. It
  // leaves off when the step is cancelled.
  static void Spread(const Sampling::Axes& axes, const float* from, const Shape& gradients,
                     const Shape& original, float* lines, float* to, const Cancellation& cancellation) {
    const int64_t row = gradients.dim(2) * gradients.dim(3), channels = gradients.dim(3);
    SpreadLines(axes.rows, from, gradients.dim(1), original.dim(1), row, lines, cancellation);
    for (int64_t y = 0; y < original.dim(1); ++y) {
      SpreadLines(axes.columns, lines + y * row, gradients.dim(2), original.dim(2), channels,
                  to + y * original.dim(2) * channels, cancellation);
    }
  }

  static void SpreadLines(const Spans& spans, const float* from, int64_t resized, int64_t original,
                          int64_t size, float* to, const Cancellation& cancellation) {
    std::fill_n(to, original * size, 0.0f);
    for (int64_t i = 0; i < resized && !cancellation.is_cancelled(); ++i, from += size) {
      for (int64_t k = 0; k < spans.Count(i, original); ++k) {
        AddScaled(from, spans.weights[i * spans.size + k], size, to + (spans.starts[i] + k) * size);
      }
    }
  }

  const Sampling sampling_;
};

}  // namespace

void RegisterScaleAndTranslateKernels(DeviceKernels& kernels) {
  kernels.Add<ScaleAndTranslate>("ScaleAndTranslate", PixelTypes());
  kernels.Add<ScaleAndTranslateGrad>("ScaleAndTranslateGrad", {{"T", {DType::kFloat32}}});
}

}  // namespace weir
