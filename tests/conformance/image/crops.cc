// Pieces of images.
#include <cmath>
#include <limits>
#include <string>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

// Where pixel i of `count` lies in an image of `size` pixels, between two parts of it.
double At(double begin, double end, int64_t size, int64_t count, int64_t i) {
  const double part = count > 1 ? begin + (end - begin) * double(i) / double(count - 1) : (begin + end) / 2;
  return part * double(size - 1);
}

// One pixel of a crop: its box, its image, and its place there.
struct Place {
  int64_t box, image;
  double y, x;
  bool is_inside;
};

Place PlaceOf(const Array& boxes, const Array& images_of_boxes, const Index& image, const Index& crop,
              const Index& at) {
  const auto corner = [&](int64_t k) { return boxes.at({at[0], k}).real(); };
  Place place = {at[0], images_of_boxes[at[0]].integer(), At(corner(0), corner(2), image[1], crop[1], at[1]),
                 At(corner(1), corner(3), image[2], crop[2], at[2]), true};
  place.is_inside =
      place.y >= 0 && place.y <= double(image[1] - 1) && place.x >= 0 && place.x <= double(image[2] - 1);
  return place;
}

// The weights of the pixels of an image that a place is made of.
std::vector<std::pair<Index, double>> Parts(const Place& place, bool is_nearest, int64_t channel) {
  if (is_nearest) {
    return {{{place.image, int64_t(std::round(place.y)), int64_t(std::round(place.x)), channel}, 1}};
  }
  const double fy = place.y - std::floor(place.y), fx = place.x - std::floor(place.x);
  std::vector<std::pair<Index, double>> parts;
  for (const auto& [y, wy] : {std::pair(std::floor(place.y), 1 - fy), std::pair(std::ceil(place.y), fy)}) {
    for (const auto& [x, wx] : {std::pair(std::floor(place.x), 1 - fx), std::pair(std::ceil(place.x), fx)}) {
      parts.push_back({{place.image, int64_t(y), int64_t(x), channel}, wy * wx});
    }
  }
  return parts;
}

void Crop(reference::Call& call) {
  const Array& image = call.in(0);
  const Index size = call.in(3).integers();
  const Index dims = {call.in(1).dim(0), size[0], size[1], image.dim(3)};
  call.outputs[0] = Generate(dims, [&](const Index& at) {
    const Place place = PlaceOf(call.in(1), call.in(2), image.dims(), dims, at);
    if (!place.is_inside) return Value(double(call.node.attr<float>("extrapolation_value")));
    double sum = 0;
    for (const auto& [pixel, weight] : Parts(place, call.text("method") == "nearest", at[3])) {
      sum += weight * image.at(pixel).real();
    }
    return Value(sum);
  });
}

void CropGradImage(reference::Call& call) {
  const Array& gradients = call.in(0);
  const Index dims = call.in(3).integers();
  call.outputs[0] = Array(dims);
  for (int64_t i = 0; i < gradients.size(); ++i) {
    const Index at = gradients.IndexOf(i);
    const Place place = PlaceOf(call.in(1), call.in(2), dims, gradients.dims(), at);
    if (!place.is_inside) continue;
    for (const auto& [pixel, weight] : Parts(place, call.text("method") == "nearest", at[3])) {
      call.outputs[0].at(pixel).number += weight * gradients[i].real();
    }
  }
}

// By the chain rule: what moves a corner moves a place, and the interpolation is linear between pixels.
void CropGradBoxes(reference::Call& call) {
  const Array &gradients = call.in(0), &image = call.in(1), &boxes = call.in(2);
  call.outputs[0] = Array(boxes.dims());
  for (int64_t i = 0; i < gradients.size(); ++i) {
    const Index at = gradients.IndexOf(i);
    const Place place = PlaceOf(boxes, call.in(3), image.dims(), gradients.dims(), at);
    if (!place.is_inside) continue;
    const auto pixel = [&](double y, double x) {
      return image.at({place.image, int64_t(y), int64_t(x), at[3]}).real();
    };
    const double top = std::floor(place.y), bottom = std::ceil(place.y), fy = place.y - top;
    const double left = std::floor(place.x), right = std::ceil(place.x), fx = place.x - left;
    const double dy =
        (1 - fx) * (pixel(bottom, left) - pixel(top, left)) + fx * (pixel(bottom, right) - pixel(top, right));
    const double dx =
        (1 - fy) * (pixel(top, right) - pixel(top, left)) + fy * (pixel(bottom, right) - pixel(bottom, left));
    for (int k = 0; k < 4; ++k) {
      const int axis = k % 2;
      const int64_t size = image.dim(axis + 1), count = gradients.dim(axis + 1);
      const double slope = k < 2 ? At(1, 0, size, count, at[axis + 1]) : At(0, 1, size, count, at[axis + 1]);
      call.outputs[0].at({at[0], k}).number += gradients[i].real() * (axis == 0 ? dy : dx) * slope;
    }
  }
}

void Glimpse(reference::Call& call) {
  const Array& image = call.in(0);
  const Index size = call.in(1).integers();
  const bool is_first = call.node.op_name() == "ExtractGlimpse";
  const bool centered = call.flag("centered"), normalized = call.flag("normalized");
  const auto begin = [&](int64_t i, int axis) {
    double at = call.in(2).at({i, axis}).real() * (normalized ? double(image.dim(axis + 1)) : 1.0);
    if (centered) at = at / (normalized || is_first ? 2 : 1) + double(image.dim(axis + 1)) / 2;
    if (is_first || (centered && normalized)) at -= double(size[axis]) / 2;
    return int64_t(at);
  };
  call.outputs[0] = Generate({image.dim(0), size[0], size[1], image.dim(3)}, [&](const Index& at) {
    const int64_t y = begin(at[0], 0) + at[1], x = begin(at[0], 1) + at[2];
    if (y < 0 || y >= image.dim(1) || x < 0 || x >= image.dim(2)) return Value(0.0);
    return image.at({at[0], y, x, at[3]});
  });
}

void AddGlimpse(OpRecord& op) {
  const Tensor image = Floats({2, 5, 6, 2}),
               offsets = Make(DType::kFloat32, {2, 2}, {0.3, -0.45, -0.8, 0.15});
  op.NoGradient();
  for (const bool centered : {true, false}) {
    for (const bool normalized : {true, false}) {
      const AttrMap attrs = {{"centered", centered},
                             {"normalized", normalized},
                             {"uniform_noise", false},
                             {"noise", std::string("zero")}};
      for (const Tensor& size : {Sizes({3, 2}), Sizes({8, 1})}) op.Call({image, size, offsets}, attrs);
      op.Call({image, Sizes({2, 4}), Make(DType::kFloat32, {2, 2}, {3, -2, 1e30, 2})}, attrs);
    }
  }
  const AttrMap zero = {{"uniform_noise", false}, {"noise", std::string("zero")}};
  op.Call({Floats({0, 5, 6, 2}), Sizes({2, 2}), Floats({0, 2})}, zero);
  op.Call({image, Sizes({0, 2}), offsets}, zero);
  op.Hostile({Floats({5, 6, 2}), Sizes({3, 2}), offsets}, "input must be 4-dimensional", zero);
  op.Hostile({image, Sizes({3}), offsets}, "input must be a vector of size 2", zero);
  op.Hostile({image, Sizes({3, 2}), Floats({2})}, "input must be a matrix", zero);
  op.Hostile({image, Sizes({3, 2}), Floats({3, 2})}, "first dimension should be batch", zero);
  op.Hostile({image, Sizes({3, 2}), Floats({2, 3})}, "second dimension should be of size 2", zero);
  op.Hostile({image, Sizes({-3, 2}), offsets}, "-3", zero);
  op.Hostile({image, Sizes({3, 2}), offsets}, "could not be specified at the same time",
             {{"noise", std::string("zero")}});
  op.Hostile({image, Sizes({3, 2}), offsets}, "got pink",
             {{"uniform_noise", false}, {"noise", std::string("pink")}});
  op.OutOfMemory({image, Sizes({1 << 15, 1 << 15}), offsets}, zero);
}

}  // namespace

void AddCropsRecords(Suite& suite) {
  const std::vector<DType> types = {DType::kFloat32, DType::kFloat64, DType::kHalf,
                                    DType::kUint8,   DType::kInt8,    DType::kUint16,
                                    DType::kInt16,   DType::kInt32,   DType::kInt64};
  OpRecord& forward = suite.Op("CropAndResize").Reference(Crop).NoGradient().Tolerance(1e-4);
  OpRecord& to_image = suite.Op("CropAndResizeGradImage").Reference(CropGradImage).NoGradient();
  OpRecord& to_boxes =
      suite.Op("CropAndResizeGradBoxes").Reference(CropGradBoxes).NoGradient().Tolerance(1e-4);
  const Tensor boxes =
      Make(DType::kFloat32, {3, 4}, {0.05, 0.13, 0.71, 0.93, 0.9, -0.26, 0.2, 0.63, 0.21, 0.32, 0.23, 1.4});
  const Tensor which = Ints({1, 0, 1});
  for (const char* method : {"bilinear", "nearest"}) {
    const AttrMap attrs = {{"method", std::string(method)}, {"extrapolation_value", 2.5f}};
    for (const DType dtype : types) {
      const Tensor image = Sample(dtype, {2, 5, 6, 2}, IsUnsigned(dtype) ? 0 : -9, 9);
      forward.Call({image, boxes, which, Sizes({3, 4})}, attrs)
          .Call({image, boxes, which, Sizes({1, 1})}, attrs);
    }
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kHalf}) {
      to_image.Tolerance(dtype == DType::kHalf ? 4e-3 : 1e-5);
      const AttrMap typed = {{"method", std::string(method)}, {"T", dtype}};
      to_image.Call({Floats({3, 3, 4, 2}), boxes, which, Sizes({2, 5, 6, 2})}, typed);
      to_image.Call({Floats({3, 1, 1, 2}), boxes, which, Sizes({2, 5, 6, 2})}, typed);
    }
  }
  for (const DType dtype : types) {
    const Tensor image = Sample(dtype, {2, 5, 6, 2}, IsUnsigned(dtype) ? 0 : -9, 9);
    to_boxes.Call({Floats({3, 3, 4, 2}), image, boxes, which})
        .Call({Floats({3, 1, 1, 2}), image, boxes, which});
  }
  forward.Call({Floats({2, 5, 6, 2}), Floats({0, 4}), Empty({0}, DType::kInt32), Sizes({3, 4})});
  const Tensor image = Floats({2, 5, 6, 2}), size = Sizes({3, 4});
  forward.Hostile({Floats({5, 6, 2}), boxes, which, size}, "input image must be 4-D");
  forward.Hostile({Floats({2, 0, 6, 2}), boxes, which, size}, "image dimensions must be positive");
  forward.Hostile({image, Floats({4}), which, size}, "boxes must be 2-D");
  forward.Hostile({image, Floats({3, 5}), which, size}, "boxes must have 4 columns");
  forward.Hostile({image, boxes, Ints({1}), size}, "box_index has incompatible shape");
  forward.Hostile({image, boxes, Int(1), size}, "box_indices must be rank 1");
  forward.Hostile({image, boxes, Ints({1, 0, 2}), size}, "outside [0, batch_size)", {},
                  absl::StatusCode::kOutOfRange);
  forward.Hostile({image, boxes, Ints({1, 0, -1}), size}, "outside [0, batch_size)", {},
                  absl::StatusCode::kOutOfRange);
  forward.Hostile({image, boxes, which, Sizes({3})}, "crop_size must be 1-D and have two elements");
  forward.Hostile({image, boxes, which, Sizes({3, 0})}, "crop dimensions must be positive");
  forward.Hostile({image, Make(DType::kFloat32, {1, 4}, {0, 0, kInfinity, 1}), Ints({0}), size},
                  "not finite");
  forward.OutOfMemory({image, boxes, which, Sizes({1 << 15, 1 << 15})});
  const AttrMap floats = {{"T", DType::kFloat32}};
  const Tensor gradients = Floats({3, 3, 4, 2}), dims = Sizes({2, 5, 6, 2});
  to_image.Hostile({Floats({3, 4, 2}), boxes, which, dims}, "grads image must be 4-D", floats);
  to_image.Hostile({Floats({3, 0, 4, 2}), boxes, which, dims}, "grads dimensions must be positive", floats);
  to_image.Hostile({gradients, boxes, which, Sizes({2, 5, 6})}, "image_size must be 1-D and have 4", floats);
  to_image.Hostile({gradients, boxes, which, Sizes({2, 5, 6, 3})}, "image_size and grads are incompatible",
                   floats);
  to_image.Hostile({gradients, boxes, which, Sizes({2, 0, 6, 2})}, "image dimensions must be positive",
                   floats);
  to_image.Hostile({Floats({2, 3, 4, 2}), boxes, which, dims}, "boxes and grads have incompatible shape",
                   floats);
  to_image.Hostile({gradients, boxes, Ints({1, 0, 7}), dims}, "outside [0, batch_size)", floats,
                   absl::StatusCode::kOutOfRange);
  to_image.OutOfMemory({gradients, boxes, which, Sizes({2, 1 << 15, 1 << 15, 2})}, floats);
  to_boxes.Hostile({Floats({3, 3, 4, 3}), image, boxes, which}, "image, grads depth differ");
  to_boxes.Hostile({Floats({2, 3, 4, 2}), image, boxes, which}, "boxes and grads have incompatible shape");
  to_boxes.Hostile({gradients, Floats({5, 6, 2}), boxes, which}, "input image must be 4-D");
  to_boxes.Hostile({gradients, image, boxes, Ints({1, 0, 2})}, "outside [0, batch_size)", {},
                   absl::StatusCode::kOutOfRange);
  AddGlimpse(suite.Op("ExtractGlimpse").Reference(Glimpse));
  AddGlimpse(suite.Op("ExtractGlimpseV2").Reference(Glimpse));
}

}  // namespace weir::conformance
