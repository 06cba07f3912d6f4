#include "kernels/cpu/data_flow/gradient_sum.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Order = GradientSum::Order;
using Reduction = GradientSum::Reduction;

class GradientSumTest : public testing::Test {
 protected:
  static Tensor Numbers(int64_t count, int seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> numbers(-1, 1);
    Tensor tensor(DType::kFloat32, {count});
    for (float& value : tensor.flat<float>()) value = numbers(random);
    return tensor;
  }
  static StagedGradient Rows(std::vector<int64_t> indices, std::vector<float> values) {
    const auto count = static_cast<int64_t>(indices.size());
    return {Tensor::FromSpan<float>({count, 1}, values), Tensor::FromSpan<int64_t>({count}, indices)};
  }
  static std::vector<float> Floats(const Tensor& tensor) {
    return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
  }

  ThreadPool pool_{2};
  GradientSum::Memory memory_{HostAllocator(), pool_};
};

TEST_F(GradientSumTest, TheOrderOfArrivalChangesNoBitByRank) {
  constexpr int kReplicas = 7;
  std::vector<int> order(kReplicas);
  for (int i = 0; i < kReplicas; ++i) order[i] = i;
  std::vector<float> first;
  for (int trial = 0; trial < 20; ++trial) {
    GradientSum sum({.shape = PartialShape({1000}), .order = Order::kByRank});
    for (const int rank : order) ASSERT_TRUE(sum.Add(rank, {Numbers(1000, rank), {}}, memory_).ok());
    const std::vector<float> mean = Floats(sum.Take(Reduction::kMean, memory_)->values);
    if (trial == 0) first = mean;
    EXPECT_EQ(std::memcmp(mean.data(), first.data(), mean.size() * sizeof(float)), 0) << "trial " << trial;
    std::shuffle(order.begin(), order.end(), std::mt19937(trial));
  }
}

TEST_F(GradientSumTest, RowsByRankAreSortedAndEachStandsOnce) {
  GradientSum sum(
      {.shape = PartialShape({5, 1}), .is_sparse = true, .order = Order::kByRank, .sorts_rows = true});
  ASSERT_TRUE(sum.Add(1, Rows({3, 1, 3}, {1, 2, 4}), memory_).ok());
  ASSERT_TRUE(sum.Add(0, Rows({1}, {10}), memory_).ok());
  const StagedGradient taken = *sum.Take(Reduction::kMean, memory_);
  EXPECT_THAT(taken.indices.flat<int64_t>(), ElementsAre(1, 3));
  EXPECT_THAT(taken.values.flat<float>(), ElementsAre(6, 5));
}

TEST_F(GradientSumTest, ChangesNoGradient) {
  const Tensor a = Tensor::Vector<float>({1, 2}), b = Tensor::Vector<float>({3, 4});
  for (const Order order : {Order::kArrival, Order::kByRank}) {
    GradientSum sum({.shape = PartialShape({2}), .order = order});
    for (int64_t rank = 0; rank < 5; ++rank) ASSERT_TRUE(sum.Add(rank, {rank % 2 ? a : b, {}}, memory_).ok());
    EXPECT_THAT(Floats(sum.Take(Reduction::kSum, memory_)->values), ElementsAre(11, 16));
    EXPECT_THAT(Floats(a), ElementsAre(1, 2));
    EXPECT_THAT(Floats(b), ElementsAre(3, 4));
  }
}

TEST_F(GradientSumTest, ARankGivesOneGradient) {
  GradientSum sum({.shape = PartialShape({2}), .order = Order::kByRank});
  ASSERT_TRUE(sum.Add(3, {Tensor::Vector<float>({1, 2}), {}}, memory_).ok());
  EXPECT_THAT(std::string(sum.Add(3, {Tensor::Vector<float>({1, 2}), {}}, memory_).message()),
              HasSubstr("replica 3 has given its gradient already"));
  EXPECT_EQ(sum.count(), 1);
}

}  // namespace
}  // namespace weir
