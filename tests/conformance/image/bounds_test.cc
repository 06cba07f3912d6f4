// What kernels of images may touch, and what they may take of time: pixels whose numbers floats do not have,
// tensors of very many pixels that have no elements, and steps that are cancelled within a long loop.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

// Cancels from another thread, some time after the test has begun.
class Canceller {
 public:
  explicit Canceller(Cancellation& cancellation)
      : thread_([&cancellation] {
          absl::SleepFor(absl::Milliseconds(20));
          cancellation.Cancel(absl::CancelledError("enough"));
        }) {}
  ~Canceller() { thread_.join(); }

 private:
  std::thread thread_;
};

// As a float, the number of the last pixel is that of the pixel after it, which is the next image's first.
constexpr int64_t kWidth = (int64_t{1} << 24) + 4;

const Tensor& WholeImage() {
  static const Tensor box = Tensor::FromSpan<float>({1, 4}, {0, 0, 1, 1});
  return box;
}

AttrMap Method(const char* method, DType dtype) { return {{"method", std::string(method)}, {"T", dtype}}; }

TEST(WideImages, AreCroppedWithinThemselves) {
  TestHost host({RegisterImageKernels});
  Tensor images(DType::kUint8, Shape({2, 1, kWidth, 1}));
  const absl::Span<uint8_t> pixels = images.flat<uint8_t>();
  std::fill(pixels.begin(), pixels.begin() + kWidth, 5);
  std::fill(pixels.begin() + kWidth, pixels.end(), 9);
  const std::vector<DType> types = {DType::kUint8, DType::kFloat32, DType::kInt32, DType::kInt32};
  for (const char* method : {"bilinear", "nearest"}) {
    KernelUnderTest crop(host, "CropAndResize", types, Method(method, DType::kUint8));
    const Tensor found =
        crop.Get({images, WholeImage(), Tensor::Vector<int32_t>({0}), Tensor::Vector<int32_t>({1, 2})});
    EXPECT_EQ(found.flat<float>()[0], 5) << method;
    EXPECT_EQ(found.flat<float>()[1], 5) << method;
  }
}

TEST(WideImages, GetTheGradientsOfTheirOwnCrops) {
  TestHost host({RegisterImageKernels});
  const std::vector<DType> types = {DType::kFloat32, DType::kFloat32, DType::kInt32, DType::kInt32};
  const Tensor gradients = Tensor::FromSpan<float>({1, 1, 2, 1}, {3, 4});
  const Tensor dims = Tensor::Vector<int32_t>({2, 1, static_cast<int32_t>(kWidth), 1});
  for (const char* method : {"bilinear", "nearest"}) {
    KernelUnderTest spread(host, "CropAndResizeGradImage", types, Method(method, DType::kFloat32));
    const Tensor found = spread.Get({gradients, WholeImage(), Tensor::Vector<int32_t>({0}), dims});
    EXPECT_EQ(found.flat<float>()[0], 3) << method;
    EXPECT_EQ(found.flat<float>()[kWidth - 1], 4) << method;
    EXPECT_EQ(found.flat<float>()[kWidth], 0) << method;
  }
}

// The axis alone took 2^63 bytes, which no shape has.
TEST(ImagesOfNothing, AreNotScaled) {
  TestHost host({RegisterImageKernels}, int64_t{1} << 20);
  const Tensor one = Tensor::Vector<float>({1, 1});
  for (const int64_t rows : {int64_t{1} << 30, int64_t{1} << 60}) {
    const Tensor gradients(DType::kFloat32, Shape({0, rows, 1, 1})), image(DType::kFloat32, {0, 1, 1, 1});
    KernelUnderTest gradient(host, "ScaleAndTranslateGrad", std::vector<DType>(4, DType::kFloat32));
    EXPECT_EQ(gradient.Get({gradients, image, one, one}).shape(), Shape({0, 1, 1, 1}));
    // Gradients without elements, for an image that has some.
    const Tensor nothing(DType::kFloat32, Shape({1, rows, 0, 1})), pixels(DType::kFloat32, {1, 2, 2, 1});
    const Tensor found = gradient.Get({nothing, pixels, one, one});
    ASSERT_EQ(found.shape(), pixels.shape());
    for (const float x : found.flat<float>()) EXPECT_EQ(x, 0);
  }
  const std::vector<DType> types = {DType::kFloat32, DType::kInt32, DType::kFloat32, DType::kFloat32};
  KernelUnderTest forward(host, "ScaleAndTranslate", types);
  const Tensor size = Tensor::Vector<int32_t>({1 << 30, 1});
  EXPECT_EQ(forward.Get({Tensor(DType::kFloat32, {0, 1, 1, 1}), size, one, one}).shape(),
            Shape({0, 1 << 30, 1, 1}));
}

// Each class was visited: 2^62 of them are centuries. Four boxes of each are 2^64, which is 0 to an integer.
TEST(ImagesOfNothing, HaveNoClasses) {
  TestHost host({RegisterImageKernels});
  const Tensor scalar = Tensor::Scalar<float>(0.5f), four = Tensor::Scalar<int32_t>(4);
  const std::vector<DType> types = {DType::kFloat32, DType::kFloat32, DType::kInt32,
                                    DType::kInt32,   DType::kFloat32, DType::kFloat32};
  for (const bool pads : {false, true}) {
    for (const int64_t batch : {0, 1}) {
      KernelUnderTest choose(host, "CombinedNonMaxSuppression", types, {{"pad_per_class", pads}});
      const Tensor boxes(DType::kFloat32, Shape({batch, 0, 1, 4}));
      const Tensor scores(DType::kFloat32, Shape({batch, 0, int64_t{1} << 62}));
      const auto found = choose.Run({boxes, scores, four, four, scalar, scalar});
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ((*found)[0].shape(), Shape({batch, 4, 4}));
      EXPECT_EQ((*found)[3].shape(), Shape({batch}));
      for (const int32_t count : (*found)[3].flat<int32_t>()) EXPECT_EQ(count, 0);
    }
  }
}

TEST(ImagesOfNothing, HaveGradientsOfBoxesThatAreZero) {
  TestHost host({RegisterImageKernels});
  const std::vector<DType> types = {DType::kFloat32, DType::kFloat32, DType::kFloat32, DType::kInt32};
  KernelUnderTest boxes(host, "CropAndResizeGradBoxes", types);
  const int64_t many = int64_t{1} << 30;
  const Tensor found =
      boxes.Get({Tensor(DType::kFloat32, Shape({1, many, many, 0})), Tensor(DType::kFloat32, {1, 1, 1, 0}),
                 WholeImage(), Tensor::Vector<int32_t>({0})});
  ASSERT_EQ(found.shape(), Shape({1, 4}));
  for (const float x : found.flat<float>()) EXPECT_EQ(x, 0);
}

TEST(ImagesOfNothing, AreNotPooled) {
  TestHost host({RegisterNnKernels});
  const std::vector<DType> types = {DType::kQuint8, DType::kFloat32, DType::kFloat32};
  const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, 1, 1, 1}},
                         {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                         {"padding", std::string("VALID")}};
  const Shape shape({1, int64_t{1} << 30, int64_t{1} << 30, 0});
  for (const char* op : {"QuantizedMaxPool", "QuantizedAvgPool"}) {
    const auto found =
        KernelUnderTest(host, op, types, attrs)
            .Run({Tensor(DType::kQuint8, shape), Tensor::Scalar<float>(0), Tensor::Scalar<float>(1)});
    ASSERT_TRUE(found.ok()) << op << ": " << found.status();
    EXPECT_EQ((*found)[0].shape(), shape);
    EXPECT_EQ((*found)[2].scalar<float>(), 1);
  }
}

// There is nothing of them anywhere. (In the suite their gradients would be images without pixels, which the
// op refuses.)
TEST(ImagesOfNothing, AreFilledWhereTheyAreTransformed) {
  TestHost host({RegisterImageKernels});
  const std::vector<DType> types = {DType::kFloat32, DType::kFloat32, DType::kInt32, DType::kFloat32};
  const Tensor same = Tensor::FromSpan<float>({1, 8}, {1, 0, 0, 0, 1, 0, 0, 0});
  for (const char* mode : {"CONSTANT", "REFLECT", "WRAP", "NEAREST"}) {
    for (const char* interpolation : {"NEAREST", "BILINEAR"}) {
      KernelUnderTest transform(host, "ImageProjectiveTransformV3", types,
                                {{"interpolation", std::string(interpolation)},
                                 {"fill_mode", std::string(mode)},
                                 {"dtype", DType::kFloat32}});
      const Tensor found = transform.Get({Tensor(DType::kFloat32, {1, 0, 4, 1}), same,
                                          Tensor::Vector<int32_t>({2, 2}), Tensor::Scalar<float>(7)});
      for (const float x : found.flat<float>()) EXPECT_EQ(x, 7) << mode << " " << interpolation;
    }
  }
}

// Positions that no integer has, and those that are no numbers: a border's pixel, or nothing.
TEST(EndlessPerspectives, EndAtBorders) {
  TestHost host({RegisterImageKernels});
  const std::vector<DType> types = {DType::kUint8, DType::kFloat32, DType::kInt32, DType::kFloat32};
  const Tensor image = Tensor::FromSpan<uint8_t>({1, 1, 3, 1}, {10, 20, 30});
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* mode : {"CONSTANT", "REFLECT", "WRAP", "NEAREST"}) {
    KernelUnderTest transform(host, "ImageProjectiveTransformV3", types,
                              {{"interpolation", std::string("NEAREST")},
                               {"fill_mode", std::string(mode)},
                               {"dtype", DType::kUint8}});
    const auto pixel = [&](float x) {
      const Tensor moved = Tensor::FromSpan<float>({1, 8}, {1, 0, x, 0, 1, 0, 0, 0});
      const Tensor found =
          transform.Get({image, moved, Tensor::Vector<int32_t>({1, 1}), Tensor::Scalar<float>(7)});
      return static_cast<int>(found.flat<uint8_t>()[0]);
    };
    const bool is_constant = mode == std::string("CONSTANT");
    EXPECT_EQ(pixel(infinity), is_constant ? 7 : 30) << mode;
    EXPECT_EQ(pixel(-infinity), is_constant ? 7 : 10) << mode;
    EXPECT_EQ(pixel(std::nanf("")), 7) << mode;
    for (const float x : {3e38f, -3e38f}) EXPECT_EQ(pixel(x) == 7, is_constant) << mode;
  }
}

// Boxes of which no two meet, so that each is compared with all before it: 8 * 10^10 comparisons.
Tensor DisjointBoxes(int64_t count, std::vector<int64_t> dims) {
  Tensor boxes(DType::kFloat32, Shape(std::move(dims)));
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<float>(2 * i);
    const float corners[] = {at, 0, at + 1, 1};
    std::copy_n(corners, 4, boxes.flat<float>().data() + 4 * i);
  }
  return boxes;
}

Tensor Ones(std::vector<int64_t> dims) {
  Tensor ones(DType::kFloat32, Shape(std::move(dims)));
  std::fill(ones.flat<float>().begin(), ones.flat<float>().end(), 1.0f);
  return ones;
}

void ExpectCancelled(KernelUnderTest& kernel, std::vector<Tensor> inputs) {
  Cancellation cancellation;
  const Canceller canceller(cancellation);
  const absl::Status status = kernel.Run(std::move(inputs), &cancellation).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

TEST(CancelledSteps, CompareNoMoreBoxes) {
  TestHost host({RegisterImageKernels});
  constexpr int64_t kMany = 400'000;
  const Tensor most = Tensor::Scalar<int32_t>(kMany), half = Tensor::Scalar<float>(0.5f);
  KernelUnderTest choose(host, "NonMaxSuppressionV2",
                         {DType::kFloat32, DType::kFloat32, DType::kInt32, DType::kFloat32});
  ExpectCancelled(choose, {DisjointBoxes(kMany, {kMany, 4}), Ones({kMany}), most, half});
  KernelUnderTest of_classes(
      host, "CombinedNonMaxSuppression",
      {DType::kFloat32, DType::kFloat32, DType::kInt32, DType::kInt32, DType::kFloat32, DType::kFloat32});
  ExpectCancelled(of_classes, {DisjointBoxes(kMany, {1, kMany, 1, 4}), Ones({1, kMany, 1}), most, most, half,
                               Tensor::Scalar<float>(0)});
}

// 2^18 pixels under a filter of 2^18.
TEST(CancelledSteps, DilateNoMorePixels) {
  TestHost host({RegisterImageKernels});
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}},
                         {"rates", std::vector<int64_t>{1, 1, 1, 1}},
                         {"padding", std::string("SAME")}};
  const Tensor image = Ones({1, 512, 512, 1}), filter = Ones({512, 512, 1});
  KernelUnderTest forward(host, "Dilation2D", {DType::kFloat32, DType::kFloat32}, attrs);
  ExpectCancelled(forward, {image, filter});
  for (const char* op : {"Dilation2DBackpropInput", "Dilation2DBackpropFilter"}) {
    KernelUnderTest back(host, op, std::vector<DType>(3, DType::kFloat32), attrs);
    ExpectCancelled(back, {image, filter, image});
  }
}

// Each pixel of the result is a sum over the whole line: 10^12 terms.
TEST(CancelledSteps, ScaleNoMorePixels) {
  TestHost host({RegisterImageKernels});
  const Tensor size = Tensor::Vector<int32_t>({5000, 5000}), none = Tensor::Vector<float>({0, 0});
  const Tensor tiny = Tensor::Vector<float>({1e-20f, 1e-20f});
  const AttrMap attrs = {{"kernel_type", std::string("triangle")}, {"antialias", true}};
  KernelUnderTest scale(host, "ScaleAndTranslate",
                        {DType::kFloat32, DType::kInt32, DType::kFloat32, DType::kFloat32}, attrs);
  ExpectCancelled(scale, {Ones({1, 1, 20'000, 1}), size, tiny, none});
  KernelUnderTest back(host, "ScaleAndTranslateGrad", std::vector<DType>(4, DType::kFloat32), attrs);
  ExpectCancelled(back, {Ones({1, 5000, 5000, 1}), Ones({1, 1, 20'000, 1}), tiny, none});
}

// One box a time: 10^6 of them around 2,000 x 2,000 pixels are 8 * 10^9 pixels.
TEST(CancelledSteps, DrawNoMoreBoxes) {
  TestHost host({RegisterImageKernels});
  Tensor boxes(DType::kFloat32, Shape({1, 1'000'000, 4}));
  for (int64_t i = 0; i < boxes.num_elements(); ++i) boxes.flat<float>()[i] = i % 4 < 2 ? 0.0f : 1.0f;
  KernelUnderTest draw(host, "DrawBoundingBoxes", {DType::kFloat32, DType::kFloat32});
  ExpectCancelled(draw, {Ones({1, 2000, 2000, 1}), boxes});
}

}  // namespace
}  // namespace weir
