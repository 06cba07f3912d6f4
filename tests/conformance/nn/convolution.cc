// Convolutions, as a walk over (image, output pixel, window pixel).

#include "tests/conformance/dtypes.h"
#include "tests/conformance/nn/sliding_windows.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

// All three convolutions visit the same products input * filter -> output; they differ in which one is summed
// up.
void VisitConvolution(
    const Call& call, const Index& input, const Index& filter,
    const std::function<void(const Index& in, const Index& weight, const Index& out)>& visit) {
  const bool nchw = ChannelsFirst(call);
  const Windows windows = WindowsOf(call, input, filter[0], filter[1], call.integers("dilations"));
  const int64_t channels = input[nchw ? 1 : 3];
  const int64_t groups = channels / filter[2], per_group = filter[3] / groups;
  for (int64_t n = 0; n < input[0]; ++n) {
    Slide(windows, [&](int64_t oy, int64_t ox, int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
      for (int64_t o = 0; o < filter[3]; ++o) {
        for (int64_t i = 0; i < filter[2]; ++i) {
          visit(Pixel(nchw, n, iy, ix, o / per_group * filter[2] + i), {ky, kx, i, o},
                Pixel(nchw, n, oy, ox, o));
        }
      }
    });
  }
}

void Conv2D(Call& call) {
  const Array &input = call.in(0), &filter = call.in(1);
  const Windows windows =
      WindowsOf(call, input.dims(), filter.dim(0), filter.dim(1), call.integers("dilations"));
  Array& out = call.outputs[0] =
      Array(Pixel(ChannelsFirst(call), input.dim(0), windows.y.output, windows.x.output, filter.dim(3)));
  VisitConvolution(call, input.dims(), filter.dims(),
                   [&](const Index& in, const Index& weight, const Index& o) {
                     out.at(o).number += input.at(in).number * filter.at(weight).number;
                   });
}

void Conv2DBackpropInput(Call& call) {
  Array& out = call.outputs[0] = Array(call.in(0).integers());
  VisitConvolution(call, out.dims(), call.in(1).dims(),
                   [&](const Index& in, const Index& weight, const Index& o) {
                     out.at(in).number += call.in(1).at(weight).number * call.in(2).at(o).number;
                   });
}

void Conv2DBackpropFilter(Call& call) {
  Array& out = call.outputs[0] = Array(call.in(1).integers());
  VisitConvolution(call, call.in(0).dims(), out.dims(),
                   [&](const Index& in, const Index& weight, const Index& o) {
                     out.at(weight).number += call.in(0).at(in).number * call.in(2).at(o).number;
                   });
}

struct Image {
  List input;   // in the layout of `attrs`
  List filter;  // height, width, channels in, channels out
  List output;
  AttrMap attrs;
};

std::vector<Image> Images() {
  const auto attrs = [](List strides, const char* padding, const char* format) {
    return AttrMap{{"strides", strides}, {"padding", padding}, {"data_format", format}};
  };
  std::vector<Image> images = {
      {{2, 5, 6, 3}, {3, 3, 3, 4}, {2, 5, 6, 4}, attrs({1, 1, 1, 1}, "SAME", "NHWC")},
      {{2, 5, 6, 3}, {3, 2, 3, 4}, {2, 3, 5, 4}, attrs({1, 1, 1, 1}, "VALID", "NHWC")},
      {{1, 7, 8, 2}, {3, 3, 2, 5}, {1, 4, 4, 5}, attrs({1, 2, 2, 1}, "SAME", "NHWC")},
      {{1, 7, 8, 2}, {1, 1, 2, 5}, {1, 7, 8, 5}, attrs({1, 1, 1, 1}, "SAME", "NHWC")},
      {{2, 3, 5, 6}, {3, 3, 3, 4}, {2, 4, 5, 6}, attrs({1, 1, 1, 1}, "SAME", "NCHW")},
      {{2, 3, 5, 6}, {2, 2, 3, 4}, {2, 4, 2, 3}, attrs({1, 1, 2, 2}, "VALID", "NCHW")},
  };
  Image dilated = {{1, 7, 7, 2}, {3, 3, 2, 3}, {1, 3, 3, 3}, attrs({1, 1, 1, 1}, "VALID", "NHWC")};
  dilated.attrs["dilations"] = List{1, 2, 2, 1};
  Image padded = {{1, 4, 4, 2}, {3, 3, 2, 3}, {1, 5, 4, 3}, attrs({1, 1, 1, 1}, "EXPLICIT", "NHWC")};
  padded.attrs["explicit_paddings"] = List{0, 0, 2, 1, 1, 1, 0, 0};
  images.push_back(dilated);
  images.push_back(padded);
  return images;
}

void AddCalls(Suite& suite) {
  const auto add = [&](const Image& image, D d) {
    const Tensor input = Sample(d, image.input, -1, 1, 1), filter = Sample(d, image.filter, -1, 1, 2);
    const Tensor grad = Sample(d, image.output, -1, 1, 3);
    const double tolerance = 2 * SumTolerance(d);
    suite.Op("Conv2D").Call({.attrs = image.attrs, .inputs = {input, filter}, .tolerance = tolerance});
    suite.Op("Conv2DBackpropInput")
        .Call({.attrs = image.attrs, .inputs = {Sizes(image.input), filter, grad}, .tolerance = tolerance});
    suite.Op("Conv2DBackpropFilter")
        .Call({.attrs = image.attrs, .inputs = {input, Sizes(image.filter), grad}, .tolerance = tolerance});
  };
  for (const Image& image : Images()) add(image, D::kFloat32);
  for (D d : {D::kFloat64, D::kHalf, D::kBfloat16}) add(Images()[0], d);
}

void AddHostileCalls(Suite& suite) {
  const AttrMap valid = WindowAttrs({1, 1, 1, 1}, "VALID"), same = WindowAttrs({1, 1, 1, 1}, "SAME");
  suite.Op("Conv2D").Hostile({Floats({1, 2, 2, 1}), Floats({3, 3, 1, 1})}, "does not fit into 2", valid);
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 3}), Floats({3, 3, 2, 1})}, "channels do not fit", same);
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 4}), Floats({3, 3, 2, 3})}, "channels do not fit", same);
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 4}), Floats({3, 3, 0, 3})}, "channels do not fit", same);
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4}), Floats({3, 3, 3, 3})}, "4 dimensions", same);
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 3}), Floats({3, 3, 3})}, "4 dimensions", same);
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 3}), Floats({0, 3, 3, 2})}, "no window has size 0", same);
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 1}), Floats({1, 1, 1, 1})}, "does not fit into 64 bits",
                             WindowAttrs({1, 1, 1, 1}, "EXPLICIT", {0, 0, kLongest, kLongest, 0, 0, 0, 0}));
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 1}), Floats({1, 1, 1, 1})}, "no shape has the dimensions",
                             WindowAttrs({1, 1, 1, 1}, "EXPLICIT", {0, 0, kWide, 0, 0, kWide, 0, 0}));
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 1}), Floats({1, 1, 1, 1})}, "padding must be at least 0",
                             WindowAttrs({1, 1, 1, 1}, "EXPLICIT", {0, 0, kShortest, 0, 0, 0, 0, 0}));
  suite.Op("Conv2D").Hostile({Floats({1, 4, 4, 1}), Floats({3, 3, 1, 1})}, "no window has size 3",
                             With(same, "dilations", {1, kLongest, 1, 1}));
  suite.Op("Conv2D").Hostile({Empty({1, kWide / 2, kWide / (1 << 20), 0}), Empty({1, 1, 0, 1 << 10})},
                             "no shape has the dimensions", valid);
  suite.Op("Conv2D").OutOfMemory({Empty({1, 1 << 20, 1 << 20, 0}), Empty({1, 1, 0, 1})}, valid);
  suite.Op("Conv2D").OutOfMemory({Floats({1, 1, 1, 1}), Floats({1, 1, 1, 1})},
                                 WindowAttrs({1, 1, 1, 1}, "EXPLICIT", {0, 0, kWide, 0, 0, 0, 0, 0}));

  const Tensor filter = Floats({3, 3, 1, 1});
  suite.Op("Conv2DBackpropInput")
      .Hostile({Ints({1, 4, 4, 1}), filter, Floats({1, 4, 4, 2})}, "out_backprop must be [1,4,4,1]", same);
  suite.Op("Conv2DBackpropInput")
      .Hostile({Ints({1, 4, 4}), filter, Floats({1, 4, 4, 1})}, "input_sizes must have 4 elements", same);
  suite.Op("Conv2DBackpropInput")
      .Hostile({Ints({1, -4, 4, 1}), filter, Floats({1, 4, 4, 1})}, "input_sizes", same);
  suite.Op("Conv2DBackpropInput")
      .Hostile({Ints({kHuge, kHuge, kHuge, kHuge}), filter, Floats({1, 4, 4, 1})}, "input_sizes", same);
  suite.Op("Conv2DBackpropInput")
      .Hostile({Ints({1, 2, 2, 1}), filter, Floats({1, 4, 4, 1})}, "does not fit", valid);
  suite.Op("Conv2DBackpropInput")
      .Hostile({Ints({1, kHuge, kHuge, 1}), Floats({1, 1, 1, 4}), Floats({1, 4, 4, 1})},
               "no shape has the dimensions", same);
  suite.Op("Conv2DBackpropInput")
      .Hostile({Ints({1, 4, 4, 1}), Floats({3, 3, 1}), Floats({1, 4, 4, 1})}, "4 dimensions", same);
  const Tensor image = Floats({1, 4, 4, 1});
  suite.Op("Conv2DBackpropFilter")
      .Hostile({image, Ints({3, 3, 1, 1}), Floats({1, 4, 4, 2})}, "out_backprop must be [1,4,4,1]", same);
  suite.Op("Conv2DBackpropFilter")
      .Hostile({image, Ints({3, 3, 1}), Floats({1, 4, 4, 1})}, "filter_sizes must have 4 elements", same);
  suite.Op("Conv2DBackpropFilter")
      .Hostile({image, Ints({3, -3, 1, 1}), Floats({1, 4, 4, 1})}, "filter_sizes", same);
  suite.Op("Conv2DBackpropFilter")
      .Hostile({image, Ints({0, 3, 1, 1}), Floats({1, 4, 4, 1})}, "no window has size 0", same);
  suite.Op("Conv2DBackpropFilter")
      .Hostile({image, Ints({kHuge, kHuge, 1, 1}), Floats({1, 4, 4, 1})}, "does not fit", valid);
  suite.Op("Conv2DBackpropFilter")
      .Hostile({image, Ints({3, 3, 2, 1}), Floats({1, 4, 4, 1})}, "channels do not fit", same);
  suite.Op("Conv2DBackpropFilter").OutOfMemory({image, Ints({kHuge, 1, 1, 1}), Floats({1, 4, 4, 1})}, same);
}

}  // namespace

void AddConvolutionRecords(Suite& suite) {
  suite.Op("Conv2D").Reference(Conv2D);
  suite.Op("Conv2DBackpropInput").Reference(Conv2DBackpropInput);
  suite.Op("Conv2DBackpropFilter").Reference(Conv2DBackpropFilter);
  AddCalls(suite);
  AddHostileCalls(suite);
}

}  // namespace weir::conformance
