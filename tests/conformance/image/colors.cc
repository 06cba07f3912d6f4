// Colours, by the pictures of the color circle in A. Smith, "Color gamut transform pairs", SIGGRAPH 1978.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using Color = std::array<double, 3>;

Color Hsv(const Color& rgb) {
  const auto [least, largest] = std::minmax({rgb[0], rgb[1], rgb[2]});
  const double range = largest - least;
  double hue = 0;
  if (range > 0) {
    // Which third of the circle, and where in it.
    const int third = rgb[0] == largest ? 0 : rgb[1] == largest ? 1 : 2;
    hue = third / 3.0 + (rgb[(third + 1) % 3] - rgb[(third + 2) % 3]) / range / 6;
    if (hue < 0) hue += 1;
  }
  return {hue, largest > 0 ? range / largest : 0, largest};
}

Color Rgb(const Color& hsv) {
  const auto channel = [&](double peak) {  // by the distance from where the channel is largest
    double distance = std::abs(hsv[0] - peak);
    distance = std::min(distance, 1 - distance);
    const double part = std::clamp(2 - 6 * distance, 0.0, 1.0);
    return (1 - hsv[1] + hsv[1] * part) * hsv[2];
  };
  return {channel(0), channel(1 / 3.0), channel(2 / 3.0)};
}

reference::Reference EachColor(std::function<Color(const Color&, const reference::Call&)> f) {
  return [f](reference::Call& call) {
    const Array& x = call.in(0);
    call.outputs[0] = Array(x.dims());
    for (int64_t i = 0; i < x.size(); i += 3) {
      const Color y = f({x[i].real(), x[i + 1].real(), x[i + 2].real()}, call);
      for (int k = 0; k < 3; ++k) call.outputs[0][i + k] = y[k];
    }
  };
}

void Contrast(reference::Call& call) {
  const Array& x = call.in(0);
  const double factor = call.in(1)[0].real();
  call.outputs[0] = Array(x.dims());
  for (int64_t i = 0; i < x.size(); ++i) {
    Index at = x.IndexOf(i);
    double sum = 0;
    const int height = x.rank() - 3, width = x.rank() - 2;
    for (at[height] = 0; at[height] < x.dim(height); ++at[height]) {
      for (at[width] = 0; at[width] < x.dim(width); ++at[width]) sum += x.at(at).real();
    }
    const double mean = sum / double(x.dim(height) * x.dim(width));
    call.outputs[0][i] = (x[i].real() - mean) * factor + mean;
  }
}

void AddAdjustment(OpRecord& op, const std::vector<double>& amounts) {
  const auto scalar = [](double x) { return Make(DType::kFloat32, {}, {x}); };
  op.NoGradient();
  for (const DType dtype : {DType::kFloat32, DType::kHalf}) {
    op.Tolerance(dtype == DType::kHalf ? 4e-3 : 1e-5);
    for (const double amount : amounts) {
      op.Call({Sample(dtype, {2, 3, 4, 3}, 0.05, 1, 1), scalar(amount)});
      op.Call({Make(dtype, {1, 4, 3}, {0.5, 0.5, 0.5, 0, 0, 0, 1, 0.25, 0.25, 0.25, 1, 1}), scalar(amount)});
    }
    op.Call({Sample(dtype, {2, 0, 4, 3}), scalar(0.5)});
  }
  op.Hostile({Floats({4, 3}), scalar(1)}, "input must be at least 3-D");
  op.Hostile({Floats({2, 2, 3}), Floats({1})}, "must be scalar");
}

}  // namespace

void AddColorsRecords(Suite& suite) {
  OpRecord& to_hsv = suite.Op("RGBToHSV").Reference(EachColor([](const Color& c, const reference::Call&) {
    return Hsv(c);
  }));
  OpRecord& to_rgb = suite.Op("HSVToRGB").Reference(EachColor([](const Color& c, const reference::Call&) {
    return Rgb(c);
  }));
  for (OpRecord* op : {&to_hsv, &to_rgb}) {
    for (const DType dtype : kReals) {
      op->Tolerance(dtype == DType::kBfloat16 ? 2e-2 : dtype == DType::kHalf ? 4e-3 : 1e-5);
      if (dtype == DType::kFloat64) op->Tolerance(1e-12);
      if (dtype == DType::kHalf) op->NoGradient();  // TensorFlow's overflows there
      op->Call({Sample(dtype, {2, 5, 3}, 0.05, 1, 1)}).Call({Sample(dtype, {3}, 0.05, 1, 2)});
      op->Call({Sample(dtype, {0, 3})});
    }
    op->Hostile({Floats({2, 4})}, "input must have 3 channels");
    op->Hostile({Make(DType::kFloat32, {}, {1})}, "input must be at least 1D");
  }
  to_hsv.NoGradient();  // ties, black and white
  to_hsv.Call(
      {Make(DType::kFloat32, {6, 3}, {0, 0, 0, 1, 1, 1, 0.5, 0.5, 0.25, 0, 1, 1, 1, 0, 1, 0.25, 0.5, 0.5})});
  to_rgb.Call({Make(DType::kFloat32, {3, 3}, {0, 0, 0, 1, 1, 1, 0.5, 0, 0.25})});

  AddAdjustment(suite.Op("AdjustHue").Reference(EachColor([](const Color& c, const reference::Call& call) {
    Color hsv = Hsv(c);
    hsv[0] += call.in(1)[0].real();
    hsv[0] -= std::floor(hsv[0]);
    return Rgb(hsv);
  })),
                {0.1, 0.75, -0.6, 3.25});
  AddAdjustment(
      suite.Op("AdjustSaturation").Reference(EachColor([](const Color& c, const reference::Call& call) {
        Color hsv = Hsv(c);
        hsv[1] = std::clamp(hsv[1] * call.in(1)[0].real(), 0.0, 1.0);
        return Rgb(hsv);
      })),
      {0.5, 0, 2.5});
  AddAdjustment(suite.Op("AdjustContrastv2").Reference(Contrast), {0.5, 0, 2});
  for (const char* op : {"AdjustHue", "AdjustSaturation"}) {
    suite.Op(op).Hostile({Floats({2, 2, 4}), Make(DType::kFloat32, {}, {1})}, "input must have 3 channels");
  }
}

}  // namespace weir::conformance
