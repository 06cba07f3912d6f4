// Height and width of a window or stride over images, and depth, height and
// width of one over volumes; one number stands for all.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace weir::layers {

struct Window {
  Window(int64_t size) : height(size), width(size) {}
  Window(int64_t height, int64_t width) : height(height), width(width) {}

  // As attrs have it: one number per dimension of the image, 1 for batch and channels.
  std::vector<int64_t> PerDimension(absl::string_view data_format) const {
    if (data_format == "NCHW") return {1, 1, height, width};
    return {1, height, width, 1};
  }

  int64_t height = 1;
  int64_t width = 1;
};

struct Window3D {
  Window3D(int64_t size) : depth(size), height(size), width(size) {}
  Window3D(int64_t depth, int64_t height, int64_t width) : depth(depth), height(height), width(width) {}

  // As attrs have it, for volumes [batch, depth, height, width, channels].
  std::vector<int64_t> PerDimension() const { return {1, depth, height, width, 1}; }

  int64_t depth = 1;
  int64_t height = 1;
  int64_t width = 1;
};

}  // namespace weir::layers
