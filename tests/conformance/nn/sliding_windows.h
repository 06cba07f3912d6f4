// Windows that slide over images, as convolutions and pools define them: written once for their references.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/attr_value.h"
#include "kernels/reference/array.h"

namespace weir::conformance {

using reference::Call;
using reference::Index;

bool ChannelsFirst(const Call& call);
// The index of a pixel's channel in either layout.
Index Pixel(bool channels_first, int64_t n, int64_t y, int64_t x, int64_t c);

// One spatial dimension of a sliding window.
struct Window {
  int64_t input, size, stride, dilation, output, before;

  // The input pixel under window pixel k at output pixel o; outside [0, input) is padding.
  int64_t at(int64_t o, int64_t k) const { return o * stride + k * dilation - before; }
};

struct Windows {
  Window y, x;
};
Windows WindowsOf(const Call& call, const Index& input, int64_t height, int64_t width,
                  const std::vector<int64_t>& dilations);

// Calls visit(oy, ox, ky, kx, iy, ix) for every window pixel that lies in the image.
void Slide(const Windows& windows,
           const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t)>& visit);

// The attrs of a call: strides, padding and, unless they are empty, explicit paddings.
AttrMap WindowAttrs(std::vector<int64_t> strides, const char* padding, std::vector<int64_t> paddings = {});
// The attrs with this one set or replaced.
AttrMap With(AttrMap attrs, const std::string& name, std::vector<int64_t> value);

}  // namespace weir::conformance
