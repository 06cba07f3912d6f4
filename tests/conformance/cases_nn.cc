// Cases of the neural network family.
#include "graph/graph_builder.h"
#include "kernels/reference/array.h"
#include "kernels/reference/reference.h"
#include "ops/register_ops.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {
namespace {

using D = DType;
using List = std::vector<int64_t>;

const std::vector<D> kFloats = {D::kFloat32, D::kFloat64, D::kHalf, D::kBfloat16};

// Sums of many rounded products.
double SumTolerance(D d) {
  return d == D::kHalf ? 6e-3 : d == D::kBfloat16 ? 5e-2 : d == D::kFloat32 ? 1e-5 : 1e-12;
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

Tensor Sizes(const List& dims) { return Ints({dims.begin(), dims.end()}); }

void AddConvolutions(std::vector<OpCase>* cases) {
  const auto add = [&](const Image& image, D d) {
    const Tensor input = Sample(d, image.input, -1, 1, 1), filter = Sample(d, image.filter, -1, 1, 2);
    const Tensor grad = Sample(d, image.output, -1, 1, 3);
    const double tolerance = 2 * SumTolerance(d);
    cases->push_back(
        {.op = "Conv2D", .attrs = image.attrs, .inputs = {input, filter}, .tolerance = tolerance});
    cases->push_back({.op = "Conv2DBackpropInput",
                      .attrs = image.attrs,
                      .inputs = {Sizes(image.input), filter, grad},
                      .tolerance = tolerance});
    cases->push_back({.op = "Conv2DBackpropFilter",
                      .attrs = image.attrs,
                      .inputs = {input, Sizes(image.filter), grad},
                      .tolerance = tolerance});
  };
  for (const Image& image : Images()) add(image, D::kFloat32);
  for (D d : {D::kFloat64, D::kHalf, D::kBfloat16}) add(Images()[0], d);
}

// -1, 0 and 1 as floats.
Tensor WholeNumbers(const List& dims) {
  const reference::Array numbers = reference::Array::FromTensor(Sample(D::kInt32, dims, -1, 1, 1));
  return numbers.ToTensor(D::kFloat32);
}

// What MaxPool gives: an input of MaxPoolGrad.
Tensor MaxPooled(const Tensor& input, const AttrMap& attrs) {
  GraphBuilder g(StandardOps());
  const Output image =
      g.AddOp("Placeholder", {}, {{"dtype", input.dtype()}, {"shape", PartialShape(input.shape())}});
  const Node* pool = g.AddNode("MaxPool", {image}, attrs);
  return reference::Evaluate(reference::AllReferences().at("MaxPool"), *pool, {input})[0];
}

void AddPools(std::vector<OpCase>* cases) {
  struct Pool {
    List input, output, size, strides;
    const char* padding;
    const char* format;
  };
  const std::vector<Pool> pools = {
      {{2, 4, 6, 3}, {2, 2, 3, 3}, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID", "NHWC"},
      {{1, 5, 5, 2}, {1, 3, 3, 2}, {1, 3, 3, 1}, {1, 2, 2, 1}, "SAME", "NHWC"},
      {{1, 5, 6, 2}, {1, 5, 6, 2}, {1, 2, 3, 1}, {1, 1, 1, 1}, "SAME", "NHWC"},
      {{2, 3, 4, 6}, {2, 3, 2, 3}, {1, 1, 2, 2}, {1, 1, 2, 2}, "VALID", "NCHW"},
  };
  for (const Pool& pool : pools) {
    const AttrMap attrs = {{"ksize", pool.size},
                           {"strides", pool.strides},
                           {"padding", pool.padding},
                           {"data_format", pool.format}};
    for (D d : kFloats) {
      if (d != D::kFloat32 && &pool != &pools[0]) continue;
      const Tensor input = Sample(d, pool.input, -2, 2, 1), grad = Sample(d, pool.output, -1, 1, 3);
      cases->push_back({.op = "MaxPool", .attrs = attrs, .inputs = {input}});
      cases->push_back({.op = "AvgPool", .attrs = attrs, .inputs = {input}, .tolerance = SumTolerance(d)});
      cases->push_back({.op = "AvgPoolGrad",
                        .attrs = attrs,
                        .inputs = {Sizes(pool.input), grad},
                        .tolerance = SumTolerance(d)});
    }
  }
  // Of different elements, and of few different ones: the first of the largest gets the gradient.
  for (const Pool& pool : pools) {
    const AttrMap attrs = {{"ksize", pool.size},
                           {"strides", pool.strides},
                           {"padding", pool.padding},
                           {"data_format", pool.format}};
    for (const Tensor& input :
         {Sample(D::kFloat32, pool.input, -2, 2, 1), WholeNumbers(pool.input),
          Sample(D::kInt32, pool.input, -2, 2, 1), Sample(D::kHalf, pool.input, -2, 2, 1)}) {
      cases->push_back(
          {.op = "MaxPoolGrad",
           .attrs = attrs,
           .inputs = {input, MaxPooled(input, attrs), Sample(input.dtype(), pool.output, -2, 2, 3)},
           .check_gradient = false,
           .tolerance = SumTolerance(input.dtype())});
    }
  }
}

}  // namespace

void AddNnCases(std::vector<OpCase>* cases) {
  for (D d : kFloats) {
    cases->push_back({.op = "Relu", .attrs = {}, .inputs = {Sample(d, {37})}});
    cases->push_back({.op = "ReluGrad", .attrs = {}, .inputs = {Sample(d, {37}, -1, 1, 3), Sample(d, {37})}});
    cases->push_back({.op = "BiasAdd", .attrs = {}, .inputs = {Sample(d, {3, 5}), Sample(d, {5}, -1, 1, 3)}});
    cases->push_back(
        {.op = "BiasAddGrad", .attrs = {}, .inputs = {Sample(d, {7, 5})}, .tolerance = SumTolerance(d)});
    cases->push_back(
        {.op = "Softmax", .attrs = {}, .inputs = {Sample(d, {3, 10})}, .tolerance = SumTolerance(d)});
    cases->push_back(
        {.op = "LogSoftmax", .attrs = {}, .inputs = {Sample(d, {3, 10})}, .tolerance = SumTolerance(d)});
    cases->push_back({.op = "SoftmaxCrossEntropyWithLogits",
                      .attrs = {},
                      .inputs = {Sample(d, {3, 10}), Make(d, {3, 10}, {1, 0,   0,   0, 0,  0, 0, 0, 0, 0,  //
                                                                       0, 0,   0,   0, 0,  0, 0, 1, 0, 0,  //
                                                                       0, .25, .25, 0, .5, 0, 0, 0, 0, 0})},
                      .gradient_outputs = {0},
                      .tolerance = SumTolerance(d)});
    cases->push_back({.op = "SparseSoftmaxCrossEntropyWithLogits",
                      .attrs = {},
                      .inputs = {Sample(d, {3, 10}), Ints({0, 9, 4})},
                      .gradient_outputs = {0},
                      .tolerance = SumTolerance(d)});
  }
  cases->push_back({.op = "Relu", .attrs = {}, .inputs = {Sample(D::kInt32, {2, 3})}});
  cases->push_back({.op = "BiasAdd",
                    .attrs = {{"data_format", "NCHW"}},
                    .inputs = {Sample(D::kFloat32, {2, 3, 2, 2}), Sample(D::kFloat32, {3})}});
  cases->push_back({.op = "BiasAddGrad",
                    .attrs = {{"data_format", "NCHW"}},
                    .inputs = {Sample(D::kFloat32, {2, 3, 2, 2})}});
  cases->push_back({.op = "BiasAdd",
                    .attrs = {},
                    .inputs = {Sample(D::kFloat32, {2, 3, 2, 4}), Sample(D::kFloat32, {4})}});
  cases->push_back(
      {.op = "Softmax", .attrs = {}, .inputs = {Sample(D::kFloat32, {40}, -30, 30)}, .tolerance = 1e-5});
  cases->push_back({.op = "LogSoftmax",
                    .attrs = {},
                    .inputs = {Sample(D::kFloat32, {2, 2, 17}, -30, 30)},
                    .tolerance = 1e-5});
  cases->push_back({.op = "SparseSoftmaxCrossEntropyWithLogits",
                    .attrs = {},
                    .inputs = {Sample(D::kFloat32, {2, 33}), Longs({32, 5})},
                    .gradient_outputs = {0},
                    .tolerance = 1e-5});
  for (int k : {1, 2, 3}) {
    cases->push_back(
        {.op = "InTopKV2", .attrs = {}, .inputs = {Sample(D::kFloat32, {4, 3}), Ints({0, 1, 2, 0}), Int(k)}});
  }
  AddConvolutions(cases);
  AddPools(cases);
}

}  // namespace weir::conformance
