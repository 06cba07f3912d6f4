// The types of pixels.
#pragma once

#include <cstdint>

#include "graph/types/float16.h"
#include "kernels/device_kernels.h"

namespace weir {

// Those that resizing takes.
inline auto PixelTypes() {
  return Types<float, double, Half, Bfloat16, uint8_t, int8_t, uint16_t, int16_t, int32_t, int64_t>("T");
}
// Those that CropAndResize takes.
inline auto CroppedTypes() {
  return Types<float, double, Half, uint8_t, int8_t, uint16_t, int16_t, int32_t, int64_t>("T");
}

}  // namespace weir
