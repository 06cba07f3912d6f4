// Images seen through projections.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

const char* const kInterpolations[] = {"NEAREST", "BILINEAR"};
const char* const kModes[] = {"CONSTANT", "REFLECT", "WRAP", "NEAREST"};

double Mapped(const std::string& mode, double at, int64_t size) {
  const double count = double(size), last = count - 1;
  if (mode == "CONSTANT") return at;
  if (mode == "REFLECT") {
    at -= 2 * count * std::floor(at / (2 * count));
    if (at >= count) at = 2 * count - 1 - at;
  } else if (mode == "WRAP" && size > 1) {
    if (at < 0) {
      at += count * (std::floor(-at / last) + 1);
    } else if (at > last) {
      at -= count * std::floor(at / last);
    }
  }
  return std::clamp(at, 0.0, last);
}

void Transform(reference::Call& call) {
  const Array &images = call.in(0), &transforms = call.in(1);
  const Index size = call.in(2).integers();
  const Value fill(call.inputs.size() > 3 ? call.in(3)[0].real() : 0.0);
  call.outputs[0] = Generate({images.dim(0), size[0], size[1], images.dim(3)}, [&](const Index& at) {
    const auto a = [&](int64_t i) { return transforms.at({transforms.dim(0) == 1 ? 0 : at[0], i}).real(); };
    const double x = double(at[2]), y = double(at[1]), k = a(6) * x + a(7) * y + 1;
    if (k == 0) return fill;
    const double from_x = Mapped(call.text("fill_mode"), (a(0) * x + a(1) * y + a(2)) / k, images.dim(2));
    const double from_y = Mapped(call.text("fill_mode"), (a(3) * x + a(4) * y + a(5)) / k, images.dim(1));
    const auto pixel = [&](double row, double column) {
      const bool is_inside = row >= 0 && row < images.dim(1) && column >= 0 && column < images.dim(2);
      return is_inside ? images.at({at[0], int64_t(row), int64_t(column), at[3]}) : fill;
    };
    if (call.text("interpolation") == "NEAREST") return pixel(std::round(from_y), std::round(from_x));
    double sum = 0;
    for (const double row : {std::floor(from_y), std::floor(from_y) + 1}) {
      for (const double column : {std::floor(from_x), std::floor(from_x) + 1}) {
        sum += (1 - std::abs(from_y - row)) * (1 - std::abs(from_x - column)) * pixel(row, column).real();
      }
    }
    return Value(sum);
  });
}

AttrMap Ways(const char* interpolation, const char* mode) {
  return {{"interpolation", std::string(interpolation)}, {"fill_mode", std::string(mode)}};
}

Tensor Transforms(std::vector<double> elements) {
  const auto count = static_cast<int64_t>(elements.size()) / 8;
  return Make(DType::kFloat32, {count, 8}, std::move(elements));
}

void AddTransform(OpRecord& op, const std::vector<CaseInput>& fill) {
  const auto inputs = [&](const Tensor& images, const Tensor& transforms, const Tensor& size) {
    std::vector<CaseInput> all = {images, transforms, size};
    all.insert(all.end(), fill.begin(), fill.end());
    return all;
  };
  op.Reference(Transform).NoGradient().Tolerance(1e-4);
  // Turned and in perspective; a step to the side.
  const Tensor one = Transforms({0.83, -0.41, 1.37, 0.52, 0.91, -2.13, 0.021, -0.013});
  const Tensor two =
      Transforms({0.83, -0.41, 1.37, 0.52, 0.91, -2.13, 0.021, -0.013, 1, 0, -7.77, 0, 1, 5.63, 0, 0});
  const Tensor same = Transforms({1, 0, 0, 0, 1, 0, 0, 0});
  for (const char* interpolation : kInterpolations) {
    for (const char* mode : kModes) {
      const AttrMap attrs = Ways(interpolation, mode);
      op.Call(inputs(Floats({2, 5, 4, 2}), two, Sizes({6, 7})), attrs);
      op.Call(inputs(Floats({3, 5, 4, 1}), one, Sizes({3, 12})), attrs);
      op.Call(inputs(Floats({1, 1, 1, 3}), one, Sizes({3, 4})), attrs);
    }
    for (const DType dtype : {DType::kUint8, DType::kInt32, DType::kInt64, DType::kHalf, DType::kBfloat16,
                              DType::kFloat32, DType::kFloat64}) {
      // Pixels apart by multiples of 16, so that no integer lies near the place where it is cut off.
      op.Tolerance(dtype == DType::kBfloat16 ? 5e-2 : dtype == DType::kHalf ? 6e-3 : 1e-4);
      const Tensor half_way = Transforms({0.5, 0, 0, 0, 0.5, 0, 0, 0});
      const Tensor image = Make(dtype, {1, 3, 4, 1}, {16, 32, 64, 0, 48, 112, 16, 80, 96, 32, 0, 64});
      op.Call(inputs(image, half_way, Sizes({5, 7})), Ways(interpolation, "REFLECT"));
      op.Call(inputs(image, same, Sizes({4, 5})), Ways(interpolation, "CONSTANT"));
    }
    op.Tolerance(1e-4);
    // x = 2 is infinitely far away.
    op.Call(inputs(Floats({1, 2, 5, 1}), Transforms({1, 0, 0, 0, 1, 0, -0.5, 0}), Sizes({2, 5})),
            Ways(interpolation, "CONSTANT"));
    op.Call(inputs(Floats({0, 5, 4, 2}), same, Sizes({3, 3})), Ways(interpolation, "WRAP"));
    op.Call(inputs(Floats({0, 5, 4, 2}), Floats({0, 8}), Sizes({3, 3})), Ways(interpolation, "WRAP"));
    op.Call(inputs(Floats({1, 5, 4, 0}), same, Sizes({3, 3})), Ways(interpolation, "WRAP"));
  }
  const AttrMap attrs = Ways("BILINEAR", "CONSTANT");
  const Tensor image = Floats({2, 5, 4, 1}), size = Sizes({3, 3});
  op.Hostile(inputs(Floats({5, 4, 1}), one, size), "Input images must have rank 4", attrs);
  op.Hostile(inputs(image, Floats({8}), size), "should be num_images x 8 or 1 x 8", attrs);
  op.Hostile(inputs(image, Floats({1, 7}), size), "should be num_images x 8 or 1 x 8", attrs);
  op.Hostile(inputs(image, Floats({0, 8}), size), "should be num_images x 8 or 1 x 8", attrs);
  op.Hostile(inputs(image, Floats({3, 8}), size), "should be num_images x 8 or 1 x 8", attrs);
  op.Hostile(inputs(image, one, Int(3)), "output shape must be 1-dimensional", attrs);
  op.Hostile(inputs(image, one, Sizes({3, 3, 1})), "output shape must have two elements", attrs);
  op.Hostile(inputs(image, one, Sizes({3, 0})), "output dimensions must be positive", attrs);
  op.Hostile(inputs(image, one, Sizes({-3, 3})), "output dimensions must be positive", attrs);
  op.Hostile(inputs(image, one, size), "Invalid interpolation CUBIC", Ways("CUBIC", "CONSTANT"));
  op.Hostile(inputs(image, one, size), "Invalid fill_mode reflect", Ways("NEAREST", "reflect"));
  op.OutOfMemory(inputs(image, one, Sizes({1 << 15, 1 << 15})), attrs);
}

}  // namespace

void AddProjectiveTransformsRecords(Suite& suite) {
  AddTransform(suite.Op("ImageProjectiveTransformV2"), {});
  OpRecord& with_fill = suite.Op("ImageProjectiveTransformV3");
  AddTransform(with_fill, {Make(DType::kFloat32, {}, {16})});
  with_fill.Hostile({Floats({2, 5, 4, 1}), Floats({1, 8}), Sizes({3, 3}), Floats({2})},
                    "fill_value must be a scalar", Ways("BILINEAR", "CONSTANT"));
}

}  // namespace weir::conformance
