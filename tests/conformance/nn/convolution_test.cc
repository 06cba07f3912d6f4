// Convolutions, pooling and their gradients.
//
// The forward convolution is checked against its definition. A gradient is the adjoint of a linear map, so
// for every x, w, g: sum(conv(x, w) * g) = sum(x * input_gradient(w, g)) = sum(w * filter_gradient(x, g)),
// which holds the double kernels to the forward one; float (oneDNN) kernels must agree with the double ones
// element by element.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

struct ConvCase {
  const char* name;
  Shape input;  // channels last
  Shape filter;
  const char* padding = "SAME";
  std::vector<int64_t> strides = {1, 1};
  std::vector<int64_t> dilations = {1, 1};
  std::vector<int64_t> explicit_padding = {};  // top, bottom, left, right
};

void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

template <typename T>
Tensor Random(const Shape& shape, int seed) {
  std::mt19937 bits(seed);
  Tensor tensor(DTypeOf<T>, shape);
  for (T& value : tensor.flat<T>()) value = static_cast<T>(static_cast<int>(bits() % 201) - 100) / T(100);
  return tensor;
}

Tensor ToDouble(const Tensor& tensor) {
  Tensor result(DType::kFloat64, tensor.shape());
  std::copy_n(tensor.flat<float>().data(), tensor.num_elements(), result.flat<double>().data());
  return result;
}

double Dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) sum += a.flat<double>()[i] * b.flat<double>()[i];
  return sum;
}

Tensor SizesOf(const Tensor& tensor) {
  Tensor sizes(DType::kInt32, {4});
  for (int i = 0; i < 4; ++i) sizes.flat<int32_t>()[i] = static_cast<int32_t>(tensor.shape().dim(i));
  return sizes;
}

// [n,h,w,c] to [n,c,h,w] or back.
template <typename T>
Tensor Transposed(const Tensor& tensor, bool to_channels_first) {
  const Shape& s = tensor.shape();
  const int64_t n = s.dim(0), c = s.dim(to_channels_first ? 3 : 1);
  const int64_t h = s.dim(to_channels_first ? 1 : 2), w = s.dim(to_channels_first ? 2 : 3);
  Tensor result(tensor.dtype(), to_channels_first ? Shape{n, c, h, w} : Shape{n, h, w, c});
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t p = 0; p < h * w; ++p) {
      for (int64_t j = 0; j < c; ++j) {
        const int64_t last = (i * h * w + p) * c + j, first = (i * c + j) * h * w + p;
        result.flat<T>()[to_channels_first ? first : last] =
            tensor.flat<T>()[to_channels_first ? last : first];
      }
    }
  }
  return result;
}

class ConvKernelsTest : public ::testing::TestWithParam<ConvCase> {
 protected:
  AttrMap Attrs(const ConvCase& c, bool channels_first) {
    const auto spatial = [&](const std::vector<int64_t>& v) {
      return channels_first ? std::vector<int64_t>{1, 1, v[0], v[1]} : std::vector<int64_t>{1, v[0], v[1], 1};
    };
    AttrMap attrs = {{"padding", c.padding},
                     {"strides", spatial(c.strides)},
                     {"dilations", spatial(c.dilations)},
                     {"data_format", channels_first ? "NCHW" : "NHWC"}};
    if (!c.explicit_padding.empty()) {
      std::vector<int64_t> padding(8, 0);
      std::copy(c.explicit_padding.begin(), c.explicit_padding.end(),
                padding.begin() + (channels_first ? 4 : 2));
      attrs["explicit_paddings"] = padding;
    }
    return attrs;
  }

  Tensor Conv(const Tensor& x, const Tensor& w, const AttrMap& attrs) {
    return KernelUnderTest(host_, "Conv2D", {x.dtype(), w.dtype()}, attrs).Get({x, w});
  }
  Tensor InputGradient(const Tensor& x, const Tensor& w, const Tensor& g, const AttrMap& attrs) {
    return KernelUnderTest(host_, "Conv2DBackpropInput", {DType::kInt32, w.dtype(), g.dtype()}, attrs)
        .Get({SizesOf(x), w, g});
  }
  Tensor FilterGradient(const Tensor& x, const Tensor& w, const Tensor& g, const AttrMap& attrs) {
    return KernelUnderTest(host_, "Conv2DBackpropFilter", {x.dtype(), DType::kInt32, g.dtype()}, attrs)
        .Get({x, SizesOf(w), g});
  }

  // One output element by the definition, channels last.
  static double Definition(const ConvCase& c, const Tensor& x, const Tensor& w, const Shape& out, int64_t n,
                           int64_t oh, int64_t ow, int64_t o) {
    const int64_t at[] = {oh, ow};
    int64_t before[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t extent = (c.filter.dim(i) - 1) * c.dilations[i] + 1;
      const int64_t needed = (out.dim(1 + i) - 1) * c.strides[i] + extent - c.input.dim(1 + i);
      before[i] = std::string(c.padding) == "SAME" ? std::max<int64_t>(0, needed) / 2
                  : c.explicit_padding.empty()     ? 0
                                                   : c.explicit_padding[2 * i];
    }
    const int64_t channels = c.filter.dim(2), groups = c.input.dim(3) / channels;
    const int64_t group = o / (c.filter.dim(3) / groups);
    double sum = 0;
    for (int64_t kh = 0; kh < c.filter.dim(0); ++kh) {
      for (int64_t kw = 0; kw < c.filter.dim(1); ++kw) {
        const int64_t h = at[0] * c.strides[0] - before[0] + kh * c.dilations[0];
        const int64_t v = at[1] * c.strides[1] - before[1] + kw * c.dilations[1];
        if (h < 0 || h >= c.input.dim(1) || v < 0 || v >= c.input.dim(2)) continue;
        for (int64_t i = 0; i < channels; ++i) {
          sum += x.flat<double>()[((n * c.input.dim(1) + h) * c.input.dim(2) + v) * c.input.dim(3) +
                                  group * channels + i] *
                 w.flat<double>()[((kh * c.filter.dim(1) + kw) * channels + i) * c.filter.dim(3) + o];
        }
      }
    }
    return sum;
  }

  static void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance, const char* what) {
    ASSERT_EQ(actual.shape(), expected.shape()) << what;
    for (int64_t i = 0; i < actual.num_elements(); ++i) {
      ASSERT_NEAR(actual.flat<float>()[i], expected.flat<double>()[i], tolerance) << what << " " << i;
    }
  }

  TestHost host_{RegisterNnKernels};
};

TEST_P(ConvKernelsTest, IsTheDefinitionAndItsAdjoints) {
  const ConvCase& c = GetParam();
  const AttrMap attrs = Attrs(c, false);
  const Tensor x = Random<float>(c.input, 1), w = Random<float>(c.filter, 2);
  const Tensor xd = ToDouble(x), wd = ToDouble(w);
  const Tensor yd = Conv(xd, wd, attrs);
  ASSERT_TRUE(yd.is_valid());
  const Shape& out = yd.shape();
  for (int64_t i = 0; i < yd.num_elements(); i += 1 + yd.num_elements() / 500) {
    const int64_t o = i % out.dim(3), ow = i / out.dim(3) % out.dim(2),
                  oh = i / out.dim(3) / out.dim(2) % out.dim(1);
    const int64_t n = i / out.dim(3) / out.dim(2) / out.dim(1);
    ASSERT_NEAR(yd.flat<double>()[i], Definition(c, xd, wd, out, n, oh, ow, o), 1e-9) << i;
  }
  const Tensor g = Random<float>(out, 3), gd = ToDouble(g);
  const Tensor input_gradient = InputGradient(xd, wd, gd, attrs),
               filter_gradient = FilterGradient(xd, wd, gd, attrs);
  const double dot = Dot(yd, gd);
  EXPECT_NEAR(Dot(xd, input_gradient), dot, 1e-6);
  EXPECT_NEAR(Dot(wd, filter_gradient), dot, 1e-6);

  const double sums = static_cast<double>(x.num_elements());
  ExpectNear(Conv(x, w, attrs), yd, 1e-4, "output");
  ExpectNear(InputGradient(x, w, g, attrs), input_gradient, 1e-4, "input gradient");
  ExpectNear(FilterGradient(x, w, g, attrs), filter_gradient, 1e-5 * std::sqrt(sums) + 1e-4,
             "filter gradient");
}

// Operands are rounded first, so that only the sums and the rounding of results differ.
TEST_P(ConvKernelsTest, SixteenBitOperandsAreSummedInSinglePrecision) {
  const ConvCase& c = GetParam();
  const AttrMap attrs = Attrs(c, false);
  const auto narrow = [](const Tensor& tensor) {
    Tensor result(DType::kBfloat16, tensor.shape());
    std::transform(tensor.flat<float>().begin(), tensor.flat<float>().end(), result.flat<Bfloat16>().begin(),
                   [](float x) { return Bfloat16(x); });
    return result;
  };
  const auto widen = [](const Tensor& tensor) {
    Tensor result(DType::kFloat64, tensor.shape());
    std::copy_n(tensor.flat<Bfloat16>().data(), tensor.num_elements(), result.flat<double>().data());
    return result;
  };
  const auto expect_near = [](const Tensor& actual, const Tensor& expected, const char* what) {
    ASSERT_EQ(actual.shape(), expected.shape()) << what;
    for (int64_t i = 0; i < actual.num_elements(); ++i) {
      const double want = expected.flat<double>()[i];
      ASSERT_NEAR(static_cast<double>(actual.flat<Bfloat16>()[i]), want, std::abs(want) / 128 + 2e-3)
          << what << " " << i;
    }
  };
  const Tensor x = narrow(Random<float>(c.input, 1)), w = narrow(Random<float>(c.filter, 2));
  const Tensor xd = widen(x), wd = widen(w);
  const Tensor yd = Conv(xd, wd, attrs);
  const Tensor g = narrow(Random<float>(yd.shape(), 3)), gd = widen(g);
  expect_near(Conv(x, w, attrs), yd, "output");
  expect_near(InputGradient(x, w, g, attrs), InputGradient(xd, wd, gd, attrs), "input gradient");
  expect_near(FilterGradient(x, w, g, attrs), FilterGradient(xd, wd, gd, attrs), "filter gradient");
}

TEST_P(ConvKernelsTest, ChannelsFirstIsTheSameTransposed) {
  const ConvCase& c = GetParam();
  const AttrMap last = Attrs(c, false), first = Attrs(c, true);
  const Tensor x = Random<float>(c.input, 1), w = Random<float>(c.filter, 2);
  const Tensor xd = ToDouble(x), wd = ToDouble(w);
  const Tensor yd = Conv(xd, wd, last);
  const Tensor g = Random<float>(yd.shape(), 3), gd = ToDouble(g);
  const Tensor xt = Transposed<float>(x, true), gt = Transposed<float>(g, true);
  ExpectNear(Transposed<float>(Conv(xt, w, first), false), yd, 1e-4, "output");
  ExpectNear(Transposed<float>(InputGradient(xt, w, gt, first), false), InputGradient(xd, wd, gd, last), 1e-4,
             "input gradient");
  ExpectNear(FilterGradient(xt, w, gt, first), FilterGradient(xd, wd, gd, last),
             1e-5 * std::sqrt(static_cast<double>(x.num_elements())) + 1e-4, "filter gradient");
  const Tensor plain = Conv(Transposed<double>(xd, true), wd, first);
  const Tensor back = Transposed<double>(plain, false);
  for (int64_t i = 0; i < yd.num_elements(); ++i)
    ASSERT_NEAR(back.flat<double>()[i], yd.flat<double>()[i], 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ConvKernelsTest,
    ::testing::Values(
        ConvCase{"same", {2, 7, 6, 3}, {3, 3, 3, 4}}, ConvCase{"valid", {2, 7, 6, 3}, {3, 2, 3, 4}, "VALID"},
        ConvCase{"strides", {2, 8, 7, 3}, {3, 3, 3, 16}, "SAME", {2, 3}},
        ConvCase{"valid_strides_leave_rest", {1, 8, 9, 2}, {2, 2, 2, 3}, "VALID", {3, 3}},
        ConvCase{"dilations", {1, 9, 9, 2}, {3, 3, 2, 3}, "SAME", {1, 1}, {2, 3}},
        ConvCase{"explicit", {1, 5, 6, 2}, {3, 3, 2, 3}, "EXPLICIT", {2, 1}, {1, 1}, {0, 2, 1, 3}},
        ConvCase{"groups", {2, 5, 5, 8}, {3, 3, 2, 12}},
        ConvCase{"one_by_one", {3, 4, 4, 16}, {1, 1, 16, 32}},
        // Large enough to be cut into pieces for two threads, of unequal size.
        ConvCase{"parts", {5, 28, 28, 16}, {5, 5, 16, 32}},
        // Fewer images than threads: cut into bands of rows.
        ConvCase{"rows", {1, 40, 37, 16}, {3, 3, 16, 32}},
        ConvCase{"rows_strides", {1, 57, 60, 16}, {5, 3, 16, 32}, "SAME", {2, 1}},
        ConvCase{"rows_leave_rest", {1, 60, 56, 16}, {3, 3, 16, 32}, "VALID", {3, 1}},
        ConvCase{"rows_dilations", {1, 48, 48, 16}, {3, 3, 16, 32}, "SAME", {1, 1}, {4, 2}},
        ConvCase{"rows_skipped", {1, 96, 48, 16}, {1, 3, 16, 64}, "SAME", {2, 1}},
        ConvCase{"rows_explicit", {1, 40, 40, 16}, {5, 3, 16, 32}, "EXPLICIT", {1, 1}, {1, 1}, {4, 1, 0, 2}},
        ConvCase{"rows_of_padding_only",
                 {1, 9, 90, 16},
                 {3, 3, 16, 64},
                 "EXPLICIT",
                 {1, 1},
                 {1, 1},
                 {14, 14, 0, 2}},
        ConvCase{"one_channel", {3, 28, 28, 1}, {5, 5, 1, 32}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ConvKernelsTest, NewShapesAreNewPreparations) {
  KernelUnderTest conv(host_, "Conv2D", {DType::kFloat32, DType::kFloat32},
                       {{"padding", "SAME"}, {"strides", std::vector<int64_t>{1, 1, 1, 1}}});
  const Tensor w = Tensor::From<float>({1, 1, 1, 1}, {2});
  for (int run = 0; run < 2; ++run) {
    for (int64_t size = 1; size <= 20; ++size) {  // more than are kept
      Tensor x(DType::kFloat32, {1, size, 1, 1});
      std::fill(x.flat<float>().begin(), x.flat<float>().end(), 3.0f);
      const Tensor y = conv.Get({x, w});
      ASSERT_EQ(y.shape(), x.shape());
      EXPECT_EQ(y.flat<float>()[size - 1], 6);
    }
  }
}

TEST_F(ConvKernelsTest, EmptyBatches) {
  const AttrMap attrs = {{"padding", "SAME"}, {"strides", std::vector<int64_t>{1, 1, 1, 1}}};
  const Tensor x(DType::kFloat32, {0, 4, 4, 1}), w = Random<float>({3, 3, 1, 2}, 1);
  const Tensor y = Conv(x, w, attrs);
  EXPECT_EQ(y.shape(), Shape({0, 4, 4, 2}));
  EXPECT_THAT(FilterGradient(x, w, y, attrs).flat<float>(), ::testing::Each(0));
}

TEST_F(ConvKernelsTest, ErrorsNameTheShapes) {
  const AttrMap attrs = {{"padding", "VALID"}, {"strides", std::vector<int64_t>{1, 1, 1, 1}}};
  const auto message = [&](const Shape& input, const Shape& filter) {
    return std::string(KernelUnderTest(host_, "Conv2D", {DType::kFloat32, DType::kFloat32}, attrs)
                           .Run({Tensor(DType::kFloat32, input), Tensor(DType::kFloat32, filter)})
                           .status()
                           .message());
  };
  EXPECT_EQ(message({1, 4, 4, 3}, {3, 3, 2, 4}),
            "channels do not fit: the input [1,4,4,3] has 3, the filter [3,3,2,4] takes 2");
  EXPECT_THAT(message({1, 2, 4, 3}, {3, 3, 3, 4}), HasSubstr("(height of input [1,2,4,3])"));
  EXPECT_THAT(message({4, 4, 3}, {3, 3, 3, 4}), HasSubstr("must have 4 dimensions, is [4,4,3]"));
  KernelUnderTest gradient(host_, "Conv2DBackpropInput", {DType::kInt32, DType::kFloat32, DType::kFloat32},
                           attrs);
  EXPECT_EQ(gradient
                .Run({Tensor::Vector<int32_t>({1, 4, 4, 3}), Tensor(DType::kFloat32, {3, 3, 3, 4}),
                      Tensor(DType::kFloat32, {1, 3, 2, 4})})
                .status()
                .message(),
            "out_backprop must be [1,2,2,4] for the input [1,4,4,3] and the filter [3,3,3,4], is [1,3,2,4]");
}

class PoolKernelsTest : public ::testing::Test {
 protected:
  static AttrMap Attrs(int64_t window, int64_t stride, const char* padding, bool channels_first = false) {
    const auto spatial = [&](int64_t v) {
      return channels_first ? std::vector<int64_t>{1, 1, v, v} : std::vector<int64_t>{1, v, v, 1};
    };
    return {{"ksize", spatial(window)},
            {"strides", spatial(stride)},
            {"padding", padding},
            {"data_format", channels_first ? "NCHW" : "NHWC"}};
  }
  Tensor Run(const std::string& op, std::vector<Tensor> inputs, const AttrMap& attrs) {
    std::vector<DType> types;
    for (const Tensor& input : inputs) types.push_back(input.dtype());
    return KernelUnderTest(host_, op, types, attrs).Get(std::move(inputs));
  }

  TestHost host_{RegisterNnKernels};
};

TEST_F(PoolKernelsTest, AgainstTheDefinition) {
  for (const char* padding : {"SAME", "VALID"}) {
    for (const bool channels_first : {false, true}) {
      const AttrMap attrs = Attrs(3, 2, padding, channels_first);
      const Tensor x = Random<float>({3, 6, 5, 17}, 1);
      const Tensor xl = channels_first ? Transposed<float>(x, true) : x;
      const Tensor max_raw = Run("MaxPool", {xl}, attrs), average_raw = Run("AvgPool", {xl}, attrs);
      const Tensor g = Random<float>(max_raw.shape(), 2);
      const Tensor max_grad_raw = Run("MaxPoolGrad", {xl, max_raw, g}, attrs);
      const Tensor average_grad_raw = Run("AvgPoolGrad", {SizesOf(xl), g}, attrs);
      const auto last = [&](const Tensor& t) { return channels_first ? Transposed<float>(t, false) : t; };
      const Tensor max = last(max_raw), average = last(average_raw), gl = last(g);
      const Tensor max_grad = last(max_grad_raw), average_grad = last(average_grad_raw);
      const bool same = std::string(padding) == "SAME";
      ASSERT_EQ(max.shape(), same ? Shape({3, 3, 3, 17}) : Shape({3, 2, 2, 17}));
      const int64_t pad_h = 0, pad_w = same ? 1 : 0;  // (3-1)*2+3-6 = 1 below, (3-1)*2+3-5 = 2
      std::vector<float> expected_max_grad(x.num_elements()), expected_average_grad(x.num_elements());
      int64_t at = 0;
      for (int64_t n = 0; n < 3; ++n) {
        for (int64_t oh = 0; oh < max.shape().dim(1); ++oh) {
          for (int64_t ow = 0; ow < max.shape().dim(2); ++ow) {
            for (int64_t c = 0; c < 17; ++c, ++at) {
              std::vector<int64_t> window;
              for (int64_t h = oh * 2 - pad_h; h < oh * 2 - pad_h + 3; ++h) {
                for (int64_t w = ow * 2 - pad_w; w < ow * 2 - pad_w + 3; ++w) {
                  if (h >= 0 && h < 6 && w >= 0 && w < 5) window.push_back(((n * 6 + h) * 5 + w) * 17 + c);
                }
              }
              int64_t best = window[0];
              double sum = 0;
              for (int64_t i : window) {
                if (x.flat<float>()[i] > x.flat<float>()[best]) best = i;
                sum += x.flat<float>()[i];
              }
              ASSERT_EQ(max.flat<float>()[at], x.flat<float>()[best]) << at;
              ASSERT_NEAR(average.flat<float>()[at], sum / static_cast<double>(window.size()), 1e-5) << at;
              expected_max_grad[best] += gl.flat<float>()[at];
              for (int64_t i : window) {
                expected_average_grad[i] += gl.flat<float>()[at] / static_cast<float>(window.size());
              }
            }
          }
        }
      }
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        ASSERT_NEAR(max_grad.flat<float>()[i], expected_max_grad[i], 1e-5) << i;
        ASSERT_NEAR(average_grad.flat<float>()[i], expected_average_grad[i], 1e-5) << i;
      }
    }
  }
}

TEST_F(PoolKernelsTest, TheFirstOfEqualMaximaGetsTheGradient) {
  const Tensor x = Tensor::From<float>({1, 2, 2, 1}, {1, 3, 3, 3}),
               y = Tensor::From<float>({1, 1, 1, 1}, {3});
  const Tensor g = Tensor::From<float>({1, 1, 1, 1}, {5});
  EXPECT_THAT(Run("MaxPoolGrad", {x, y, g}, Attrs(2, 2, "VALID")).flat<float>(), ElementsAre(0, 5, 0, 0));
}

TEST_F(PoolKernelsTest, TheGradientDoesNotDependOnTheValuesOfTheOutput) {
  const Tensor x = Tensor::From<float>({1, 2, 2, 1}, {1, 3, 2, 0}),
               fed = Tensor::From<float>({1, 1, 1, 1}, {2});
  const Tensor g = Tensor::From<float>({1, 1, 1, 1}, {5});
  EXPECT_THAT(Run("MaxPoolGrad", {x, fed, g}, Attrs(2, 2, "VALID")).flat<float>(), ElementsAre(0, 5, 0, 0));
}

// The numbers are those of TensorFlow 2.21 on the CPU. Its gradient stays with a NaN that comes first.
TEST_F(PoolKernelsTest, NanIsNotTheLargest) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kLowest = std::numeric_limits<float>::lowest();
  struct Window {
    std::vector<float> values;
    float largest;
    std::vector<float> gradient;
    float second_gradient;
  };
  for (const Window& window :
       {Window{{1, kNan, 3, 2}, 3, {0, 0, 9, 0}, 7}, Window{{1, 2, 3, kNan}, 3, {0, 0, 9, 0}, 7},
        Window{{kNan, 1, 3, 2}, 3, {9, 0, 0, 0}, 7},
        Window{{kNan, kNan, kNan, kNan}, kLowest, {9, 0, 0, 0}, 0}}) {
    const Tensor x = Tensor::FromSpan<float>({1, 2, 2, 1}, window.values);
    const Tensor y = Run("MaxPool", {x}, Attrs(2, 2, "VALID"));
    EXPECT_THAT(y.flat<float>(), ElementsAre(window.largest)) << x.ToString();
    EXPECT_THAT(Run("MaxPoolGrad", {x, y, Tensor::From<float>({1, 1, 1, 1}, {9})}, Attrs(2, 2, "VALID"))
                    .flat<float>(),
                ElementsAreArray(window.gradient))
        << x.ToString();
    EXPECT_THAT(
        Run("MaxPoolGradGrad", {x, y, Tensor::From<float>({1, 2, 2, 1}, {5, 6, 7, 8})}, Attrs(2, 2, "VALID"))
            .flat<float>(),
        ElementsAre(window.second_gradient))
        << x.ToString();
  }
}

TEST_F(PoolKernelsTest, MaxTakesIntegers) {
  EXPECT_THAT(Run("MaxPool", {Tensor::From<int8_t>({1, 2, 2, 1}, {-5, -3, -4, -9})}, Attrs(2, 2, "VALID"))
                  .flat<int8_t>(),
              ElementsAre(-3));
}

TEST_F(PoolKernelsTest, ErrorsNameTheShapes) {
  KernelUnderTest gradient(host_, "AvgPoolGrad", {DType::kInt32, DType::kFloat32}, Attrs(2, 2, "VALID"));
  EXPECT_EQ(gradient.Run({Tensor::Vector<int32_t>({1, 4, 4, 1}), Tensor(DType::kFloat32, {1, 3, 2, 1})})
                .status()
                .message(),
            "grad must be [1,2,2,1], is [1,3,2,1]");
  EXPECT_FALSE(
      gradient.Run({Tensor::Vector<int32_t>({1, 4, -4, 1}), Tensor(DType::kFloat32, {1, 3, 2, 1})}).ok());
}

}  // namespace
}  // namespace weir
