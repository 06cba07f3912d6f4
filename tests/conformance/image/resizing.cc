// Images in other sizes. Each pixel of a result is a weighted sum of pixels, by rows and by columns.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

// Pixels of one axis and their weights.
using Taps = std::vector<std::pair<int64_t, double>>;

struct Axis {
  int64_t original, resized;
  bool align, half;

  double scale() const {
    return align && resized > 1 ? double(original - 1) / double(resized - 1)
                                : double(original) / double(resized);
  }
  double at(int64_t i) const { return half ? (i + 0.5) * scale() - 0.5 : i * scale(); }
  int64_t Clamp(int64_t pixel) const { return std::clamp<int64_t>(pixel, 0, original - 1); }
};
using TapsOf = std::function<Taps(const Axis&, int64_t i)>;

Taps Linear(const Axis& axis, int64_t i) {
  const double at = axis.at(i), floor = std::floor(at);
  return {{axis.Clamp(int64_t(floor)), 1 - (at - floor)}, {axis.Clamp(int64_t(std::ceil(at))), at - floor}};
}

Taps Nearest(const Axis& axis, int64_t i) {
  const double at = axis.half ? (i + 0.5) * axis.scale() : i * axis.scale();
  return {{axis.Clamp(int64_t(axis.align ? std::round(at) : std::floor(at))), 1}};
}

double Keys(double x, double a) {
  return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

Taps Cubic(const Axis& axis, int64_t i) {
  const double at = axis.at(i), floor = std::floor(at), x = std::rint((at - floor) * 1024) / 1024;
  Taps taps;
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    const int64_t pixel = int64_t(floor) + k;
    double weight = Keys(std::abs(x - k), axis.half ? -0.5 : -0.75);
    if (axis.half && pixel != axis.Clamp(pixel)) weight = 0;
    taps.emplace_back(axis.Clamp(pixel), weight);
    sum += weight;
  }
  for (auto& [pixel, weight] : taps) weight /= axis.half ? sum : 1;
  return taps;
}

Taps Area(const Axis& axis, int64_t i) {
  const double from = i * axis.scale(), to = (i + 1) * axis.scale();
  Taps taps;
  for (auto p = int64_t(std::floor(from)); p < to; ++p) {
    taps.emplace_back(axis.Clamp(p), (std::min(to, p + 1.0) - std::max(from, double(p))) / axis.scale());
  }
  return taps;
}

// The result of shape [batch, height, width, channels] of images.
Array Sampled(const Array& images, int64_t height, int64_t width, const std::function<Taps(int64_t)>& rows,
              const std::function<Taps(int64_t)>& columns) {
  return Generate({images.dim(0), height, width, images.dim(3)}, [&](const Index& at) {
    double sum = 0;
    for (const auto& [y, wy] : rows(at[1])) {
      for (const auto& [x, wx] : columns(at[2])) sum += wy * wx * images.at({at[0], y, x, at[3]}).real();
    }
    return Value(sum);
  });
}

// The gradients for images of that size.
Array Spread(const Array& gradients, int64_t height, int64_t width, const std::function<Taps(int64_t)>& rows,
             const std::function<Taps(int64_t)>& columns) {
  Array sums({gradients.dim(0), height, width, gradients.dim(3)});
  for (int64_t i = 0; i < gradients.size(); ++i) {
    const Index at = gradients.IndexOf(i);
    for (const auto& [y, wy] : rows(at[1])) {
      for (const auto& [x, wx] : columns(at[2])) {
        sums.at({at[0], y, x, at[3]}).number += wy * wx * gradients[i].real();
      }
    }
  }
  return sums;
}

bool HalfPixels(const reference::Call& call) {
  return call.node.FindAttr("half_pixel_centers") != nullptr && call.flag("half_pixel_centers");
}

reference::Reference Resize(const TapsOf& taps) {
  return [taps](reference::Call& call) {
    const Array& images = call.in(0);
    const Index size = call.in(1).integers();
    const auto axis = [&](int i) {
      return Axis{images.dim(i + 1), size[i], call.flag("align_corners"), HalfPixels(call)};
    };
    call.outputs[0] = Sampled(
        images, size[0], size[1], [&](int64_t i) { return taps(axis(0), i); },
        [&](int64_t i) { return taps(axis(1), i); });
  };
}

// Input 1 holds the original images, or their height and width.
reference::Reference ResizeGradient(const TapsOf& taps) {
  return [taps](reference::Call& call) {
    const Array& gradients = call.in(0);
    const Array& original = call.in(1);
    const Index size = original.rank() == 4 ? Index{original.dim(1), original.dim(2)} : original.integers();
    const auto axis = [&](int i) {
      return Axis{size[i], gradients.dim(i + 1), call.flag("align_corners"), HalfPixels(call)};
    };
    call.outputs[0] = Spread(
        gradients, size[0], size[1], [&](int64_t i) { return taps(axis(0), i); },
        [&](int64_t i) { return taps(axis(1), i); });
  };
}

// ---- ScaleAndTranslate ----

double Sinc(double x) { return x < 1e-3 ? 1 : std::sin(M_PI * x) / (M_PI * x); }

double Weight(const std::string& kernel, double x) {
  if (kernel == "gaussian") return x < 1.5 ? std::exp(-2 * x * x) : 0;
  if (kernel == "box") return x < 0.5 ? 1 : x == 0.5 ? 0.5 : 0;
  if (kernel == "triangle") return std::max(0.0, 1 - x);
  if (kernel == "keyscubic") return x < 2 ? Keys(x, -0.5) : 0;
  if (kernel == "mitchellcubic") {
    if (x >= 2) return 0;
    return x < 1 ? (7 * x / 6 - 2) * x * x + 8.0 / 9 : ((2 - 7 * x / 18) * x - 10.0 / 3) * x + 16.0 / 9;
  }
  const double radius = kernel.back() - '0';  // lanczos1, 3, 5
  return x > radius ? 0 : Sinc(x) * Sinc(x / radius);
}

Taps SpanOf(const reference::Call& call, int axis, int64_t original, int64_t i) {
  const double scale = call.in(2)[axis].real(), translation = call.in(3)[axis].real();
  const double sample = (i + 0.5 - translation) / scale;
  const double width = call.flag("antialias") ? std::max(1.0, 1 / scale) : 1;
  Taps taps;
  if (sample < 0 || sample > double(original)) return taps;
  double sum = 0;
  for (int64_t p = 0; p < original; ++p) {
    taps.emplace_back(p, Weight(call.text("kernel_type"), std::abs(p + 0.5 - sample) / width));
    sum += taps.back().second;
  }
  for (auto& [pixel, weight] : taps) weight = sum == 0 ? 0 : weight / sum;
  return taps;
}

void ScaleAndTranslate(reference::Call& call) {
  const Array& images = call.in(0);
  const Index size = call.in(1).integers();
  call.outputs[0] = Sampled(
      images, size[0], size[1], [&](int64_t i) { return SpanOf(call, 0, images.dim(1), i); },
      [&](int64_t i) { return SpanOf(call, 1, images.dim(2), i); });
}

void ScaleAndTranslateGradient(reference::Call& call) {
  const Array& images = call.in(1);
  call.outputs[0] = Spread(
      call.in(0), images.dim(1), images.dim(2), [&](int64_t i) { return SpanOf(call, 0, images.dim(1), i); },
      [&](int64_t i) { return SpanOf(call, 1, images.dim(2), i); });
}

const std::vector<DType> kPixels = {DType::kFloat32, DType::kFloat64, DType::kHalf,   DType::kBfloat16,
                                    DType::kUint8,   DType::kInt8,    DType::kUint16, DType::kInt16,
                                    DType::kInt32,   DType::kInt64};

Tensor Images(DType dtype, std::vector<int64_t> dims, int seed = 1) {
  return Sample(dtype, std::move(dims), IsUnsigned(dtype) ? 0 : -9, 9, seed);
}

AttrMap Aligned() { return {{"align_corners", true}}; }
AttrMap Halves() { return {{"half_pixel_centers", true}}; }

// Growing and shrinking, every dtype, no images, and what no resize takes.
void AddResize(OpRecord& op, bool has_halves, double tolerance) {
  op.Tolerance(tolerance);
  std::vector<AttrMap> ways = {{}, Aligned()};
  if (has_halves) ways.push_back(Halves());
  for (const AttrMap& attrs : ways) {
    for (const Tensor& size : {Sizes({8, 3}), Sizes({3, 9}), Sizes({4, 5}), Sizes({1, 1})}) {
      op.Call({Floats({2, 4, 5, 3}), size}, attrs);
    }
  }
  for (const DType dtype : kPixels) op.Call({Images(dtype, {1, 4, 3, 2}), Sizes({6, 2})});
  op.Call({Floats({0, 4, 3, 2}), Sizes({6, 2})});
  op.Hostile({Floats({4, 5, 3}), Sizes({2, 2})}, "input must be 4-dimensional");
  op.Hostile({Floats({1, 4, 5, 3}), Sizes({2, 2, 2})}, "shape_t must have two elements");
  op.Hostile({Floats({1, 4, 5, 3}), Int(2)}, "shape_t must be 1-dimensional");
  op.Hostile({Floats({1, 4, 5, 3}), Sizes({0, 2})}, "output dimensions must be positive");
  op.Hostile({Floats({1, 4, 5, 3}), Sizes({2, -2})}, "output dimensions must be positive");
  op.Hostile({Floats({1, 0, 5, 3}), Sizes({2, 2})}, "non-zero size");
  op.Hostile({Floats({1, 4, 5, 0}), Sizes({2, 2})}, "at least one channel");
  op.Hostile({Empty({kWide, 1, 1, 0}), Sizes({2, 2})}, "at least one channel");
  op.OutOfMemory({Floats({1, 1, 1, 1}), Sizes({kHuge, 1})});
  op.OutOfMemory({Floats({1, 1, 1, 1}), Sizes({1 << 15, 1 << 15})});
  if (has_halves) {
    op.Hostile({Floats({1, 4, 5, 3}), Sizes({2, 2})}, "align_corners must be False",
               {{"align_corners", true}, {"half_pixel_centers", true}});
  }
}

void AddGradient(OpRecord& op, const std::vector<DType>& dtypes) {
  for (const DType dtype : dtypes) {
    const double tolerance = dtype == DType::kBfloat16 ? 2e-2 : dtype == DType::kHalf ? 5e-3 : 1e-5;
    for (const AttrMap& attrs : {AttrMap(), Aligned(), Halves()}) {
      op.Tolerance(tolerance).Call({Floats({2, 8, 3, 2}), Images(dtype, {2, 4, 6, 2})}, attrs);
    }
    op.Call({Floats({1, 2, 3, 1}), Images(dtype, {1, 4, 6, 1})});
  }
  op.Call({Floats({0, 2, 3, 1}), Floats({0, 4, 6, 1})});
  op.Hostile({Floats({2, 3, 1}), Floats({1, 4, 6, 1})}, "input_grad must be 4-dimensional");
  op.Hostile({Floats({1, 2, 3, 1}), Floats({4, 6, 1})}, "original_image must be 4-dimensional");
  op.Hostile({Floats({1, 0, 3, 1}), Floats({1, 4, 6, 1})}, "resized dimensions must be positive");
  op.Hostile({Floats({1, 2, 3, 1}), Floats({1, 4, 0, 1})}, "original dimensions must be positive");
  op.Hostile({Floats({1, 2, 3, 1}), Floats({1, 4, 6, 1})}, "align_corners must be False",
             {{"align_corners", true}, {"half_pixel_centers", true}});
  op.Hostile({Floats({1, 2, 3, 1}), Empty({0, kHuge, kHuge, 1})}, "max int32");
  op.Hostile({Empty({0, int64_t{1} << 31, 1, 1}), Floats({1, 4, 6, 1})}, "resized sizes must fit into int32");
}

void AddScaleAndTranslate(Suite& suite) {
  const auto pair = [](double y, double x) { return Make(DType::kFloat32, {2}, {y, x}); };
  OpRecord& forward = suite.Op("ScaleAndTranslate").Reference(ScaleAndTranslate).NoGradient().Tolerance(2e-4);
  OpRecord& backward =
      suite.Op("ScaleAndTranslateGrad").Reference(ScaleAndTranslateGradient).NoGradient().Tolerance(2e-4);
  for (const char* kernel :
       {"lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"}) {
    for (const bool antialias : {true, false}) {
      const AttrMap attrs = {{"kernel_type", std::string(kernel)}, {"antialias", antialias}};
      forward.Call({Floats({2, 7, 5, 2}), Sizes({4, 8}), pair(0.6, 1.7), pair(0.35, -1.13)}, attrs);
      backward.Call({Floats({2, 4, 8, 2}), Floats({2, 7, 5, 2}), pair(0.6, 1.7), pair(0.35, -1.13)}, attrs);
    }
  }
  for (const DType dtype : kPixels) {
    forward.Call({Images(dtype, {1, 4, 3, 2}), Sizes({6, 2}), pair(1.4, 0.7), pair(0, 0)});
  }
  forward.Call({Floats({0, 4, 3, 2}), Sizes({6, 2}), pair(1.4, 0.7), pair(0, 0)});
  forward.Call({Floats({1, 4, 3, 2}), Sizes({6, 2}), pair(1, 1), pair(100, 0)});  // moved out of sight
  const Tensor image = Floats({1, 4, 5, 3}), one = pair(1, 1);
  forward.Hostile({Floats({4, 5, 3}), Sizes({2, 2}), one, one}, "input must be 4-dimensional");
  forward.Hostile({image, Sizes({2, 2, 2}), one, one}, "shape_t must have two elements");
  forward.Hostile({image, Sizes({0, 2}), one, one}, "output dimensions must be positive");
  forward.Hostile({Floats({1, 4, 5, 0}), Sizes({2, 2}), one, one}, "at least one channel");
  forward.Hostile({Floats({1, 0, 5, 3}), Sizes({2, 2}), one, one}, "non-zero size");
  forward.Hostile({image, Sizes({2, 2}), pair(0, 1), one}, "Scale must be greater than zero");
  forward.Hostile({image, Sizes({2, 2}), pair(1, std::nan("")), one}, "Scale must be greater than zero");
  forward.Hostile({image, Sizes({2, 2}), one, Floats({3})}, "t must be 1-dimensional and have two elements");
  forward.Hostile({image, Sizes({2, 2}), one, one}, "Unrecognized kernel type: sinc",
                  {{"kernel_type", std::string("sinc")}});
  forward.OutOfMemory({Floats({1, 1, 1, 1}), Sizes({kHuge, 1}), one, one});
  backward.Hostile({Floats({2, 2, 3}), image, one, one}, "input_grad must be 4-dimensional");
  backward.Hostile({image, Floats({2, 2, 3}), one, one}, "original_image must be 4-dimensional");
  backward.Hostile({image, image, pair(-1, 1), one}, "Scale must be greater than zero");
  backward.Hostile({image, image, one, Floats({2, 1})}, "t must be 1-dimensional");
}

}  // namespace

void AddResizingRecords(Suite& suite) {
  AddResize(suite.Op("ResizeBilinear").Reference(Resize(Linear)).NoGradient(), true, 1e-5);
  AddResize(suite.Op("ResizeNearestNeighbor").Reference(Resize(Nearest)), true, 0);
  AddResize(suite.Op("ResizeBicubic").Reference(Resize(Cubic)).NoGradient(), true, 1e-5);
  AddResize(suite.Op("ResizeArea").Reference(Resize(Area)).NoGradient(), false, 1e-5);
  AddGradient(suite.Op("ResizeBilinearGrad").Reference(ResizeGradient(Linear)).NoGradient(), kReals);
  AddGradient(suite.Op("ResizeBicubicGrad").Reference(ResizeGradient(Cubic)).NoGradient(),
              {DType::kFloat32, DType::kFloat64});
  OpRecord& nearest = suite.Op("ResizeNearestNeighborGrad").Reference(ResizeGradient(Nearest)).NoGradient();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16, DType::kUint8,
                            DType::kInt8, DType::kInt32}) {
    // Whole numbers, of which 16-bit floats lose nothing.
    const Tensor gradients = Make(dtype, {1, 4, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
    for (const AttrMap& attrs : {AttrMap(), Aligned(), Halves()}) {
      nearest.Call({gradients, Sizes({2, 3})}, attrs).Call({gradients, Sizes({7, 1})}, attrs);
    }
  }
  nearest.Call({Floats({0, 2, 2, 1}), Sizes({3, 3})});
  nearest.Hostile({Floats({2, 2, 1}), Sizes({3, 3})}, "input must be 4-dimensional");
  nearest.Hostile({Floats({1, 2, 2, 1}), Sizes({3})}, "shape_t must have two elements");
  nearest.Hostile({Floats({1, 2, 2, 1}), Sizes({3, 0})}, "shape_t's elements must be positive");
  nearest.OutOfMemory({Floats({1, 2, 2, 1}), Sizes({1 << 15, 1 << 15})});
  AddScaleAndTranslate(suite);
}

}  // namespace weir::conformance
