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
#include "kernels/cpu/math/functions.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls body(tag, channel) for vectors of channels: as wide as there are, then of 4, then single ones.
template <typename Body>
HWY_INLINE void ForEachVector(int64_t channels, const Body& body) {
  int64_t c = 0;
  const auto cover = [&](auto d) HWY_ATTR {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; c + lanes <= channels; c += lanes) body(d, c);
  };
  cover(hn::ScalableTag<float>());
  cover(hn::CappedTag<float, 4>());
  cover(hn::CappedTag<float, 1>());
}

// The sum of term(r) over the rows, in independent partial sums: one alone would wait for each addition.
template <typename D, typename Term>
HWY_INLINE hn::Vec<D> SumOfRows(D d, int64_t rows, const Term& term) {
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    sum0 = hn::Add(sum0, term(r));
    sum1 = hn::Add(sum1, term(r + 1));
    sum2 = hn::Add(sum2, term(r + 2));
    sum3 = hn::Add(sum3, term(r + 3));
  }
  for (; r < rows; ++r) sum0 = hn::Add(sum0, term(r));
  return hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
}

void ColumnMomentsOf(int64_t rows, int64_t channels, const float* x, float* mean, float* squares) {
  ForEachVector(channels, [&](auto d, int64_t c) HWY_ATTR {
    const float* column = x + c;
    const auto sum =
        SumOfRows(d, rows, [&](int64_t r) HWY_ATTR { return hn::LoadU(d, column + r * channels); });
    const auto center = hn::Div(sum, hn::Set(d, static_cast<float>(rows)));
    hn::StoreU(center, d, mean + c);
    const auto of_squares = SumOfRows(d, rows, [&](int64_t r) HWY_ATTR {
      const auto shifted = hn::Sub(hn::LoadU(d, column + r * channels), center);
      return hn::Mul(shifted, shifted);
    });
    hn::StoreU(of_squares, d, squares + c);
  });
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

// Masked as by ReluGrad (kernels/cpu/math/functions.h): 0 times what is not finite is NaN.
template <bool kIsMasked>
HWY_INLINE float Counted(const float* dy, const float* y, int64_t index) {
  if constexpr (kIsMasked) return elementwise::TimesOneIf(y[index] > 0.0f, dy[index]);
  return dy[index];
}

// The gradient that counts, by how it comes: as it is, masked, or masked and kept.
enum class Flow { kPlain, kMasked, kKept };

template <Flow kFlow>
HWY_INLINE void ColumnSumsOf(int64_t rows, int64_t channels, const MaskedGradient& gradient, const float* x,
                             const float* mean, float* sums, float* products, float* kept) {
  ForEachVector(channels, [&](auto d, int64_t c) HWY_ATTR {
    const auto center = hn::LoadU(d, mean + c);
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), product0 = hn::Zero(d), product1 = hn::Zero(d);
    const auto add = [&](int64_t r, auto& sum, auto& product) HWY_ATTR {
      const int64_t at = r * channels + c;
      auto dy = hn::LoadU(d, gradient.dy + at);
      if constexpr (kFlow != Flow::kPlain) {
        const auto is_on = hn::Gt(hn::LoadU(d, gradient.y + at), hn::Zero(d));
        dy = hn::Mul(dy, hn::IfThenElseZero(is_on, hn::Set(d, 1.0f)));
      }
      if constexpr (kFlow == Flow::kKept) hn::StoreU(dy, d, kept + at);
      sum = hn::Add(sum, dy);
      product = hn::MulAdd(dy, hn::Sub(hn::LoadU(d, x + at), center), product);
    };
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2) {
      add(r, sum0, product0);
      add(r + 1, sum1, product1);
    }
    if (r < rows) add(r, sum0, product0);
    hn::StoreU(hn::Add(sum0, sum1), d, sums + c);
    hn::StoreU(hn::Add(product0, product1), d, products + c);
  });
}

void ColumnGradientSumsOf(int64_t rows, int64_t channels, const MaskedGradient& gradient, const float* x,
                          const float* mean, float* sums, float* products, float* kept) {
  if (gradient.y == nullptr) {
    ColumnSumsOf<Flow::kPlain>(rows, channels, gradient, x, mean, sums, products, kept);
  } else if (kept == nullptr) {
    ColumnSumsOf<Flow::kMasked>(rows, channels, gradient, x, mean, sums, products, kept);
  } else {
    ColumnSumsOf<Flow::kKept>(rows, channels, gradient, x, mean, sums, products, kept);
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
