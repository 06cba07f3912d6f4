#include "kernels/cpu/float16_rows.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weir {
namespace {

// NaN is NaN, whatever its bits.
template <typename T>
bool IsSame(T a, T b) {
  if (std::isnan(static_cast<float>(a))) return std::isnan(static_cast<float>(b));
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <typename T>
class Float16RowsTest : public ::testing::Test {};
using SixteenBitTypes = ::testing::Types<Half, Bfloat16>;
TYPED_TEST_SUITE(Float16RowsTest, SixteenBitTypes);

TYPED_TEST(Float16RowsTest, WidensEveryValue) {
  std::vector<TypeParam> values;
  for (uint32_t bits = 0; bits < 65536; ++bits)
    values.push_back(TypeParam::FromBits(static_cast<uint16_t>(bits)));
  std::vector<float> wide(values.size());
  ToFloats(values.data(), wide.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(IsSame(wide[i], static_cast<float>(values[i]))) << i << ": " << wide[i];
  }
}

// Every exponent and the digits around which rounding changes: ties, carries, the largest and smallest
// values.
TYPED_TEST(Float16RowsTest, RoundsAsTheTypeDoes) {
  std::vector<float> values;
  std::mt19937 random(1);
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  std::vector<TypeParam> narrow(values.size());
  FromFloats(values.data(), narrow.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(IsSame(narrow[i], TypeParam(values[i]))) << std::hexfloat << values[i];
  }
}

TYPED_TEST(Float16RowsTest, FindsTheTypeAtRunTime) {
  constexpr DType kDType = DTypeOf<TypeParam>;
  const std::vector<TypeParam> narrow = {TypeParam(1.5f), TypeParam(-2.0f), TypeParam(0.0f)};
  float wide[3];
  ToFloats(kDType, narrow.data(), wide, 3);
  EXPECT_EQ(std::vector<float>(wide, wide + 3), (std::vector<float>{1.5f, -2.0f, 0.0f}));
  TypeParam again[3];
  FromFloats(kDType, wide, again, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(again[i].bits(), narrow[i].bits());
}

TYPED_TEST(Float16RowsTest, RectifiesEveryValue) {
  std::vector<TypeParam> values;
  for (uint32_t bits = 0; bits < 65536; ++bits)
    values.push_back(TypeParam::FromBits(static_cast<uint16_t>(bits)));
  const std::vector<TypeParam> before = values;
  Rectify(values.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_negative = static_cast<float>(before[i]) < 0.0f;
    ASSERT_EQ(values[i].bits(), is_negative ? 0 : before[i].bits()) << i;
  }
}

TYPED_TEST(Float16RowsTest, KeepsWhereEveryValueIsPositive) {
  std::vector<TypeParam> signs, values, kept(65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    signs.push_back(TypeParam::FromBits(static_cast<uint16_t>(bits)));
    values.push_back(TypeParam::FromBits(static_cast<uint16_t>(bits * 40503u + 1)));
  }
  KeepWherePositive(values.data(), signs.data(), kept.data(), 65536);
  for (size_t i = 0; i < signs.size(); ++i) {
    const bool is_positive = static_cast<float>(signs[i]) > 0.0f;
    ASSERT_EQ(kept[i].bits(), is_positive ? values[i].bits() : 0) << i;
  }
}

TYPED_TEST(Float16RowsTest, TouchesOnlyTheRow) {
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<float> wide(count + 1, 1.0f), source(count, 2.5f);
    std::vector<TypeParam> narrow(count + 1, TypeParam(1.0f)), halves(count, TypeParam(3.5f));
    ToFloats(halves.data(), wide.data(), count);
    FromFloats(source.data(), narrow.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(wide[i], 3.5f);
      ASSERT_EQ(static_cast<float>(narrow[i]), 2.5f);
    }
    ASSERT_EQ(wide[count], 1.0f);
    ASSERT_EQ(static_cast<float>(narrow[count]), 1.0f);
  }
}

}  // namespace
}  // namespace weir
