// How much two boxes overlap: the area of what they share as a part of the area of both.
#pragma once

#include <algorithm>

namespace weir {

// Two opposite corners, each y, x.
struct Box {
  float top, left, bottom, right;

  template <typename T>
  static Box Of(const T* corners) {
    const auto a = static_cast<float>(corners[0]), b = static_cast<float>(corners[1]);
    const auto c = static_cast<float>(corners[2]), d = static_cast<float>(corners[3]);
    return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
  }
  float area() const { return (bottom - top) * (right - left); }
};

// 0 for a box without area.
inline float Overlap(const Box& a, const Box& b) {
  const float area_a = a.area(), area_b = b.area();
  if (area_a <= 0 || area_b <= 0) return 0;
  const float height = std::max(std::min(a.bottom, b.bottom) - std::max(a.top, b.top), 0.0f);
  const float width = std::max(std::min(a.right, b.right) - std::max(a.left, b.left), 0.0f);
  const float shared = height * width;
  return shared / (area_a + area_b - shared);
}

}  // namespace weir
