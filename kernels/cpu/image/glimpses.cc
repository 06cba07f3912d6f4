// ExtractGlimpse and ExtractGlimpseV2: windows of images, with noise where they leave the image.
//
// The noise is uniform between the image's extremes, or normal with a channel's mean and deviation and within
// its extremes, or 0. No seed names it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

enum class Noise { kUniform, kGaussian, kZero };

absl::StatusOr<Noise> NoiseOf(const KernelConstruction& construction) {
  const bool uniform = construction.attr<bool>("uniform_noise");
  const std::string& noise = construction.attr<std::string>("noise");
  if (uniform && !noise.empty() && noise != "uniform") {
    return InvalidArgumentError("The uniform_noise and noise could not be specified at the same time");
  }
  if (noise.empty()) return uniform ? Noise::kUniform : Noise::kGaussian;
  if (noise == "uniform") return Noise::kUniform;
  if (noise == "gaussian") return Noise::kGaussian;
  if (noise == "zero") return Noise::kZero;
  return InvalidArgumentError(StrCat("The noise could only be uniform, gaussian, or zero, got ", noise));
}

// A window [begin, begin + size) of `image` pixels along one axis, and the part of it that they are.
struct Range {
  int64_t begin, size, image;
  int64_t first() const { return std::clamp<int64_t>(-begin, 0, size); }
  int64_t last() const { return std::clamp<int64_t>(image - begin, first(), size); }
};

class ExtractGlimpse final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const Noise noise, NoiseOf(construction));
    return std::make_unique<ExtractGlimpse>(construction, noise);
  }

  ExtractGlimpse(const KernelConstruction& construction, Noise noise)
      : is_first_version_(construction.node().op_name() == "ExtractGlimpse"),
        centered_(construction.attr<bool>("centered")),
        normalized_(construction.attr<bool>("normalized")),
        noise_(noise),
        stream_(0, 0) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& input = context.input(0).shape();
    WEIR_ASSIGN_OR_RETURN(const Shape shape, CheckInputs(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    const float* image = context.input(0).flat<float>().data();
    const float* offset = context.input(2).flat<float>().data();
    float* glimpse = output->flat<float>().data();
    for (int64_t i = 0; i < shape.dim(0); ++i, offset += 2) {
      const Range rows = RangeAt(offset[0], input.dim(1), shape.dim(1));
      const Range columns = RangeAt(offset[1], input.dim(2), shape.dim(2));
      const int64_t elements = shape.dim(1) * shape.dim(2) * shape.dim(3);
      const int64_t pixels = (rows.last() - rows.first()) * (columns.last() - columns.first());
      if (pixels < shape.dim(1) * shape.dim(2)) {
        FillWithNoise(image, input.dim(1) * input.dim(2), input.dim(3), glimpse, elements);
      }
      Copy(image, rows, columns, input.dim(3), glimpse);
      image += input.dim(1) * input.dim(2) * input.dim(3);
      glimpse += elements;
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<Shape> CheckInputs(const KernelContext& context) {
    const Shape &input = context.input(0).shape(), &offsets = context.input(2).shape();
    const Tensor& size = context.input(1);
    if (input.rank() != 4) {
      return InvalidArgumentError(
          StrCat("input must be 4-dimensional (batch_size, height, width, depth)", input.ToString()));
    }
    if (size.shape() != Shape({2})) {
      return InvalidArgumentError(
          StrCat("input must be a vector of size 2 (height, width)", size.shape().ToString()));
    }
    if (offsets.rank() != 2) {
      return InvalidArgumentError(StrCat("input must be a matrix", offsets.ToString()));
    }
    if (offsets.dim(0) != input.dim(0)) {
      return InvalidArgumentError(StrCat("first dimension should be batch", offsets.ToString()));
    }
    if (offsets.dim(1) != 2) {
      return InvalidArgumentError(StrCat("second dimension should be of size 2 (y,x)", offsets.ToString()));
    }
    return Shape::FromDims({input.dim(0), IntegerAt(size, 0), IntegerAt(size, 1), input.dim(3)});
  }

  // The first version takes half of the window away from every offset, and halves every centered one.
  Range RangeAt(float offset, int64_t image, int64_t size) const {
    const auto extent = static_cast<float>(image);
    float begin = normalized_ ? offset * extent : offset;
    if (centered_) {
      if (normalized_ || is_first_version_) begin /= 2;
      begin += extent / 2;
    }
    if (is_first_version_ || (centered_ && normalized_)) begin -= static_cast<float>(size) / 2;
    // Beyond these there is nothing of the image; NaN is there too.
    const auto most = static_cast<float>(image + size);
    if (!(begin >= -most && begin <= most)) begin = begin < 0 ? -most : most;
    return {static_cast<int64_t>(begin), size, image};
  }

  void FillWithNoise(const float* image, int64_t pixels, int64_t channels, float* to, int64_t count) {
    if (noise_ == Noise::kZero || pixels == 0) {
      std::fill_n(to, count, 0.0f);
    } else if (noise_ == Noise::kUniform) {
      const auto [least, largest] = std::minmax_element(image, image + pixels * channels);
      Philox bits = stream_.ReserveBlocks(static_cast<uint64_t>((count + 3) / 4));
      for (int64_t i = 0; i < count; i += 4) {
        const Philox::Block block = bits.Next();
        for (int64_t k = i; k < std::min(i + 4, count); ++k) {
          to[k] = *least + UniformFloat(block[k - i]) * (*largest - *least);
        }
      }
    } else {
      for (int64_t c = 0; c < channels; ++c) FillChannel(image + c, pixels, channels, to + c, count);
    }
  }

  void FillChannel(const float* image, int64_t pixels, int64_t channels, float* to, int64_t count) {
    double sum = 0, squares = 0;
    float least = image[0], largest = image[0];
    for (int64_t i = 0; i < pixels; ++i) {
      const float x = image[i * channels];
      sum += x;
      least = std::min(least, x);
      largest = std::max(largest, x);
    }
    const double mean = sum / static_cast<double>(pixels);
    for (int64_t i = 0; i < pixels; ++i) {
      const double distance = image[i * channels] - mean;
      squares += distance * distance;
    }
    const auto deviation = static_cast<float>(std::sqrt(squares / static_cast<double>(pixels)));
    Philox bits = stream_.ReserveBlocks(static_cast<uint64_t>(count / channels));
    for (int64_t i = 0; i < count; i += channels) {
      const Philox::Block block = bits.Next();
      const float noise = static_cast<float>(mean) + NormalFloats(block[0], block[1])[0] * deviation;
      to[i] = std::max(std::min(noise, largest), least);
    }
  }

  static void Copy(const float* image, const Range& rows, const Range& columns, int64_t channels, float* to) {
    for (int64_t y = rows.first(); y < rows.last(); ++y) {
      const float* const row = image + (rows.begin + y) * columns.image * channels;
      std::copy_n(row + (columns.begin + columns.first()) * channels,
                  (columns.last() - columns.first()) * channels,
                  to + (y * columns.size + columns.first()) * channels);
    }
  }

  const bool is_first_version_, centered_, normalized_;
  const Noise noise_;
  RandomStream stream_;
};

}  // namespace

void RegisterGlimpsesKernels(DeviceKernels& kernels) {
  kernels.Add<ExtractGlimpse>("ExtractGlimpse");
  kernels.Add<ExtractGlimpse>("ExtractGlimpseV2");
}

}  // namespace weir
