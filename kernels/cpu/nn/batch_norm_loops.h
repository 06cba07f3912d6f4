// The loops of batch normalisation over float arrays, compiled once per instruction set.
//
// An array is [rows, channels] (channels last), or one plane of `count` elements of one channel (channels
// first). An output may be an input, element by element. Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace weir {

// The numbers of a channel that its elements are computed from.
struct ChannelAffine {
  const float* center;
  const float* scale;
  const float* offset;
};

// mean[c], and squares[c]: the sum of (x[r,c] - mean[c])^2 over r. Precondition: rows > 0.
void ColumnMoments(int64_t rows, int64_t channels, const float* x, float* mean, float* squares);
void PlaneMoments(int64_t count, const float* x, float* mean, float* squares);

// What a normalized element goes through before it is stored.
struct NormalizedEnd {
  const float* side = nullptr;  // added first, if there is one
  bool has_relu = false;        // then negative numbers become 0, if so
};

// y = (x - center) * scale + offset, and its end.
void NormalizeColumns(int64_t rows, int64_t channels, const float* x, const ChannelAffine& affine,
                      const NormalizedEnd& end, float* y);
void NormalizePlane(int64_t count, const float* x, float center, float scale, float offset,
                    const NormalizedEnd& end, float* y);

// The gradient dy that flows in. Where there is a y, an element counts as 0 unless y is positive there.
struct MaskedGradient {
  const float* dy = nullptr;
  const float* y = nullptr;
};

// sums[c] = the sum of dy[r,c] over r; products[c] = that of dy[r,c] * (x[r,c] - mean[c]). `kept`, if it is
// not null and there is a y, receives the elements of dy as they counted.
void ColumnGradientSums(int64_t rows, int64_t channels, const MaskedGradient& gradient, const float* x,
                        const float* mean, float* sums, float* products, float* kept);
void PlaneGradientSums(int64_t count, const MaskedGradient& gradient, const float* x, float mean, float* sum,
                       float* product, float* kept);

// dx = (dy - offset - (x - center) * slope) * scale
struct ChannelGradient {
  const float* center;
  const float* scale;
  const float* offset;
  const float* slope;
};
void BackpropColumns(int64_t rows, int64_t channels, const MaskedGradient& dy, const float* x,
                     const ChannelGradient& gradient, float* dx);
void BackpropPlane(int64_t count, const MaskedGradient& dy, const float* x, const ChannelGradient& gradient,
                   int64_t channel, float* dx);

}  // namespace weir
