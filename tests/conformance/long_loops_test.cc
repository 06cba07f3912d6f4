// Kernels that compute for seconds end with their step. Each is cancelled as soon as it computes; what it
// computes then is counted in seconds of the processor, which a busy machine does not change.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using D = DType;

double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Elements are 0. Large ones come from the system as such, and what nobody writes it does not give.
Tensor Zeros(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  const int64_t bytes = shape.num_elements() * DTypeSize(dtype);
  if (bytes < (1 << 26)) std::memset(tensor.data(), 0, static_cast<size_t>(bytes));
  return tensor;
}

class LongLoopsTest : public testing::Test {
 protected:
  struct Case {
    std::string op;
    std::vector<Tensor> inputs;
    AttrMap attrs = {};
  };

  // Within `most` seconds of the processor; it takes more than twice that.
  void ExpectEnds(Case c, double most = 1) {
    std::vector<DType> types;
    for (const Tensor& input : c.inputs) types.push_back(input.dtype());
    KernelUnderTest kernel(host_, c.op, types, c.attrs);
    ASSERT_TRUE(kernel.status().ok()) << c.op << ": " << kernel.status();
    Cancellation cancellation;
    const double begin = ProcessorSeconds();
    std::thread canceller([&] {
      constexpr double kComputes = 0.02;
      while (ProcessorSeconds() < begin + kComputes)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      cancellation.Cancel(absl::CancelledError("the step is over"));
    });
    const absl::Status status = kernel.Run(std::move(c.inputs), &cancellation).status();
    const double seconds = ProcessorSeconds() - begin;
    while (ProcessorSeconds() < begin + 0.03) {  // one that has failed at once
    }
    canceller.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << c.op << ": " << status;
    EXPECT_LT(seconds, most) << c.op;
  }

  TestHost host_{RegisterArrayKernels, RegisterImageKernels,  RegisterMathKernels,
                 RegisterNnKernels,    RegisterRandomKernels, RegisterStringsKernels};
};

AttrMap Sliding(int dims) {
  return {{"strides", std::vector<int64_t>(dims, 1)}, {"padding", std::string("SAME")}};
}

AttrMap Pooling(int dims, int64_t size) {
  AttrMap attrs = Sliding(dims);
  std::vector<int64_t> window(dims, size);
  window.front() = window.back() = 1;
  attrs["ksize"] = window;
  return attrs;
}

TEST_F(LongLoopsTest, PlainConvolutions) {
  const Tensor image = Zeros(D::kInt32, {1, 200, 200, 16}), filter = Zeros(D::kInt32, {31, 31, 16, 16});
  ExpectEnds({"Conv2D", {image, filter}, Sliding(4)});
  ExpectEnds(
      {"Conv2DBackpropInput", {Tensor::Vector<int32_t>({1, 200, 200, 16}), filter, image}, Sliding(4)});
  const Tensor doubles = Zeros(D::kFloat64, {1, 200, 200, 16});  // for it has no integers
  ExpectEnds(
      {"Conv2DBackpropFilter", {doubles, Tensor::Vector<int32_t>({31, 31, 16, 16}), doubles}, Sliding(4)});
}

TEST_F(LongLoopsTest, Convolutions) {
  const Tensor image = Zeros(D::kFloat32, {1, 256, 256, 64}), filter = Zeros(D::kFloat32, {31, 31, 64, 64});
  // oneDNN cannot be stopped: each thread computes its part to the end.
  constexpr double kMost = 3;
  ExpectEnds({"Conv2D", {image, filter}, Sliding(4)}, kMost);
  ExpectEnds({"Conv2DBackpropInput", {Tensor::Vector<int32_t>({1, 256, 256, 64}), filter, image}, Sliding(4)},
             kMost);
  ExpectEnds({"DepthwiseConv2dNative",
              {Zeros(D::kFloat32, {1, 1000, 1000, 16}), Zeros(D::kFloat32, {51, 51, 16, 1})},
              Sliding(4)},
             kMost);
  ExpectEnds({"Conv3D",
              {Zeros(D::kFloat32, {1, 64, 64, 64, 16}), Zeros(D::kFloat32, {15, 15, 15, 16, 16})},
              Sliding(5)},
             kMost);
}

TEST_F(LongLoopsTest, Pools) {
  const Tensor image = Zeros(D::kFloat32, {1, 400, 400, 8});
  const Tensor shape = Tensor::Vector<int32_t>({1, 400, 400, 8});
  ExpectEnds({"MaxPool", {image}, Pooling(4, 301)});
  ExpectEnds({"AvgPool", {image}, Pooling(4, 301)});
  ExpectEnds({"MaxPoolGrad", {image, image, image}, Pooling(4, 301)});
  ExpectEnds({"MaxPoolGradGrad", {image, image, image}, Pooling(4, 301)});
  ExpectEnds({"AvgPoolGrad", {shape, image}, Pooling(4, 301)});
  ExpectEnds({"MaxPoolWithArgmax", {image}, Pooling(4, 301)});
  const Tensor volume = Zeros(D::kFloat32, {1, 50, 50, 50, 2});
  const Tensor volume_shape = Tensor::Vector<int32_t>({1, 50, 50, 50, 2});
  ExpectEnds({"MaxPool3D", {volume}, Pooling(5, 41)});
  ExpectEnds({"AvgPool3D", {volume}, Pooling(5, 41)});
  ExpectEnds({"MaxPool3DGrad", {volume, volume, volume}, Pooling(5, 41)});
  ExpectEnds({"MaxPool3DGradGrad", {volume, volume, volume}, Pooling(5, 41)});
  ExpectEnds({"AvgPool3DGrad", {volume_shape, volume}, Pooling(5, 41)});
}

// One axis of windows that begin at each element and are cut off at the ends, as SAME pads them.
struct Axis {
  int64_t size, window;
  int64_t First(int64_t o) const { return std::max<int64_t>(0, o - (window - 1) / 2); }
  int64_t Last(int64_t o) const { return std::min(size - 1, o - (window - 1) / 2 + window - 1); }
  // How many windows end at an element, and what it gets if each spreads 1 over its elements.
  double EndsAt(int64_t at) const {
    return Sum([&](int64_t o) { return Last(o) == at ? 1 : 0; });
  }
  double ShareOf(int64_t at) const {
    return Sum([&](int64_t o) {
      return First(o) <= at && at <= Last(o) ? 1.0 / static_cast<double>(Last(o) - First(o) + 1) : 0;
    });
  }
  template <typename F>
  double Sum(const F& f) const {
    double sum = 0;
    for (int64_t o = 0; o < size; ++o) sum += f(o);
    return sum;
  }
};

// Long enough for rows, and for pieces of rows, to be parts of their own. Pixels count upwards, so all that
// is expected comes from the axes.
TEST_F(LongLoopsTest, PoolsInPartsAreWhole) {
  const std::vector<std::vector<Axis>> all = {{{128, 127}, {128, 127}},
                                              {{8, 8}, {2048, 2047}},
                                              {{24, 23}, {24, 24}, {24, 23}},
                                              {{3, 3}, {4, 3}, {1500, 1501}}};
  for (const std::vector<Axis>& axes : all) {
    Dims dims = {1};
    std::vector<int64_t> ksize = {1};
    for (const Axis& axis : axes) {
      dims.push_back(axis.size);
      ksize.push_back(axis.window);
    }
    dims.push_back(1);
    ksize.push_back(1);
    const int rank = static_cast<int>(dims.size());
    AttrMap attrs = Sliding(rank);
    attrs["ksize"] = ksize;
    const std::string suffix = rank == 5 ? "3D" : "";
    Tensor image(D::kFloat32, Shape(dims)), ones(D::kFloat32, Shape(dims)), shape(D::kInt32, {rank});
    for (int64_t i = 0; i < image.num_elements(); ++i) {
      image.flat<float>()[i] = static_cast<float>(i);
      ones.flat<float>()[i] = 1;
    }
    for (int i = 0; i < rank; ++i) shape.flat<int32_t>()[i] = static_cast<int32_t>(dims[i]);
    const auto run = [&](const std::string& op, std::vector<Tensor> inputs) {
      std::vector<DType> types;
      for (const Tensor& input : inputs) types.push_back(input.dtype());
      return KernelUnderTest(host_, op + suffix + (inputs.size() > 1 ? "Grad" : ""), types, attrs)
          .Get(std::move(inputs));
    };
    const Tensor largest = run("MaxPool", {image}), mean = run("AvgPool", {image});
    const Tensor picked = run("MaxPool", {image, largest, ones}), shared = run("AvgPool", {shape, ones});
    for (int64_t i = 0; i < image.num_elements(); ++i) {
      double last = 0, middle = 0, ends = 1, share = 1;
      int64_t rest = i, stride = 1;
      for (size_t a = axes.size(); a-- > 0;) {
        const int64_t o = rest % axes[a].size;
        rest /= axes[a].size;
        last += static_cast<double>(axes[a].Last(o) * stride);
        middle += static_cast<double>((axes[a].First(o) + axes[a].Last(o)) * stride) / 2;
        stride *= axes[a].size;
        const bool is_checked = i % 61 == 0 || i + 1 == image.num_elements();
        ends *= is_checked ? axes[a].EndsAt(o) : 1;
        share *= is_checked ? axes[a].ShareOf(o) : 1;
      }
      ASSERT_EQ(largest.flat<float>()[i], last) << i;
      ASSERT_NEAR(mean.flat<float>()[i], middle, 1e-3 * middle) << i;
      if (i % 61 != 0 && i + 1 != image.num_elements()) continue;
      ASSERT_EQ(picked.flat<float>()[i], ends) << i;
      ASSERT_NEAR(shared.flat<float>()[i], share, 1e-3 * share) << i;
    }
  }
}

TEST_F(LongLoopsTest, Normalization) {
  const Tensor pixel = Zeros(D::kFloat32, {1, 1, 1, 200'000});
  const AttrMap wide = {{"depth_radius", int64_t{100'000}}};
  ExpectEnds({"LRN", {pixel}, wide});
  ExpectEnds({"LRNGrad", {pixel, pixel, pixel}, wide});
}

TEST_F(LongLoopsTest, Products) {
  for (const auto& [dtype, side] : std::vector<std::pair<DType, int64_t>>{{D::kInt32, 2500},
                                                                          {D::kInt64, 2000},
                                                                          {D::kFloat64, 5000},
                                                                          {D::kComplex64, 2000},
                                                                          {D::kComplex128, 2000}}) {
    const Tensor matrix = Zeros(dtype, {side, side});
    ExpectEnds({"MatMul", {matrix, matrix}});
  }
  const Tensor matrices = Zeros(D::kFloat32, {20'000, 256, 256}), matrix = Zeros(D::kFloat32, {1, 256, 256});
  ExpectEnds({"BatchMatMulV2", {matrices, matrix}});
}

TEST_F(LongLoopsTest, Images) {
  const Tensor image = Zeros(D::kFloat32, {1, 10, 10, 1}), size = Tensor::Vector<int32_t>({20'000, 20'000});
  ExpectEnds({"CropAndResize",
              {image, Tensor::From<float>({1, 4}, {0, 0, 1, 1}), Tensor::Vector<int32_t>({0}), size}});
  ExpectEnds({"ResizeBicubic", {image, size}});
  ExpectEnds({"ResizeBilinear", {image, size}});
  const std::vector<int64_t> window = {1, 30, 30, 1}, ones = {1, 1, 1, 1};
  ExpectEnds({"ExtractImagePatches",
              {Zeros(D::kFloat32, {1, 1000, 1000, 1})},
              {{"ksizes", window}, {"strides", ones}, {"rates", ones}, {"padding", std::string("SAME")}}});
}

// They would be done in less, and then without an error.
TEST_F(LongLoopsTest, Encoders) {
  const Tensor image = Zeros(D::kUint8, {15'000, 15'000, 3});
  ExpectEnds({"EncodePng", {image}, {{"compression", int64_t{9}}}});
  ExpectEnds({"EncodeJpeg", {image}});
  ExpectEnds({"EncodeJpeg", {image}, {{"progressive", true}}});
}

TEST_F(LongLoopsTest, RandomNumbers) {
  const AttrMap seeded = {{"seed", int64_t{1}}, {"seed2", int64_t{2}}};
  AttrMap poisson = seeded;
  poisson["dtype"] = D::kInt64;
  // The few samples of the second rate take all of the time.
  std::vector<float> rates(1'000, 1.0f);
  rates[500] = 1e38f;
  ExpectEnds(
      {"RandomPoissonV2", {Tensor::Vector<int32_t>({200'000}), Tensor::Vector<float>({1e38f})}, poisson});
  ExpectEnds({"RandomPoissonV2",
              {Tensor::Vector<int32_t>({50'000}), Tensor::FromSpan<float>({1'000}, rates)},
              poisson});
  ExpectEnds(
      {"RandomGamma", {Tensor::Vector<int32_t>({100'000'000}), Tensor::Vector<float>({0.5f})}, seeded});
}

TEST_F(LongLoopsTest, Strings) {
  Tensor texts(D::kString, {4000});  // each of them is one call of RE2
  for (std::string& text : texts.flat<std::string>()) text = std::string(5'000, 'a');
  const Tensor pattern = Tensor::Scalar<std::string>("((a?){100}b?){9}[^c]*(x|y)");
  ExpectEnds({"RegexFullMatch", {texts, pattern}});
  ExpectEnds({"RegexReplace", {texts, pattern, Tensor::Scalar<std::string>("")}});
  ExpectEnds({"UnicodeTranscode",
              {Tensor::Scalar<std::string>(std::string(300'000'000, 'a'))},
              {{"input_encoding", std::string("UTF-8")}, {"output_encoding", std::string("UTF-16-BE")}}});
}

TEST_F(LongLoopsTest, Orders) {
  ExpectEnds({"UniqueV2", {Zeros(D::kInt32, {20'000, 10'000}), Tensor::Vector<int32_t>({1})}});
  Tensor permutation(D::kInt32, {50'000'000});
  for (int32_t i = 0; i < permutation.num_elements(); ++i) permutation.flat<int32_t>()[i] = i;
  ExpectEnds({"InvertPermutation", {permutation}});
  ExpectEnds({"TopKV2", {Zeros(D::kFloat32, {1, 10'000'000}), Tensor::Scalar<int32_t>(10'000'000)}});
}

}  // namespace
}  // namespace weir
