// The expected values are TensorFlow 2.21's (CPU): tf.raw_ops.StatelessSampleDistortedBoundingBox, and
// tf.raw_ops.SampleDistortedBoundingBoxV2 in one session of a v1 graph.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using Triple = std::vector<int32_t>;

Triple Of(const Tensor& tensor) { return {tensor.flat<int32_t>().begin(), tensor.flat<int32_t>().end()}; }

class DistortedBoxesTest : public ::testing::Test {
 protected:
  TestHost host_{RegisterImageKernels};
};

TEST_F(DistortedBoxesTest, StatelessBoxesAreTensorFlowsForTheSameSeeds) {
  struct Case {
    Triple size;
    float covered;
    std::vector<int32_t> seed;
    Triple begin, extent;
  };
  const std::vector<Case> cases = {
      {{40, 30, 3}, 0.5f, {1, 2}, {12, 3, 0}, {18, 22, -1}},
      {{128, 64, 1}, 0.9f, {1, 2}, {0, 3, 0}, {47, 58, -1}},
      {{17, 300, 3}, 0.1f, {1, 2}, {0, 193, 0}, {15, 19, -1}},
      {{40, 30, 3}, 0.5f, {3, 4}, {2, 6, 0}, {24, 21, -1}},
      {{128, 64, 1}, 0.9f, {3, 4}, {2, 0, 0}, {70, 63, -1}},
      {{17, 300, 3}, 0.1f, {3, 4}, {0, 189, 0}, {17, 15, -1}},
      {{40, 30, 3}, 0.5f, {7, -9}, {5, 0, 0}, {32, 30, -1}},
      {{128, 64, 1}, 0.9f, {7, -9}, {3, 0, 0}, {68, 64, -1}},
      {{17, 300, 3}, 0.1f, {7, -9}, {0, 225, 0}, {17, 16, -1}},
  };
  KernelUnderTest kernel(host_, "StatelessSampleDistortedBoundingBox",
                         {DType::kInt32, DType::kFloat32, DType::kFloat32, DType::kInt32});
  ASSERT_TRUE(kernel.status().ok()) << kernel.status();
  const Tensor boxes =
      Tensor::From<float>(Shape({1, 2, 4}), {0.1f, 0.2f, 0.8f, 0.9f, 0.0f, 0.5f, 0.3f, 1.0f});
  for (const Case& c : cases) {
    const auto found = kernel.Run({Tensor::FromSpan<int32_t>(Shape({3}), c.size), boxes,
                                   Tensor::Scalar(c.covered), Tensor::FromSpan<int32_t>(Shape({2}), c.seed)});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(Of((*found)[0]), c.begin);
    EXPECT_EQ(Of((*found)[1]), c.extent);
    const absl::Span<const float> corners = (*found)[2].flat<float>();
    EXPECT_FLOAT_EQ(corners[0], static_cast<float>(c.begin[0]) / static_cast<float>(c.size[0]));
    EXPECT_FLOAT_EQ(corners[3], static_cast<float>(c.begin[1] + c.extent[1]) / static_cast<float>(c.size[1]));
  }
}

TEST_F(DistortedBoxesTest, ASessionGoesOnWithItsStream) {
  const Tensor size = Tensor::Vector<int32_t>({40, 30, 3});
  const Tensor boxes = Tensor::From<float>(Shape({1, 1, 4}), {0.1f, 0.2f, 0.8f, 0.9f});
  KernelUnderTest second(host_, "SampleDistortedBoundingBoxV2",
                         {DType::kInt32, DType::kFloat32, DType::kFloat32},
                         {{"seed", int64_t{5}}, {"seed2", int64_t{6}}});
  KernelUnderTest first(host_, "SampleDistortedBoundingBox", {DType::kInt32, DType::kFloat32},
                        {{"seed", int64_t{5}}, {"seed2", int64_t{6}}, {"min_object_covered", 0.5f}});
  const std::vector<std::pair<Triple, Triple>> expected = {
      {{2, 0, 0}, {27, 22, -1}}, {{6, 2, 0}, {30, 26, -1}}, {{8, 2, 0}, {23, 27, -1}}};
  for (const auto& [begin, extent] : expected) {
    const auto of_second = second.Run({size, boxes, Tensor::Scalar(0.5f)});
    ASSERT_TRUE(of_second.ok()) << of_second.status();
    EXPECT_EQ(Of((*of_second)[0]), begin);
    EXPECT_EQ(Of((*of_second)[1]), extent);
    const auto of_first = first.Run({size, boxes});
    ASSERT_TRUE(of_first.ok()) << of_first.status();
    EXPECT_EQ(Of((*of_first)[0]), begin);
    EXPECT_EQ(Of((*of_first)[1]), extent);
  }
}

TEST_F(DistortedBoxesTest, WithoutBoxesOrWithLimitsThatNothingMeetsItIsTheWholeImage) {
  KernelUnderTest kernel(
      host_, "SampleDistortedBoundingBox", {DType::kInt32, DType::kFloat32},
      {{"use_image_if_no_bounding_boxes", true}, {"aspect_ratio_range", std::vector<float>{1e-38f, 1e-38f}}});
  const auto found =
      kernel.Run({Tensor::Vector<int32_t>({40, 30, 3}), Tensor(DType::kFloat32, Shape({1, 0, 4}))});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Of((*found)[0]), (Triple{0, 0, 0}));
  EXPECT_EQ(Of((*found)[1]), (Triple{40, 30, -1}));
}

// Where a glimpse leaves its image there is noise between the image's extremes.
TEST_F(DistortedBoxesTest, GlimpsesHaveNoiseWhereTheImageEnds) {
  for (const char* noise : {"uniform", "gaussian"}) {
    KernelUnderTest kernel(host_, "ExtractGlimpse", {DType::kFloat32, DType::kInt32, DType::kFloat32},
                           {{"uniform_noise", false}, {"noise", std::string(noise)}});
    const Tensor image = Tensor::From<float>(Shape({1, 2, 2, 1}), {1, 2, 3, 5});
    const Tensor glimpse = kernel.Get(
        {image, Tensor::Vector<int32_t>({40, 40}), Tensor::From<float>(Shape({1, 2}), {0.0f, 0.0f})});
    const absl::Span<const float> pixels = glimpse.flat<float>();
    EXPECT_EQ(*std::min_element(pixels.begin(), pixels.end()), 1) << noise;
    EXPECT_LE(*std::max_element(pixels.begin(), pixels.end()), 5) << noise;
    // No constant: each pixel is drawn.
    EXPECT_GT(std::count_if(pixels.begin(), pixels.end(), [](float x) { return x > 2 && x < 3; }), 10)
        << noise;
  }
}

}  // namespace
}  // namespace weir
