// What one thread of a kernel of batch normalization does, compiled for GPUs and for the host, where tests
// run it.
//
// Moments and sums are taken of parts of each channel, by a thread each, and put together in double, up to
// kCombinedParts of them at a time (kernels/cpu/nn/batch_norm.cc has the formulas): nothing is added
// atomically, so a device gives the same result every time. Neighbouring threads have neighbouring channels,
// which is fast where the channels are last, and works where they are not.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/element_bodies.h"
#include "kernels/host_device.h"

namespace weir::cuda {

// A tensor as `outer` times `channels` times `inner` elements.
struct ChannelDims {
  int64_t outer, channels, inner;

  // Elements of one channel, and where the kth of them is.
  WEIR_HOST_DEVICE int64_t count() const { return outer * inner; }
  WEIR_HOST_DEVICE int64_t At(int64_t k, int64_t channel) const {
    if (inner == 1) return k * channels + channel;
    return (k / inner * channels + channel) * inner + k % inner;
  }
  WEIR_HOST_DEVICE int64_t ChannelOf(int64_t element) const { return element / inner % channels; }
};

// The parts of a channel: `each` elements, but for the last one.
struct ChannelParts {
  int64_t count, each, parts;

  WEIR_HOST_DEVICE int64_t Begin(int64_t part) const { return part * each; }
  WEIR_HOST_DEVICE int64_t End(int64_t part) const {
    return (part + 1) * each < count ? (part + 1) * each : count;
  }
  WEIR_HOST_DEVICE int64_t SizeOf(int64_t part) const { return End(part) - Begin(part); }
};

// Arrays [2, parts, channels]: of every part the mean, then the sum of squares of the distances from it.
template <typename T>
WEIR_HOST_DEVICE void MomentsBody(ThreadPosition thread, const T* x, double* moments, const ChannelDims& dims,
                                  const ChannelParts& parts) {
  const int64_t turns = parts.parts * dims.channels;
  for (int64_t i = thread.index; i < turns; i += thread.count) {
    const int64_t part = i / dims.channels, channel = i % dims.channels;
    float sum = 0, squares = 0;
    for (int64_t k = parts.Begin(part); k < parts.End(part); ++k) sum += Load(x[dims.At(k, channel)]);
    const float mean = sum / static_cast<float>(parts.SizeOf(part));
    for (int64_t k = parts.Begin(part); k < parts.End(part); ++k) {
      const float shifted = Load(x[dims.At(k, channel)]) - mean;
      squares += shifted * shifted;
    }
    moments[i] = mean;
    moments[turns + i] = squares;
  }
}

// The same arrays of sums: of dy, then of dy * (x - mean).
template <typename T>
WEIR_HOST_DEVICE void GradientSumsBody(ThreadPosition thread, const T* dy, const T* x, const float* mean,
                                       double* sums, const ChannelDims& dims, const ChannelParts& parts) {
  const int64_t turns = parts.parts * dims.channels;
  for (int64_t i = thread.index; i < turns; i += thread.count) {
    const int64_t part = i / dims.channels, channel = i % dims.channels;
    float sum = 0, product = 0;
    for (int64_t k = parts.Begin(part); k < parts.End(part); ++k) {
      const int64_t at = dims.At(k, channel);
      const float gradient = Load(dy[at]);
      sum += gradient;
      product += gradient * (Load(x[at]) - mean[channel]);
    }
    sums[i] = sum;
    sums[turns + i] = product;
  }
}

inline constexpr int64_t kCombinedParts = 32;

// What becomes of `parts` when up to kCombinedParts in a row are put together.
WEIR_HOST_DEVICE inline ChannelParts Combined(const ChannelParts& parts) {
  return {parts.count, parts.each * kCombinedParts, (parts.parts + kCombinedParts - 1) / kCombinedParts};
}

// Puts moments of parts together.
WEIR_HOST_DEVICE inline void CombineMomentsBody(ThreadPosition thread, const double* from, double* to,
                                                int64_t channels, const ChannelParts& parts) {
  const ChannelParts result = Combined(parts);
  const int64_t turns = result.parts * channels;
  const double* const squares_from = from + parts.parts * channels;
  for (int64_t i = thread.index; i < turns; i += thread.count) {
    const int64_t first = i / channels * kCombinedParts, channel = i % channels;
    const int64_t end = first + kCombinedParts < parts.parts ? first + kCombinedParts : parts.parts;
    double sum = 0, squares = 0;
    for (int64_t part = first; part < end; ++part) {
      sum += static_cast<double>(parts.SizeOf(part)) * from[part * channels + channel];
    }
    const double mean = sum / static_cast<double>(result.SizeOf(i / channels));
    for (int64_t part = first; part < end; ++part) {
      const double shift = from[part * channels + channel] - mean;
      squares +=
          squares_from[part * channels + channel] + static_cast<double>(parts.SizeOf(part)) * shift * shift;
    }
    to[i] = mean;
    to[turns + i] = squares;
  }
}

// Puts sums of parts together.
WEIR_HOST_DEVICE inline void CombineSumsBody(ThreadPosition thread, const double* from, double* to,
                                             int64_t channels, const ChannelParts& parts) {
  const ChannelParts result = Combined(parts);
  const int64_t turns = result.parts * channels;
  for (int64_t i = thread.index; i < 2 * turns; i += thread.count) {
    const int64_t which = i / turns, group = i % turns / channels, channel = i % channels;
    const int64_t first = group * kCombinedParts;
    const int64_t end = first + kCombinedParts < parts.parts ? first + kCombinedParts : parts.parts;
    double sum = 0;
    for (int64_t part = first; part < end; ++part) {
      sum += from[(which * parts.parts + part) * channels + channel];
    }
    to[i] = sum;
  }
}

struct BatchNormAttrs {
  float epsilon;
  float average_factor;  // of exponential averages
  bool is_training;
};

// Of every channel.
struct BatchNormVectors {
  const float *scale, *running_mean, *running_variance;
  float *batch_mean, *batch_variance, *saved_mean, *saved_variance;
  float* factor;  // scale / sqrt(variance + epsilon)
};

// `moments` is [2, channels]; not read outside of training.
WEIR_HOST_DEVICE inline void BatchStatisticsBody(ThreadPosition thread, const double* moments,
                                                 int64_t channels, int64_t count, const BatchNormAttrs& attrs,
                                                 const BatchNormVectors& vectors) {
  const float samples = static_cast<float>(count);
  const float correction = samples / (samples - 1 > 1 ? samples - 1 : 1.0f);  // of the variance of a sample
  for (int64_t c = thread.index; c < channels; c += thread.count) {
    float mean, variance, batch_mean, batch_variance;
    if (attrs.is_training) {
      mean = static_cast<float>(moments[c]);
      variance = static_cast<float>(moments[channels + c] / static_cast<double>(count));
      batch_mean = mean;
      batch_variance = variance * correction;
      if (attrs.average_factor != 1) {
        const float rest = 1 - attrs.average_factor;
        batch_mean = rest * vectors.running_mean[c] + attrs.average_factor * batch_mean;
        batch_variance = rest * vectors.running_variance[c] + attrs.average_factor * batch_variance;
      }
    } else {
      mean = batch_mean = vectors.running_mean[c];
      variance = batch_variance = vectors.running_variance[c];
    }
    vectors.batch_mean[c] = batch_mean;
    vectors.batch_variance[c] = batch_variance;
    vectors.saved_mean[c] = mean;
    vectors.saved_variance[c] = variance;
    vectors.factor[c] = vectors.scale[c] / std::sqrt(variance + attrs.epsilon);
  }
}

// y = (x - mean) * factor + offset
template <typename T>
WEIR_HOST_DEVICE void NormalizeBody(ThreadPosition thread, const T* x, T* y, int64_t n,
                                    const ChannelDims& dims, const float* mean, const float* factor,
                                    const float* offset) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const int64_t c = dims.ChannelOf(i);
    Store(y[i], (Load(x[i]) - mean[c]) * factor[c] + offset[c]);
  }
}

// From sums [2, channels] the gradients of scale and offset, and `slopes` [3, channels] for BackpropBody.
WEIR_HOST_DEVICE inline void BatchGradientBody(ThreadPosition thread, const double* sums, int64_t channels,
                                               int64_t count, const float* scale, const float* variance,
                                               const BatchNormAttrs& attrs, float* scale_gradient,
                                               float* offset_gradient, float* slopes) {
  const double samples = static_cast<double>(count);
  for (int64_t c = thread.index; c < channels; c += thread.count) {
    const double sum = sums[c], product = sums[channels + c];
    const double widened = static_cast<double>(variance[c]) + attrs.epsilon, deviation = std::sqrt(widened);
    scale_gradient[c] = static_cast<float>(product / deviation);
    offset_gradient[c] = static_cast<float>(sum);
    slopes[c] = static_cast<float>(scale[c] / deviation);
    slopes[channels + c] = attrs.is_training ? static_cast<float>(sum / samples) : 0;
    slopes[2 * channels + c] = attrs.is_training ? static_cast<float>(product / samples / widened) : 0;
  }
}

// dx = (dy - slopes[1] - (x - mean) * slopes[2]) * slopes[0]
template <typename T>
WEIR_HOST_DEVICE void BackpropBody(ThreadPosition thread, const T* dy, const T* x, T* dx, int64_t n,
                                   const ChannelDims& dims, const float* mean, const float* slopes) {
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const int64_t c = dims.ChannelOf(i);
    const float shifted = Load(x[i]) - mean[c];
    Store(dx[i],
          (Load(dy[i]) - slopes[dims.channels + c] - shifted * slopes[2 * dims.channels + c]) * slopes[c]);
  }
}

// The element types that there are kernels for: visitor.template operator()<T>()
template <typename Visitor>
void VisitNormalized(const Visitor& visitor) {
  visitor.template operator()<float>();
  visitor.template operator()<Half>();
  visitor.template operator()<Bfloat16>();
}

}  // namespace weir::cuda
