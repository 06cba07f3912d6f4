// Compiled once per instruction set: the compiler turns the plain loops into that set's vector instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nn/batch_norm_loops.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "kernels/cpu/nn/batch_norm_loops.h"

#include <algorithm>
#include <type_traits>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/loop_pragmas.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {

void ColumnMomentsOf(int64_t rows, int64_t channels, const float* x, float* mean, float* squares) {
  std::fill_n(mean, channels, 0.0f);
  std::fill_n(squares, channels, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * channels;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) mean[c] += row[c];
  }
  for (int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<float>(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * channels;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) squares[c] += (row[c] - mean[c]) * (row[c] - mean[c]);
  }
}

// The sum of term(i) for i below count, in independent partial sums.
template <typename Term>
HWY_INLINE float SumOf(int64_t count, const Term& term) {
  constexpr int kParts = 64;
  float parts[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= count; i += kParts) {
    for (int k = 0; k < kParts; ++k) parts[k] += term(i + k);
  }
  for (int k = 0; i + k < count; ++k) parts[k] += term(i + k);
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) parts[k] += parts[k + half];
  }
  return parts[0];
}

void PlaneMomentsOf(int64_t count, const float* x, float* mean, float* squares) {
  const float center = SumOf(count, [=](int64_t i) { return x[i]; }) / static_cast<float>(count);
  *mean = center;
  *squares = SumOf(count, [=](int64_t i) { return (x[i] - center) * (x[i] - center); });
}

template <bool kHasSide, bool kHasRelu>
HWY_INLINE float Ended(float value, const float* side, int64_t index) {
  if constexpr (kHasSide) value += side[index];
  if constexpr (kHasRelu) value = value < 0.0f ? 0.0f : value;
  return value;
}

// Calls loop with the two flags of an end as constants.
template <typename Loop>
HWY_INLINE void WithEnd(const NormalizedEnd& end, const Loop& loop) {
  if (end.side != nullptr) {
    end.has_relu ? loop(std::true_type(), std::true_type()) : loop(std::true_type(), std::false_type());
  } else {
    end.has_relu ? loop(std::false_type(), std::true_type()) : loop(std::false_type(), std::false_type());
  }
}

void NormalizeColumnsOf(int64_t rows, int64_t channels, const float* x, const ChannelAffine& affine,
                        const NormalizedEnd& end, float* y) {
  const auto [center, scale, offset] = affine;
  WithEnd(end, [&, center = center, scale = scale, offset = offset](auto has_side, auto has_relu) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = x + r * channels;
      const float* side = has_side ? end.side + r * channels : nullptr;
      float* to = y + r * channels;
      WEIR_ELEMENTWISE_LOOP
      for (int64_t c = 0; c < channels; ++c) {
        to[c] = Ended<has_side, has_relu>((from[c] - center[c]) * scale[c] + offset[c], side, c);
      }
    }
  });
}

void NormalizePlaneOf(int64_t count, const float* x, float center, float scale, float offset,
                      const NormalizedEnd& end, float* y) {
  WithEnd(end, [=, side = end.side](auto has_side, auto has_relu) {
    WEIR_ELEMENTWISE_LOOP
    for (int64_t i = 0; i < count; ++i) {
      y[i] = Ended<has_side, has_relu>((x[i] - center) * scale + offset, side, i);
    }
  });
}

template <bool kIsMasked>
HWY_INLINE float Counted(const float* dy, const float* y, int64_t index) {
  if constexpr (kIsMasked) return y[index] > 0.0f ? dy[index] : 0.0f;
  return dy[index];
}

template <bool kIsMasked>
HWY_INLINE void ColumnSumsOf(int64_t rows, int64_t channels, const MaskedGradient& gradient, const float* x,
                             const float* mean, float* sums, float* products) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* x_row = x + r * channels;
    const float* dy_row = gradient.dy + r * channels;
    const float* y_row = kIsMasked ? gradient.y + r * channels : nullptr;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) {
      const float dy = Counted<kIsMasked>(dy_row, y_row, c);
      sums[c] += dy;
      products[c] += dy * (x_row[c] - mean[c]);
    }
  }
}

void ColumnGradientSumsOf(int64_t rows, int64_t channels, const MaskedGradient& gradient, const float* x,
                          const float* mean, float* sums, float* products, float* kept) {
  std::fill_n(sums, channels, 0.0f);
  std::fill_n(products, channels, 0.0f);
  if (gradient.y == nullptr) return ColumnSumsOf<false>(rows, channels, gradient, x, mean, sums, products);
  if (kept == nullptr) return ColumnSumsOf<true>(rows, channels, gradient, x, mean, sums, products);
  // Row by row, so that what was written is read again while it is in the cache.
  for (int64_t r = 0; r < rows; ++r) {
    const MaskedGradient row = gradient.At(r * channels);
    float* kept_row = kept + r * channels;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) kept_row[c] = Counted<true>(row.dy, row.y, c);
    ColumnSumsOf<false>(1, channels, {kept_row}, x + r * channels, mean, sums, products);
  }
}

void PlaneGradientSumsOf(int64_t count, const MaskedGradient& gradient, const float* x, float mean,
                         float* sum, float* product, float* kept) {
  const float *dy = gradient.dy, *y = gradient.y;
  if (y != nullptr && kept == nullptr) {
    *sum = SumOf(count, [=](int64_t i) { return Counted<true>(dy, y, i); });
    *product = SumOf(count, [=](int64_t i) { return Counted<true>(dy, y, i) * (x[i] - mean); });
    return;
  }
  if (y != nullptr) {
    WEIR_ELEMENTWISE_LOOP
    for (int64_t i = 0; i < count; ++i) kept[i] = Counted<true>(dy, y, i);
    dy = kept;
  }
  *sum = SumOf(count, [=](int64_t i) { return dy[i]; });
  *product = SumOf(count, [=](int64_t i) { return dy[i] * (x[i] - mean); });
}

template <bool kIsMasked>
HWY_INLINE void BackpropRowsOf(int64_t rows, int64_t channels, const MaskedGradient& flow, const float* x,
                               const ChannelGradient& gradient, float* dx) {
  const auto [center, scale, offset, slope] = gradient;
  for (int64_t r = 0; r < rows; ++r) {
    const float* x_row = x + r * channels;
    const float* dy_row = flow.dy + r * channels;
    const float* y_row = kIsMasked ? flow.y + r * channels : nullptr;
    float* to = dx + r * channels;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) {
      to[c] =
          (Counted<kIsMasked>(dy_row, y_row, c) - offset[c] - (x_row[c] - center[c]) * slope[c]) * scale[c];
    }
  }
}

void BackpropColumnsOf(int64_t rows, int64_t channels, const MaskedGradient& flow, const float* x,
                       const ChannelGradient& gradient, float* dx) {
  flow.y == nullptr ? BackpropRowsOf<false>(rows, channels, flow, x, gradient, dx)
                    : BackpropRowsOf<true>(rows, channels, flow, x, gradient, dx);
}

template <bool kIsMasked>
HWY_INLINE void BackpropOnePlaneOf(int64_t count, const MaskedGradient& flow, const float* x, float center,
                                   float scale, float offset, float slope, float* dx) {
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    dx[i] = (Counted<kIsMasked>(flow.dy, flow.y, i) - offset - (x[i] - center) * slope) * scale;
  }
}

void BackpropPlaneOf(int64_t count, const MaskedGradient& flow, const float* x,
                     const ChannelGradient& gradient, int64_t channel, float* dx) {
  const float center = gradient.center[channel], scale = gradient.scale[channel];
  const float offset = gradient.offset[channel], slope = gradient.slope[channel];
  flow.y == nullptr ? BackpropOnePlaneOf<false>(count, flow, x, center, scale, offset, slope, dx)
                    : BackpropOnePlaneOf<true>(count, flow, x, center, scale, offset, slope, dx);
}

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {

HWY_EXPORT(ColumnMomentsOf);
HWY_EXPORT(PlaneMomentsOf);
HWY_EXPORT(NormalizeColumnsOf);
HWY_EXPORT(NormalizePlaneOf);
HWY_EXPORT(ColumnGradientSumsOf);
HWY_EXPORT(PlaneGradientSumsOf);
HWY_EXPORT(BackpropColumnsOf);
HWY_EXPORT(BackpropPlaneOf);

void ColumnMoments(int64_t rows, int64_t channels, const float* x, float* mean, float* squares) {
  HWY_DYNAMIC_DISPATCH(ColumnMomentsOf)(rows, channels, x, mean, squares);
}
void PlaneMoments(int64_t count, const float* x, float* mean, float* squares) {
  HWY_DYNAMIC_DISPATCH(PlaneMomentsOf)(count, x, mean, squares);
}
void NormalizeColumns(int64_t rows, int64_t channels, const float* x, const ChannelAffine& affine,
                      const NormalizedEnd& end, float* y) {
  HWY_DYNAMIC_DISPATCH(NormalizeColumnsOf)(rows, channels, x, affine, end, y);
}
void NormalizePlane(int64_t count, const float* x, float center, float scale, float offset,
                    const NormalizedEnd& end, float* y) {
  HWY_DYNAMIC_DISPATCH(NormalizePlaneOf)(count, x, center, scale, offset, end, y);
}
void ColumnGradientSums(int64_t rows, int64_t channels, const MaskedGradient& gradient, const float* x,
                        const float* mean, float* sums, float* products, float* kept) {
  HWY_DYNAMIC_DISPATCH(ColumnGradientSumsOf)
  (rows, channels, gradient, x, mean, sums, products, kept);
}
void PlaneGradientSums(int64_t count, const MaskedGradient& gradient, const float* x, float mean, float* sum,
                       float* product, float* kept) {
  HWY_DYNAMIC_DISPATCH(PlaneGradientSumsOf)(count, gradient, x, mean, sum, product, kept);
}
void BackpropColumns(int64_t rows, int64_t channels, const MaskedGradient& dy, const float* x,
                     const ChannelGradient& gradient, float* dx) {
  HWY_DYNAMIC_DISPATCH(BackpropColumnsOf)(rows, channels, dy, x, gradient, dx);
}
void BackpropPlane(int64_t count, const MaskedGradient& dy, const float* x, const ChannelGradient& gradient,
                   int64_t channel, float* dx) {
  HWY_DYNAMIC_DISPATCH(BackpropPlaneOf)(count, dy, x, gradient, channel, dx);
}

}  // namespace weir
#endif
