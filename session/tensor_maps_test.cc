// Maps of tensors as steps see them: values, gradients as TensorFlow registers them, and what hostile graphs
// make of them.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "gtest/gtest.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorMapsTest : public TestOpSession {
 protected:
  const AttrMap kFloats = {{"value_dtype", D::kFloat32}};

  Output Key(int32_t value) { return Const(Tensor::Scalar(value)); }
  Output Number(float value) { return Const(Tensor::Scalar(value)); }
  Output Empty() { return g_.AddOp("EmptyTensorMap", {}); }
  Output Insert(Output map, Output key, Output value) {
    return g_.AddOp("TensorMapInsert", {map, key, value});
  }
  Output Lookup(Output map, Output key) { return g_.AddOp("TensorMapLookup", {map, key}, kFloats); }
  Output Erase(Output map, Output key) { return g_.AddOp("TensorMapErase", {map, key}, kFloats); }
  Output HasKey(Output map, Output key) { return g_.AddOp("TensorMapHasKey", {map, key}); }
  Output Size(Output map) { return g_.AddOp("TensorMapSize", {map}); }
  Output Keys(Output map, DType dtype = D::kInt32) {
    return g_.AddOp("TensorMapStackKeys", {map}, {{"key_dtype", dtype}});
  }
  Output Times(Output x, float factor) { return g_.AddOp("Mul", {x, Number(factor)}); }

  Tensor ValueOf(Output output) {
    const auto result = RunAnew({output});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0] : Tensor::Scalar(-1.0f);
  }
  // d(y) / d(x)
  Tensor GradientOf(Output y, Output x) {
    const auto gradients = AddGradients(g_, {y}, {x});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() && (*gradients)[0] ? ValueOf((*gradients)[0]) : Tensor::Scalar(-1.0f);
  }
};

TEST_F(TensorMapsTest, AMapThatIsSharedIsNotChanged) {
  const Output empty = Empty();
  const Output one = Insert(empty, Key(1), Number(10)), other = Insert(one, Key(1), Number(11));
  const Output both = Insert(one, Key(2), Number(20)), rest = Erase(both, Key(1));
  const auto values =
      RunAnew({Size(empty), Size(one), Size(both), Size(rest), Lookup(one, Key(1)), Lookup(other, Key(1)),
               Lookup(both, Key(1)), Lookup(rest, Key(2)), HasKey(rest, Key(1)), HasKey(both, Key(1))});
  ASSERT_TRUE(values.ok()) << values.status();
  const std::vector<int32_t> sizes = {0, 1, 2, 1};
  for (int i = 0; i < 4; ++i) EXPECT_EQ((*values)[i].scalar<int32_t>(), sizes[i]) << i;
  const std::vector<float> found = {10, 11, 10, 20};
  for (int i = 0; i < 4; ++i) EXPECT_EQ((*values)[4 + i].scalar<float>(), found[i]) << i;
  EXPECT_FALSE((*values)[8].scalar<bool>());
  EXPECT_TRUE((*values)[9].scalar<bool>());
}

// As the keys of a hash table would be, but that NaN finds itself and zeros have signs.
TEST_F(TensorMapsTest, KeysDifferInDtypeShapeAndBytes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Tensor> keys = {Tensor::Scalar(1),
                                    Tensor::Scalar(int64_t{1}),
                                    Tensor::Vector<int32_t>({1}),
                                    Tensor::Scalar("1"),
                                    Tensor::Scalar(""),
                                    Tensor::Scalar(0.0f),
                                    Tensor::Scalar(-0.0f),
                                    Tensor::Scalar(nan),
                                    Tensor(D::kFloat32, Shape({0})),
                                    Tensor(D::kFloat32, Shape({0, 1})),
                                    Tensor::Scalar(true)};
  Output map = Empty();
  for (size_t i = 0; i < keys.size(); ++i) map = Insert(map, Const(keys[i]), Number(static_cast<float>(i)));
  EXPECT_EQ(ValueOf(Size(map)).scalar<int32_t>(), static_cast<int32_t>(keys.size()));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(ValueOf(Lookup(map, Const(keys[i]))).scalar<float>(), static_cast<float>(i)) << i;
  }
}

// Its tree is turned over in all ways.
TEST_F(TensorMapsTest, ManyKeysComeAndGoInAnyOrder) {
  constexpr int kCount = 200;
  Output map = Empty();
  for (int i = 0; i < kCount; ++i) map = Insert(map, Key(i * 73 % kCount), Number(static_cast<float>(i)));
  const Output full = map;
  std::vector<TensorRef> fetches;
  for (int i = 0; i < kCount / 2; ++i) map = Erase(map, Key(i * 37 % kCount));
  fetches.push_back(Size(map));
  for (int i = 0; i < kCount; ++i) fetches.push_back(HasKey(map, Key(i * 37 % kCount)));
  for (int i = 0; i < kCount; ++i) fetches.push_back(Lookup(full, Key(i * 73 % kCount)));
  const auto values = RunAnew(fetches);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<int32_t>(), kCount / 2);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ((*values)[1 + i].scalar<bool>(), i >= kCount / 2) << i;
    EXPECT_EQ((*values)[1 + kCount + i].scalar<float>(), static_cast<float>(i)) << i;
  }
}

TEST_F(TensorMapsTest, KeysAreStacked) {
  const Output row = Const(Tensor::Vector<int32_t>({1, 2})), other = Const(Tensor::Vector<int32_t>({1, 3}));
  const Output map = Insert(Insert(Empty(), other, Number(1)), row, Number(2));
  const Tensor keys = ValueOf(Keys(map));
  EXPECT_EQ(keys.shape(), Shape({2, 2}));
  EXPECT_THAT(std::vector<int32_t>(keys.flat<int32_t>().begin(), keys.flat<int32_t>().end()),
              ElementsAre(1, 2, 1, 3));
  const Output words = Insert(Empty(), Const(Tensor::Scalar("word")), Number(1));
  EXPECT_EQ(ValueOf(Keys(words, D::kString)).flat<std::string>()[0], "word");
  EXPECT_THAT(ErrorOf(Keys(Empty())), HasSubstr("TensorMapStackKeys cannot be called on empty map"));
  EXPECT_THAT(ErrorOf(Keys(map, D::kInt64)), HasSubstr("Key does not match requested dtype"));
  EXPECT_THAT(ErrorOf(Keys(Insert(map, Key(1), Number(1)))), HasSubstr("Keys must all have the same shape"));
}

TEST_F(TensorMapsTest, RefusesKeysThatAreNotThereOrAreNone) {
  const Output map = Insert(Empty(), Key(1), Number(1));
  EXPECT_THAT(ErrorOf(Lookup(map, Key(2))),
              HasSubstr("Trying to lookup non-existent key. Could not find key"));
  EXPECT_THAT(ErrorOf(Size(Erase(map, Key(2)))),
              HasSubstr("Trying to erase non-existent item. Could not find key"));
  EXPECT_THAT(ErrorOf(HasKey(map, Empty())), HasSubstr("keys of a map are numbers or strings"));
  EXPECT_THAT(ErrorOf(Size(Insert(map, Empty(), Number(1)))),
              HasSubstr("keys of a map are numbers or strings"));
  EXPECT_THAT(ErrorOf(g_.AddOp("TensorMapLookup", {map, Key(1)}, {{"value_dtype", D::kInt32}})),
              HasSubstr("value_dtype is int32"));
}

// What is deep is destroyed by calls as deep.
TEST_F(TensorMapsTest, MapsInMapsAreLimited) {
  Output map = Empty();
  for (int i = 0; i < 99; ++i) map = Insert(Empty(), Key(1), map);
  EXPECT_EQ(ValueOf(Size(map)).scalar<int32_t>(), 1);
  EXPECT_THAT(ErrorOf(Size(Insert(Empty(), Key(1), map))), HasSubstr("more than 100 deep"));
}

TEST_F(TensorMapsTest, TheGradientOfAValueIsThatOfWhatWasLookedUp) {
  const Output v = Number(2), w = Number(3);
  const Output map = Insert(Insert(Empty(), Key(1), v), Key(2), w);
  const Output first = Lookup(map, Key(1)), second = Lookup(map, Key(2));
  EXPECT_EQ(GradientOf(Times(first, 5), v).scalar<float>(), 5);
  EXPECT_EQ(GradientOf(Times(first, 5), w).scalar<float>(), 0);
  EXPECT_EQ(GradientOf(g_.AddOp("Mul", {first, second}), v).scalar<float>(), 3);
  EXPECT_EQ(GradientOf(g_.AddOp("Mul", {first, first}), v).scalar<float>(), 4);
  // The map of gradients has both lookups of one key.
  EXPECT_EQ(
      GradientOf(g_.AddOp("AddV2", {Times(first, 2), Times(Lookup(map, Key(1)), 3)}), v).scalar<float>(), 5);
  // A value under two keys.
  const Output twice = Insert(map, Key(3), v);
  EXPECT_EQ(GradientOf(g_.AddOp("AddV2", {Lookup(twice, Key(1)), Lookup(twice, Key(3))}), v).scalar<float>(),
            2);
}

TEST_F(TensorMapsTest, ValuesThatWereReplacedOrErasedGetZeros) {
  const Output v = Number(2), w = Const(Tensor::Vector<float>({3, 4}));
  const Output map = Insert(Empty(), Key(1), v);
  const Output replaced = Lookup(Insert(map, Key(1), w), Key(1));
  EXPECT_EQ(GradientOf(replaced, v).scalar<float>(), 0);
  EXPECT_THAT(Floats(GradientOf(Times(replaced, 6), w)), ElementsAre(6, 6));
  const Output both = Insert(map, Key(2), w);
  EXPECT_THAT(Floats(GradientOf(Times(Lookup(Erase(both, Key(1)), Key(2)), 7), w)), ElementsAre(7, 7));
  EXPECT_EQ(GradientOf(Lookup(Erase(both, Key(1)), Key(2)), v).scalar<float>(), 0);
}

}  // namespace
}  // namespace weir
