// DepthwiseConv2dNative and its gradients.
#include <string>
#include <vector>

#include "graph/shape_inference.h"
#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using List = std::vector<int64_t>;

// Calls visit(index of an input element, of a filter element, of an output element) for all that are
// multiplied.
void ForEachProduct(const reference::Call& call, const Index& input, const Index& filter, const Index& output,
                    const std::function<void(const Index&, const Index&, const Index&)>& visit) {
  const bool first = call.text("data_format") == "NCHW";
  const int h = first ? 2 : 1, w = first ? 3 : 2, c = first ? 1 : 3;
  const auto &strides = call.integers("strides"), &dilations = call.integers("dilations");
  const auto before = [&](int axis, int64_t window) -> int64_t {
    if (call.text("padding") == "VALID") return 0;
    if (call.text("padding") == "EXPLICIT") return call.integers("explicit_paddings")[2 * axis];
    const int64_t needed =
        (output[axis] - 1) * strides[axis] + (window - 1) * dilations[axis] + 1 - input[axis];
    return std::max<int64_t>(needed, 0) / 2;
  };
  const Array products(filter), outputs(output);
  for (int64_t f = 0; f < products.size(); ++f) {
    const Index at_filter = products.IndexOf(f);
    for (int64_t o = 0; o < outputs.size(); ++o) {
      const Index at_output = outputs.IndexOf(o);
      if (at_output[c] != at_filter[2] * filter[3] + at_filter[3]) continue;
      Index at_input = at_output;
      at_input[c] = at_filter[2];
      at_input[h] = at_output[h] * strides[h] + at_filter[0] * dilations[h] - before(h, filter[0]);
      at_input[w] = at_output[w] * strides[w] + at_filter[1] * dilations[w] - before(w, filter[1]);
      const bool is_inside =
          at_input[h] >= 0 && at_input[h] < input[h] && at_input[w] >= 0 && at_input[w] < input[w];
      if (is_inside) visit(at_input, at_filter, at_output);
    }
  }
}

void AddTo(Array& sums, const Index& at, const Value& a, const Value& b) {
  sums.at(at) = sums.at(at).number + a.number * b.number;
}

// The dims of the result.
Index OutputOf(const reference::Call& call, const Index& input, const Index& filter) {
  const bool first = call.text("data_format") == "NCHW";
  const std::string& padding = call.text("padding");
  Index output = input;
  output[first ? 1 : 3] = filter[2] * filter[3];
  for (int i = 0; i < 2; ++i) {
    const int axis = i + (first ? 2 : 1);
    const int64_t stride = call.integers("strides")[axis];
    const int64_t window = (filter[i] - 1) * call.integers("dilations")[axis] + 1;
    if (padding == "SAME") {
      output[axis] = (input[axis] + stride - 1) / stride;
      continue;
    }
    int64_t size = input[axis];
    if (padding == "EXPLICIT") {
      const auto& paddings = call.integers("explicit_paddings");
      size += paddings[2 * axis] + paddings[2 * axis + 1];
    }
    output[axis] = (size - window) / stride + 1;
  }
  return output;
}

void Forward(reference::Call& call) {
  Array& y = call.outputs[0] = Array(OutputOf(call, call.in(0).dims(), call.in(1).dims()));
  ForEachProduct(call, call.in(0).dims(), call.in(1).dims(), y.dims(),
                 [&](const Index& i, const Index& f, const Index& o) {
                   AddTo(y, o, call.in(0).at(i), call.in(1).at(f));
                 });
}

void InputGradient(reference::Call& call) {
  Array& dx = call.outputs[0] = Array(call.in(0).integers());
  ForEachProduct(call, dx.dims(), call.in(1).dims(), call.in(2).dims(),
                 [&](const Index& i, const Index& f, const Index& o) {
                   AddTo(dx, i, call.in(2).at(o), call.in(1).at(f));
                 });
}

void FilterGradient(reference::Call& call) {
  Array& df = call.outputs[0] = Array(call.in(1).integers());
  ForEachProduct(call, call.in(0).dims(), df.dims(), call.in(2).dims(),
                 [&](const Index& i, const Index& f, const Index& o) {
                   AddTo(df, f, call.in(2).at(o), call.in(0).at(i));
                 });
}

struct Image {
  List input, filter, output, strides;
  const char* padding;
  const char* format;
};

}  // namespace

void AddDepthwiseConvolutionRecords(Suite& suite) {
  const std::string op = "DepthwiseConv2dNative";
  OpRecord& forward = suite.Op(op).Reference(Forward);
  OpRecord& to_input = suite.Op(op + "BackpropInput").Reference(InputGradient);
  OpRecord& to_filter = suite.Op(op + "BackpropFilter").Reference(FilterGradient);
  const std::vector<Image> images = {
      {{2, 5, 6, 3}, {3, 3, 3, 1}, {2, 5, 6, 3}, {1, 1, 1, 1}, "SAME", "NHWC"},
      {{1, 7, 8, 2}, {3, 2, 2, 3}, {1, 3, 4, 6}, {1, 2, 2, 1}, "VALID", "NHWC"},
      {{1, 2, 7, 8}, {3, 3, 2, 2}, {1, 4, 4, 4}, {1, 1, 2, 2}, "SAME", "NCHW"},
  };
  const auto add = [&](const Image& image, DType d, AttrMap more = {}) {
    AttrMap attrs = {{"strides", image.strides}, {"padding", image.padding}, {"data_format", image.format}};
    attrs.insert(more.begin(), more.end());
    const double tolerance = d == DType::kFloat32   ? 2e-5
                             : d == DType::kFloat64 ? 1e-12
                             : d == DType::kHalf    ? 1e-2
                                                    : 0.1;
    const Tensor input = Sample(d, image.input, -1, 1, 1), filter = Sample(d, image.filter, -1, 1, 2);
    const Tensor gradient = Sample(d, image.output, -1, 1, 3);
    const auto sizes = [](const List& dims) { return Ints({dims.begin(), dims.end()}); };
    forward.Tolerance(tolerance).Call({input, filter}, attrs);
    to_input.Tolerance(tolerance).Call({sizes(image.input), filter, gradient}, attrs);
    to_filter.Tolerance(tolerance).Call({input, sizes(image.filter), gradient}, attrs);
  };
  for (const Image& image : images) add(image, DType::kFloat32);
  for (DType d : {DType::kFloat64, DType::kHalf, DType::kBfloat16}) add(images[0], d);
  add({{1, 7, 7, 2}, {3, 3, 2, 2}, {1, 3, 3, 4}, {1, 1, 1, 1}, "VALID", "NHWC"}, DType::kFloat32,
      {{"dilations", List{1, 2, 2, 1}}});
  add({{0, 5, 5, 2}, {3, 3, 2, 2}, {0, 5, 5, 4}, {1, 1, 1, 1}, "SAME", "NHWC"}, DType::kFloat32);

  const auto f = [](List dims) { return Sample(DType::kFloat32, std::move(dims)); };
  const AttrMap same = {{"strides", List{1, 1, 1, 1}}, {"padding", "SAME"}};
  const AttrMap valid = {{"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}};
  forward.Hostile({f({1, 5, 5, 2}), f({3, 3, 3, 1})}, "channels", same);
  forward.Hostile({f({1, 5, 5}), f({3, 3, 2, 1})}, "4 dimensions", same);
  forward.Hostile({f({1, 5, 5, 2}), f({3, 3, 2})}, "4 dimensions", same);
  forward.Hostile({f({1, 2, 2, 2}), f({3, 3, 2, 1})}, "does not fit", valid);
  to_input.Hostile({Ints({1, 5, 5}), f({3, 3, 2, 1}), f({1, 5, 5, 2})}, "input_sizes must have 4 elements",
                   same);
  to_input.Hostile({Ints({1, 5, 5, 2}), f({3, 3, 2, 2}), f({1, 5, 5, 2})}, "out_backprop must be [1,5,5,4]",
                   same);
  to_input.Hostile({Ints({1, -5, 5, 2}), f({3, 3, 2, 2}), f({1, 5, 5, 2})}, "input_sizes", same);
  to_filter.Hostile({f({1, 5, 5, 2}), Ints({3, 3, 3, 1}), f({1, 5, 5, 2})}, "channels", same);
  to_filter.Hostile({f({1, 5, 5, 2}), Ints({3, 3, 2}), f({1, 5, 5, 2})}, "filter_sizes must have 4 elements",
                    same);
  const int32_t huge = 2147483647;
  to_filter.Hostile({f({1, 5, 5, 2}), Ints({3, 3, huge, huge}), f({1, 5, 5, 2})}, "", same);
}

}  // namespace weir::conformance
