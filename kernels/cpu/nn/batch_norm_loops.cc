// Compiled once per instruction set: the compiler turns the plain loops into that set's vector instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/nn/batch_norm_loops.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "kernels/cpu/nn/batch_norm_loops.h"

#include <algorithm>

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

void NormalizeColumnsOf(int64_t rows, int64_t channels, const float* x, const ChannelAffine& affine,
                        float* y) {
  const auto [center, scale, offset] = affine;
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x + r * channels;
    float* to = y + r * channels;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) to[c] = (from[c] - center[c]) * scale[c] + offset[c];
  }
}

void NormalizePlaneOf(int64_t count, const float* x, float center, float scale, float offset, float* y) {
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - center) * scale + offset;
}

void ColumnGradientSumsOf(int64_t rows, int64_t channels, const float* dy, const float* x, const float* mean,
                          float* sums, float* products) {
  std::fill_n(sums, channels, 0.0f);
  std::fill_n(products, channels, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const float* x_row = x + r * channels;
    const float* dy_row = dy + r * channels;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += dy_row[c];
      products[c] += dy_row[c] * (x_row[c] - mean[c]);
    }
  }
}

void PlaneGradientSumsOf(int64_t count, const float* dy, const float* x, float mean, float* sum,
                         float* product) {
  *sum = SumOf(count, [=](int64_t i) { return dy[i]; });
  *product = SumOf(count, [=](int64_t i) { return dy[i] * (x[i] - mean); });
}

void BackpropColumnsOf(int64_t rows, int64_t channels, const float* dy, const float* x,
                       const ChannelGradient& gradient, float* dx) {
  const auto [center, scale, offset, slope] = gradient;
  for (int64_t r = 0; r < rows; ++r) {
    const float* x_row = x + r * channels;
    const float* dy_row = dy + r * channels;
    float* to = dx + r * channels;
    WEIR_ELEMENTWISE_LOOP
    for (int64_t c = 0; c < channels; ++c) {
      to[c] = (dy_row[c] - offset[c] - (x_row[c] - center[c]) * slope[c]) * scale[c];
    }
  }
}

void BackpropPlaneOf(int64_t count, const float* dy, const float* x, const ChannelGradient& gradient,
                     int64_t channel, float* dx) {
  const float center = gradient.center[channel], scale = gradient.scale[channel];
  const float offset = gradient.offset[channel], slope = gradient.slope[channel];
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < count; ++i) dx[i] = (dy[i] - offset - (x[i] - center) * slope) * scale;
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
void NormalizeColumns(int64_t rows, int64_t channels, const float* x, const ChannelAffine& affine, float* y) {
  HWY_DYNAMIC_DISPATCH(NormalizeColumnsOf)(rows, channels, x, affine, y);
}
void NormalizePlane(int64_t count, const float* x, float center, float scale, float offset, float* y) {
  HWY_DYNAMIC_DISPATCH(NormalizePlaneOf)(count, x, center, scale, offset, y);
}
void ColumnGradientSums(int64_t rows, int64_t channels, const float* dy, const float* x, const float* mean,
                        float* sums, float* products) {
  HWY_DYNAMIC_DISPATCH(ColumnGradientSumsOf)(rows, channels, dy, x, mean, sums, products);
}
void PlaneGradientSums(int64_t count, const float* dy, const float* x, float mean, float* sum,
                       float* product) {
  HWY_DYNAMIC_DISPATCH(PlaneGradientSumsOf)(count, dy, x, mean, sum, product);
}
void BackpropColumns(int64_t rows, int64_t channels, const float* dy, const float* x,
                     const ChannelGradient& gradient, float* dx) {
  HWY_DYNAMIC_DISPATCH(BackpropColumnsOf)(rows, channels, dy, x, gradient, dx);
}
void BackpropPlane(int64_t count, const float* dy, const float* x, const ChannelGradient& gradient,
                   int64_t channel, float* dx) {
  HWY_DYNAMIC_DISPATCH(BackpropPlaneOf)(count, dy, x, gradient, channel, dx);
}

}  // namespace weir
#endif
