// Shapes and sequences at the limits of what windows and cells can be.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using D = DType;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMany = int64_t{1} << 60;  // more than a loop ends with

class NnBoundsTest : public ::testing::Test {
 protected:
  KernelUnderTest Op(const std::string& op, std::vector<DType> inputs, AttrMap attrs = {}) {
    return KernelUnderTest(host_, op, std::move(inputs), std::move(attrs));
  }
  static Tensor Floats(const Shape& shape) { return Tensor(D::kFloat32, shape); }

  TestHost host_{RegisterMathKernels, RegisterNnKernels};
};

TEST_F(NnBoundsTest, AWindowThatOverlapsMayEndAtTheLargestNumber) {
  const Tensor image = Tensor::From<float>({1, 3, 1, 1}, {1, 4, 2}),
               one = Tensor::From<float>({1, 1, 1, 1}, {6});
  const Tensor rows = Tensor::Vector<int64_t>({0, kMost}), columns = Tensor::Vector<int64_t>({0, 1});
  const AttrMap overlaps = {{"overlapping", true}};
  const Tensor most =
      Op("FractionalMaxPoolGrad", {D::kFloat32, D::kFloat32, D::kFloat32, D::kInt64, D::kInt64}, overlaps)
          .Get({image, Tensor::From<float>({1, 1, 1, 1}, {4}), one, rows, columns});
  EXPECT_THAT(most.flat<float>(), ElementsAre(0, 6, 0));
  const Tensor mean = Op("FractionalAvgPoolGrad", {D::kInt64, D::kFloat32, D::kInt64, D::kInt64}, overlaps)
                          .Get({Tensor::Vector<int64_t>({1, 3, 1, 1}), one, rows, columns});
  EXPECT_THAT(mean.flat<float>(), ElementsAre(2, 2, 2));
}

TEST_F(NnBoundsTest, WindowsAreNotMoreThanALongAxisHasElements) {
  constexpr int64_t kLong = 16777219;  // as a float it is one more
  Tensor image(D::kInt32, {1, kLong, 1, 1});
  for (int64_t i = 0; i < kLong; ++i) image.flat<int32_t>()[i] = static_cast<int32_t>(i);
  const auto result =
      Op("FractionalAvgPool", {D::kInt32}, {{"pooling_ratio", std::vector<float>{1, 1, 1, 1}}}).Run({image});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ((*result)[0].shape(), image.shape());
  EXPECT_EQ((*result)[0].flat<int32_t>().back(), kLong - 1);
  EXPECT_EQ((*result)[1].flat<int64_t>().back(), kLong);
}

TEST_F(NnBoundsTest, WindowsOfImagesWithoutChannelsAreNotLookedAt) {
  constexpr int64_t kTall = int64_t{1} << 40, kWide = int64_t{1} << 20;
  const Tensor none = Floats({1, 1, 1, 0});
  const Tensor rows = Tensor::Vector<int64_t>({0, kTall}), columns = Tensor::Vector<int64_t>({0, kWide});
  const Tensor most =
      Op("FractionalMaxPoolGrad", {D::kFloat32, D::kFloat32, D::kFloat32, D::kInt64, D::kInt64})
          .Get({Floats({1, kTall, kWide, 0}), none, none, rows, columns});
  EXPECT_EQ(most.shape(), Shape({1, kTall, kWide, 0}));
  const Tensor mean = Op("FractionalAvgPoolGrad", {D::kInt64, D::kFloat32, D::kInt64, D::kInt64})
                          .Get({Tensor::Vector<int64_t>({1, kTall, kWide, 0}), none, rows, columns});
  EXPECT_EQ(mean.shape(), Shape({1, kTall, kWide, 0}));
}

TEST_F(NnBoundsTest, RowsOfNoCellsAreNotLookedAt) {
  const Tensor rows = Floats({kMany, 0}), weights = Floats({0, 0}), bias = Floats({0});
  const std::vector<Tensor> lstm = {rows, rows, rows, weights, bias, bias, bias, bias};
  const auto cell = Op("LSTMBlockCell", std::vector<DType>(8, D::kFloat32)).Run(lstm);
  ASSERT_TRUE(cell.ok()) << cell.status();
  EXPECT_EQ((*cell)[6].shape(), rows.shape());
  const std::vector<Tensor> gru = {rows, rows, weights, weights, bias, bias};
  const auto gated = Op("GRUBlockCell", std::vector<DType>(6, D::kFloat32)).Run(gru);
  ASSERT_TRUE(gated.ok()) << gated.status();
  EXPECT_EQ((*gated)[3].shape(), rows.shape());
  std::vector<Tensor> backwards = gru;
  backwards.insert(backwards.end(), 4, rows);
  EXPECT_TRUE(Op("GRUBlockCellGrad", std::vector<DType>(10, D::kFloat32)).Run(backwards).ok());
}

TEST_F(NnBoundsTest, TimesAndRowsOfNoCellsAreNotLookedAt) {
  for (const Shape& x : {Shape({1, kMany, 0}), Shape({kMany, 0, 0})}) {
    const Tensor times = Tensor::Scalar<int64_t>(x.dim(0)), all = Floats(x);
    const Tensor state = Floats({x.dim(1), 0}), weights = Floats({0, 0}), bias = Floats({0});
    std::vector<Tensor> inputs = {times, all, state, state, weights, bias, bias, bias, bias};
    std::vector<DType> types(9, D::kFloat32);
    types[0] = D::kInt64;
    EXPECT_TRUE(Op("BlockLSTM", types).Run(inputs).ok());
    inputs.insert(inputs.end(), 9, all);
    types.insert(types.end(), 9, D::kFloat32);
    EXPECT_TRUE(Op("BlockLSTMGrad", types, {{"use_peephole", false}}).Run(inputs).ok());
  }
}

TEST_F(NnBoundsTest, AGradientOfNoCellsIsZero) {
  const Tensor x = Floats({2, 3}), none = Floats({2, 0}), bias = Floats({0});
  std::vector<Tensor> inputs = {x, none, Floats({3, 0}), Floats({3, 0}), bias, bias};
  inputs.insert(inputs.end(), 4, none);
  const auto result = Op("GRUBlockCellGrad", std::vector<DType>(10, D::kFloat32)).Run(inputs);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)[0].flat<float>(), ElementsAre(0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace weir
