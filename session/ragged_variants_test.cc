// Ragged tensors as variants, as steps see them: what goes in comes out, whole and by row; gradients
// go the same way back.
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

class RaggedVariantsTest : public TestOpSession {
 protected:
  Output Splits(std::initializer_list<int64_t> splits) { return Const(Tensor::Vector<int64_t>(splits)); }
  Output Floats(std::initializer_list<float> values) { return Const(Tensor::Vector<float>(values)); }
  Output Encode(std::vector<Output> splits, Output values, bool is_batched) {
    return g_.AddOp("RaggedTensorToVariant", {std::move(splits), values},
                    {{"batched_input", is_batched}, {"Tsplits", D::kInt64}});
  }
  // The splits, then the values.
  std::vector<TensorRef> Decode(Output encoded, int64_t input_rank, int64_t output_rank,
                                D dtype = D::kFloat32) {
    Node* const node = g_.AddNode("RaggedTensorFromVariant", {encoded},
                                  {{"input_ragged_rank", input_rank},
                                   {"output_ragged_rank", output_rank},
                                   {"Tvalues", dtype},
                                   {"Tsplits", D::kInt64}});
    std::vector<TensorRef> outputs;
    for (int i = 0; node != nullptr && i < node->num_outputs(); ++i) outputs.push_back(node->output(i));
    return outputs;
  }
  // All values of all tensors.
  std::vector<std::vector<double>> Numbers(const std::vector<TensorRef>& fetches) {
    const auto tensors = RunAnew(fetches);
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    std::vector<std::vector<double>> numbers;
    for (size_t i = 0; tensors.ok() && i < tensors->size(); ++i) {
      const Tensor& tensor = (*tensors)[i];
      numbers.emplace_back();
      for (int64_t k = 0; k < tensor.num_elements(); ++k) {
        numbers.back().push_back(tensor.dtype() == D::kInt64 ? static_cast<double>(tensor.flat<int64_t>()[k])
                                                             : tensor.flat<float>()[k]);
      }
    }
    return numbers;
  }
};

TEST_F(RaggedVariantsTest, OneVariantHoldsTheWhole) {
  const Output encoded = Encode({Splits({0, 2, 3}), Splits({0, 1, 1, 4})}, Floats({1, 2, 3, 4}), false);
  EXPECT_THAT(Numbers(Decode(encoded, 2, 2)),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(0, 1, 1, 4), ElementsAre(1, 2, 3, 4)));
}

TEST_F(RaggedVariantsTest, ABatchHasAVariantForEachRow) {
  const Output encoded = Encode({Splits({0, 2, 3}), Splits({0, 1, 1, 4})}, Floats({1, 2, 3, 4}), true);
  EXPECT_THAT(Numbers(Decode(encoded, 1, 2)),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(0, 1, 1, 4), ElementsAre(1, 2, 3, 4)));
}

TEST_F(RaggedVariantsTest, DenseRowsAreVariantsToo) {
  const Output encoded = Encode({}, Const(Tensor::From<float>(Shape({2, 2}), {5, 6, 7, 8})), true);
  EXPECT_THAT(Numbers(Decode(encoded, 0, 1)), ElementsAre(ElementsAre(0, 2, 4), ElementsAre(5, 6, 7, 8)));
}

TEST_F(RaggedVariantsTest, TheGradientGoesTheSameWay) {
  const Output values = Floats({1, 2, 3});
  const Output encoded = Encode({Splits({0, 2, 3})}, values, true);
  Node* const decoded = g_.AddNode("RaggedTensorFromVariant", {encoded},
                                   {{"input_ragged_rank", int64_t{0}},
                                    {"output_ragged_rank", int64_t{1}},
                                    {"Tvalues", D::kFloat32},
                                    {"Tsplits", D::kInt64}});
  ASSERT_NE(decoded, nullptr) << g_.status();
  const Output squares = g_.AddOp("Square", {decoded->output(1)});
  const auto gradients = AddGradients(g_, {squares}, {values});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(Numbers({(*gradients)[0]}), ElementsAre(ElementsAre(2, 4, 6)));
}

// Loops reserve lists of gradients, and set those of the rows that are used.
TEST_F(RaggedVariantsTest, ARowWithoutAGradientHasZeros) {
  const Output scalars = Const(Tensor(D::kInt32, Shape({0})));
  const AttrMap variants = {{"element_dtype", D::kVariant}};
  const Output list = g_.AddOp("TensorListReserve", {scalars, Const(Tensor::Scalar<int32_t>(3))}, variants);
  const Output row = Encode({}, Const(Tensor::From<float>(Shape({1, 2}), {7, 8})), false);
  const Output set = g_.AddOp("TensorListSetItem", {list, Const(Tensor::Scalar<int32_t>(1)), row});
  const auto gradient = [&](Output of, std::initializer_list<int32_t> shape) {
    return g_.AddOp("RaggedTensorToVariantGradient",
                    {g_.AddOp("TensorListStack", {of, scalars}, variants), Splits({0, 2, 3, 3}),
                     Const(Tensor::Vector<int32_t>(shape))},
                    {{"Tvalues", D::kFloat32}});
  };
  EXPECT_THAT(Numbers({gradient(set, {3, 2}), gradient(list, {3}), gradient(list, {3, 0})}),
              ElementsAre(ElementsAre(0, 0, 0, 0, 7, 8), ElementsAre(0, 0, 0), ElementsAre()));
  EXPECT_THAT(ErrorOf(gradient(set, {2, 2})), HasSubstr("more values than dense_values_shape"));
}

// What map_fn over ragged tensors is made of, with v1 and with v2 control flow.
TEST_F(RaggedVariantsTest, ArraysAndListsHoldThem) {
  const auto numbers = [&](std::initializer_list<int32_t> of) { return Const(Tensor::Vector<int32_t>(of)); };
  const Output encoded = Encode({Splits({0, 2, 3})}, Floats({1, 2, 3}), true);
  Node* const array =
      g_.AddNode("TensorArrayV3", {Const(Tensor::Scalar<int32_t>(2))}, {{"dtype", D::kVariant}});
  const Output flow =
      g_.AddOp("TensorArrayScatterV3", {array->output(0), numbers({0, 1}), encoded, array->output(1)});
  const Output turned =
      g_.AddOp("TensorArrayGatherV3", {array->output(0), numbers({1, 0}), flow}, {{"dtype", D::kVariant}});
  EXPECT_THAT(Numbers(Decode(turned, 0, 1)), ElementsAre(ElementsAre(0, 1, 3), ElementsAre(3, 1, 2)));

  const Output list = g_.AddOp("TensorListFromTensor", {encoded, numbers({})}, {{"shape_type", D::kInt32}});
  const Output rows = g_.AddOp("TensorListStack", {list, numbers({})}, {{"element_dtype", D::kVariant}});
  EXPECT_THAT(Numbers(Decode(rows, 0, 1)), ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1, 2, 3)));

  const auto write = [&](Output value) {
    return g_.AddOp("TensorArrayWriteV3",
                    {array->output(0), Const(Tensor::Scalar<int32_t>(0)), value, array->output(1)});
  };
  EXPECT_EQ(ErrorOf({write(list)}), "no error");
  // A list of handles may refer to the array itself.
  const Output none = g_.AddOp("TensorListReserve", {numbers({}), Const(Tensor::Scalar<int32_t>(0))},
                               {{"element_dtype", D::kResource}});
  EXPECT_THAT(ErrorOf({write(g_.AddOp("TensorListPushBack", {none, array->output(0)}))}),
              HasSubstr("holds numbers, strings and values made of these, not"));
}

// Rows without elements take no memory: there may be more than can be visited or added.
constexpr int64_t kVeryMany = int64_t{1} << 62;

TEST_F(RaggedVariantsTest, RowsWithoutElementsAreNotVisited) {
  Node* const sparse = g_.AddNode("RaggedTensorToSparse",
                                  {InputArg(std::vector<Output>{Splits({0, kVeryMany})}),
                                   Const(Tensor(D::kFloat32, Shape({kVeryMany, 0})))},
                                  {{"Tsplits", D::kInt64}});
  ASSERT_NE(sparse, nullptr) << g_.status();
  EXPECT_THAT(Numbers({sparse->output(1), sparse->output(2)}),
              ElementsAre(ElementsAre(), ElementsAre(1, static_cast<double>(kVeryMany), 0)));
}

TEST_F(RaggedVariantsTest, MoreRowsThanSplitsCountAreRefused) {
  const Output values = Const(Tensor(D::kFloat32, Shape({kVeryMany, 0})));
  const Output encoded = Encode({}, values, false);
  const Output four = g_.AddOp("Pack", {std::vector<Output>{encoded, encoded, encoded, encoded}});
  EXPECT_THAT(ErrorOf(Decode(four, 0, 1)), HasSubstr("more than ragged splits can count"));
  const Output with_splits = Encode({Splits({0, kVeryMany})}, values, false);
  const Output four_more =
      g_.AddOp("Pack", {std::vector<Output>{with_splits, with_splits, with_splits, with_splits}});
  EXPECT_THAT(ErrorOf(Decode(four_more, 1, 2)), HasSubstr("more than ragged splits can count"));
  Node* const gathered = g_.AddNode(
      "RaggedGather", {InputArg(std::vector<Output>{Splits({0, kVeryMany})}), values, Splits({0, 0, 0, 0})},
      {{"PARAMS_RAGGED_RANK", int64_t{1}}, {"OUTPUT_RAGGED_RANK", int64_t{1}}, {"Tsplits", D::kInt64}});
  ASSERT_NE(gathered, nullptr) << g_.status();
  EXPECT_THAT(ErrorOf({gathered->output(0)}), HasSubstr("more than ragged splits can count"));
}

TEST_F(RaggedVariantsTest, WhatDoesNotFitIsRefused) {
  const Output encoded = Encode({Splits({0, 2, 3})}, Floats({1, 2, 3}), false);
  EXPECT_THAT(ErrorOf(Decode(encoded, 1, 1, D::kInt64)),
              HasSubstr("Expected values Tensor dtype: int64, found: float"));
  EXPECT_THAT(ErrorOf(Decode(encoded, -1, 2)), HasSubstr("Expected ragged_rank=2"));
  const Output list =
      g_.AddOp("TensorListReserve", {Const(Tensor(D::kInt32, Shape({0}))), Const(Tensor::Scalar(1))},
               {{"element_dtype", D::kFloat32}});
  EXPECT_THAT(ErrorOf(Decode(list, 1, 1)), HasSubstr("doesn't hold a RaggedTensorVariant"));
}

}  // namespace
}  // namespace weir
