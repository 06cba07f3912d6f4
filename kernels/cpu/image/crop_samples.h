// Where the pixels of a crop lie in its image, along one axis.
//
// Source: TensorFlow's crop_and_resize_op.cc for the order of single-precision operations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weir {

// `crop` pixels from `begin` to `end`, where 0 is the middle of the image's first pixel and 1 of its last.
struct CropAxis {
  int64_t image, crop;
  float begin, end;

  float Position(int64_t i) const {
    const auto last = static_cast<float>(image - 1);
    if (crop <= 1) return static_cast<float>(0.5 * (begin + end) * static_cast<double>(last));
    const float scale = (end - begin) * last / static_cast<float>(crop - 1);
    return begin * last + static_cast<float>(i) * scale;
  }
  // Beyond the first and the last pixel there is nothing. Floats have not every integer above 2^24: a
  // position that is contained may be that of a pixel after the last one.
  bool Contains(float position) const { return position >= 0 && position <= static_cast<float>(image - 1); }
  // The pixel nearest to a position inside of the image, halves away from 0.
  int64_t Nearest(float position) const { return Clamp(std::round(position)); }
  int64_t Clamp(float pixel) const { return std::min(static_cast<int64_t>(pixel), image - 1); }
};

// The two pixels that a position inside of the image lies between.
struct CropPixels {
  int64_t lower, upper;
  float fraction;

  CropPixels(const CropAxis& axis, float position)
      : lower(axis.Clamp(std::floor(position))),
        upper(axis.Clamp(std::ceil(position))),
        fraction(position - std::floor(position)) {}
};

}  // namespace weir
