#include "tests/conformance/nn/sliding_windows.h"

#include <algorithm>
#include <utility>

namespace weir::conformance {
namespace {

Window MakeWindow(const std::string& padding, int64_t input, int64_t size, int64_t stride, int64_t dilation,
                  int64_t explicit_before, int64_t explicit_after) {
  const int64_t reach = (size - 1) * dilation + 1;
  if (padding == "SAME") {
    const int64_t output = (input + stride - 1) / stride;
    const int64_t total = std::max<int64_t>(0, (output - 1) * stride + reach - input);
    return {input, size, stride, dilation, output, total / 2};
  }
  if (padding == "VALID") return {input, size, stride, dilation, (input - reach) / stride + 1, 0};
  return {
      input,          size, stride, dilation, (input + explicit_before + explicit_after - reach) / stride + 1,
      explicit_before};
}

}  // namespace

bool ChannelsFirst(const Call& call) {
  return call.node.FindAttr("data_format") != nullptr && call.text("data_format") == "NCHW";
}

Index Pixel(bool channels_first, int64_t n, int64_t y, int64_t x, int64_t c) {
  return channels_first ? Index{n, c, y, x} : Index{n, y, x, c};
}

Windows WindowsOf(const Call& call, const Index& input, int64_t height, int64_t width,
                  const std::vector<int64_t>& dilations) {
  const int h = ChannelsFirst(call) ? 2 : 1;
  const std::vector<int64_t>& strides = call.integers("strides");
  std::vector<int64_t> pads(8, 0);
  if (call.node.FindAttr("explicit_paddings") != nullptr && !call.integers("explicit_paddings").empty()) {
    pads = call.integers("explicit_paddings");
  }
  const std::string& padding = call.text("padding");
  return {MakeWindow(padding, input[h], height, strides[h], dilations[h], pads[2 * h], pads[2 * h + 1]),
          MakeWindow(padding, input[h + 1], width, strides[h + 1], dilations[h + 1], pads[2 * h + 2],
                     pads[2 * h + 3])};
}

void Slide(const Windows& windows,
           const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t)>& visit) {
  for (int64_t oy = 0; oy < windows.y.output; ++oy) {
    for (int64_t ox = 0; ox < windows.x.output; ++ox) {
      for (int64_t ky = 0; ky < windows.y.size; ++ky) {
        for (int64_t kx = 0; kx < windows.x.size; ++kx) {
          const int64_t iy = windows.y.at(oy, ky), ix = windows.x.at(ox, kx);
          if (iy >= 0 && iy < windows.y.input && ix >= 0 && ix < windows.x.input)
            visit(oy, ox, ky, kx, iy, ix);
        }
      }
    }
  }
}

AttrMap WindowAttrs(std::vector<int64_t> strides, const char* padding, std::vector<int64_t> paddings) {
  AttrMap attrs = {{"strides", std::move(strides)}, {"padding", padding}};
  if (!paddings.empty()) attrs["explicit_paddings"] = std::move(paddings);
  return attrs;
}

AttrMap With(AttrMap attrs, const std::string& name, std::vector<int64_t> value) {
  attrs[name] = std::move(value);
  return attrs;
}

}  // namespace weir::conformance
