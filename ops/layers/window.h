// Height and width of a window or stride over images; one number stands for both.
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

}  // namespace weir::layers
