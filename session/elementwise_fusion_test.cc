// Elementwise ops that run as one node: where they do, where they must not, and that the numbers stay the
// same bits.
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/fused_ops.h"
#include "graph/rewrite/elementwise_cluster.h"
#include "gtest/gtest.h"
#include "session/test_fusion.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ElementwiseFusionTest : public FusionTest {
 protected:
  Output Scalar(double value) {
    Tensor number(dtype_, Shape());
    if (dtype_ == DType::kFloat32) number.flat<float>()[0] = static_cast<float>(value);
    if (dtype_ == DType::kFloat64) number.flat<double>()[0] = value;
    if (dtype_ == DType::kHalf) number.flat<Half>()[0] = Half(static_cast<float>(value));
    if (dtype_ == DType::kBfloat16) number.flat<Bfloat16>()[0] = Bfloat16(static_cast<float>(value));
    return Op("Const", {}, {{"value", number}, {"dtype", dtype_}});
  }

  // 0.5 x (1 + tanh(0.8 (x + 0.04 x^3)))
  Output Gelu(Output x) {
    const Output cube = Op("Mul", {Op("Mul", {x, x}), x});
    const Output inner = Op("Mul", {Op("AddV2", {x, Op("Mul", {Scalar(0.04), cube})}), Scalar(0.8)});
    return Op("Mul", {Op("Mul", {Scalar(0.5), x}), Op("AddV2", {Op("Tanh", {inner}), Scalar(1)})});
  }
};

TEST_F(ElementwiseFusionTest, ChainsAndTreesRunAsOneNode) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    for (const Shape& shape :
         {Shape(), Shape({1}), Shape({0, 3}), Shape({7}), Shape({31, 129}), Shape({5, 100, 1001})}) {
      const Output y = Gelu(Input(shape));
      EXPECT_THAT(Fused({y}), UnorderedElementsAre("_FusedElementwise", "Const", "Const", "Const", "Const"));
      ExpectSameBits({y});
    }
    const Output x = Input({400}), w = Input({400}), v = Input({400});
    const Output tree =
        Op("Sub", {Op("Mul", {Op("Relu", {x}), Op("AddV2", {w, v})}), Op("Maximum", {Op("Neg", {w}), v})});
    EXPECT_THAT(Fused({tree}), UnorderedElementsAre("_FusedElementwise"));
    ExpectSameBits({tree});
  }
}

template <typename T>
void PutExtremes(Tensor& tensor) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float extremes[] = {0.0f,   -0.0f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(),
                            1e-40f, 3e38f, -200, 100,   7e4f};
  for (int i = 0; i < 10; ++i) tensor.flat<T>()[6 * i] = T(extremes[i]);
}

// Every op in a cluster, at numbers that no vector form takes, too; 16-bit types are rounded after each op.
TEST_F(ElementwiseFusionTest, EveryOpOfClustersGivesTheSameBits) {
  for (const DType dtype : kDTypes) {
    dtype_ = dtype;
    const Output x = Input({67}), y = Input({67});
    Tensor& numbers = feeds_[feeds_.size() - 2].second;
    if (dtype == DType::kFloat32) PutExtremes<float>(numbers);
    if (dtype == DType::kHalf) PutExtremes<Half>(numbers);
    if (dtype == DType::kBfloat16) PutExtremes<Bfloat16>(numbers);
    for (const char* name : ElementwiseClusterOps::Names()) {
      const weir::Op* const op = g_.graph().ops().Find(name);
      ASSERT_NE(op, nullptr) << name;
      std::vector<InputArg> inputs = {InputArg(x)};
      if (std::string(name) == "AddN") {
        inputs = {InputArg(std::vector<Output>{x, y, x})};
      } else if (op->inputs().size() == 2) {
        inputs.push_back(InputArg(y));
      }
      const Output z = Op("Neg", {Op(name, inputs)});
      EXPECT_THAT(Fused({z}), UnorderedElementsAre("_FusedElementwise")) << name;
      ExpectSameBits({z});
    }
  }
}

TEST_F(ElementwiseFusionTest, OperandsOfOneElementAreRepeated) {
  const Output x = Input({3, 50}), one = Input({1, 1}), scalar = Input(Shape()), vector = Input({1});
  const Output y = Op("Sub", {one, Op("Mul", {scalar, Op("AddV2", {x, vector})})});
  EXPECT_THAT(Fused({y}), UnorderedElementsAre("_FusedElementwise"));
  ExpectSameBits({y});
  // All are one element: the result has the dimensions of the longest.
  const Output z = Op("Exp", {Op("AddV2", {one, scalar})});
  ExpectSameBits({z});
  // One with more dimensions than the others changes the shape.
  const Output wide = Op("Neg", {Op("AddV2", {Op("Exp", {vector}), one})});
  ExpectSameBits({wide});
}

TEST_F(ElementwiseFusionTest, OtherBroadcastsStay) {
  const Output x = Input({4, 5}), row = Input({5});
  const Output y = Op("Exp", {Op("Neg", {Op("AddV2", {Op("Neg", {Op("Abs", {x})}), row})})});
  EXPECT_THAT(Fused({y}), UnorderedElementsAre("_FusedElementwise", "AddV2", "_FusedElementwise"));
  ExpectSameBits({y});
  // Who knows: a batch of one would be repeated.
  const Output a = InputOfUnknownBatch({3, 5}), b = InputOfUnknownBatch({1, 5});
  const Output z = Op("Exp", {Op("AddV2", {a, b})});
  EXPECT_THAT(Fused({z}), UnorderedElementsAre("Exp", "AddV2"));
  ExpectSameBits({z});
  // Not those.
  const Output sure = Op("Exp", {Op("AddV2", {a, Op("Softmax", {a})})});
  EXPECT_THAT(Fused({sure}), UnorderedElementsAre("Softmax", "_FusedElementwise"));
  ExpectSameBits({sure});
}

TEST_F(ElementwiseFusionTest, ResultsThatOthersReadKeepTheirNodes) {
  const Output x = Input({40}), middle = Op("Exp", {x}), y = Op("Neg", {Op("Abs", {middle})});
  EXPECT_THAT(Fused({y, middle}), UnorderedElementsAre("Exp", "_FusedElementwise"));
  ExpectSameBits({y, middle});
  const Output sum = Op(
      "Sum", {middle, Op("Const", {}, {{"value", Tensor::Vector<int32_t>({0})}, {"dtype", DType::kInt32}})});
  EXPECT_THAT(Fused({y, sum}), Contains("Exp"));
  Output after;
  {
    const auto scope = g_.ControlScope({middle.node});
    after = Op("Square", {y});
  }
  EXPECT_THAT(Fused({after}), UnorderedElementsAre("Exp", "_FusedElementwise", "Square"));
  ExpectSameBits({after});
  // Both read it, and one reads the other.
  const Output both = Op("Mul", {middle, Op("Neg", {middle})});
  EXPECT_THAT(Fused({both}), UnorderedElementsAre("_FusedElementwise"));
  ExpectSameBits({both});
}

TEST_F(ElementwiseFusionTest, ReadersOfShapesReadTheResult) {
  const Output x = InputOfUnknownBatch({6, 3}), middle = Op("Exp", {x}), y = Op("Neg", {middle});
  const Output shape = Op("Shape", {middle});
  EXPECT_THAT(Fused({y, shape}), UnorderedElementsAre("_FusedElementwise", "Shape"));
  ExpectSameBits({y, shape});
  // What is computed from the shape is an operand: one node would wait for itself.
  const Output size = Op("Cast", {Op("Size", {middle})}, {{"DstT", DType::kFloat32}});
  const Output z = Op("Mul", {Op("Neg", {middle}), size});
  EXPECT_THAT(Fused({z}), Contains("Exp"));
  ExpectSameBits({z});
}

TEST_F(ElementwiseFusionTest, DevicesControlInputsAndDtypesPartClusters) {
  const Output x = Input({40});
  Output apart;
  {
    const auto device = g_.DeviceScope("/cpu:1");
    apart = Op("Neg", {x});
  }
  const auto on_first = g_.DeviceScope("/cpu:0");
  EXPECT_THAT(Fused({Op("Exp", {Op("Abs", {apart})})}), UnorderedElementsAre("Neg", "_FusedElementwise"));
  Output waiting;
  {
    const auto scope = g_.ControlScope({Op("Square", {x}).node});
    waiting = Op("Abs", {x});
  }
  EXPECT_THAT(Fused({Op("Exp", {Op("Neg", {waiting})})}),
              UnorderedElementsAre("Square", "Abs", "_FusedElementwise"));
  const Output whole = Op("Cast", {x}, {{"DstT", DType::kInt32}});
  EXPECT_THAT(Fused({Op("Neg", {Op("Abs", {whole})})}), UnorderedElementsAre("Cast", "Abs", "Neg"));
}

TEST_F(ElementwiseFusionTest, LongChainsAreCutAtTheLimit) {
  Output y = Input({33});
  for (int i = 0; i < kMaxFusedElementwiseOps + 5; ++i)
    y = Op(i % 2 == 0 ? "Sin" : "AddV2",
           i % 2 == 0 ? std::vector<InputArg>{y} : std::vector<InputArg>{y, Input({33})});
  EXPECT_THAT(Fused({y}), ElementsAre("_FusedElementwise", "_FusedElementwise"));
  ExpectSameBits({y});
  const Output many = Op("Neg", {Op("AddN", {InputArg(std::vector<Output>(100, y))})});
  EXPECT_THAT(Fused({many}), Contains("AddN"));
  ExpectSameBits({many});
}

TEST_F(ElementwiseFusionTest, BranchesThatAreNotTakenStayDead) {
  const Output x = Input({20});
  const Output flag = Op("Const", {}, {{"value", Tensor::Scalar(false)}, {"dtype", DType::kBool}});
  Node* const branches = g_.AddNode("Switch", {x, flag});
  const Output taken = Op("Neg", {Op("AddV2", {branches->output(0), Op("Exp", {x})})});
  const Output dead = Op("Abs", {Op("AddV2", {branches->output(1), Op("Exp", {x})})});
  const Output merged = g_.AddNode("Merge", {std::vector<Output>{taken, dead}})->output(0);
  EXPECT_THAT(Fused({merged}), Contains("_FusedElementwise"));
  ExpectSameBits({merged});
}

TEST_F(ElementwiseFusionTest, NothingIsFusedWhereTheOptionSaysSo) {
  const Output y = Op("Exp", {Op("Neg", {Input({4})})});
  EXPECT_THAT(Fused({y}, {.fuses_elementwise = false}), UnorderedElementsAre("Neg", "Exp"));
}

// What an imported graph may ask of the kernel.
TEST_F(ElementwiseFusionTest, MalformedProgramsAreErrors) {
  const Output x = Input({4, 3}), other = Input({3}), scalar = Input(Shape());
  using Ops = std::vector<std::string>;
  using Numbers = std::vector<int64_t>;
  const auto refusal = [&](std::vector<Output> inputs, Ops ops, Numbers operands) {
    const Output y = Op("_FusedElementwise", {InputArg(std::move(inputs))},
                        {{"ops", std::move(ops)}, {"operands", std::move(operands)}});
    if (!g_.ok()) return std::string(g_.status().message());
    auto session = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
    return std::string(session->Run(feeds_, {y}).status().message());
  };
  EXPECT_EQ(refusal({x, scalar}, {"Neg", "Mul"}, {0, -1, 2, 1}), "");
  EXPECT_EQ(refusal({scalar}, {"Neg", "Mul"}, {0, -1, 1, 0}), "");
  EXPECT_EQ(refusal({x, scalar}, {"Neg", "AddV2", "Mul"}, {1, -1, 1, 1, 3, 0}), "");
  EXPECT_THAT(refusal({x}, {}, {}), HasSubstr("at least one"));
  EXPECT_THAT(refusal({x}, {"Neg"}, {0}), HasSubstr("two for each of the ops"));
  EXPECT_THAT(refusal({x}, {"Neg"}, {1, -1}), HasSubstr("op 0, Neg, has the operands 1 and -1"));
  EXPECT_THAT(refusal({x}, {"Neg"}, {-1, -1}), HasSubstr("has the operands"));
  EXPECT_THAT(refusal({x}, {"Neg", "AddV2"}, {0, -1, 1, 2}), HasSubstr("has the operands 1 and 2"));
  EXPECT_THAT(refusal({x}, {"Neg", "AddV2"}, {0, -1, 1, -2}), HasSubstr("has the operands 1 and -2"));
  EXPECT_THAT(refusal({x}, {"Neg"}, {int64_t{1} << 40, -1}), HasSubstr("has the operands"));
  EXPECT_THAT(refusal({x}, {"Neg"}, {0, 0}), HasSubstr("'Neg' is no op of two operands"));
  EXPECT_THAT(refusal({x}, {"AddV2"}, {0, -1}), HasSubstr("'AddV2' is no op of one operand"));
  EXPECT_THAT(refusal({x}, {"MatMul"}, {0, 0}), HasSubstr("'MatMul' is no op"));
  EXPECT_THAT(refusal({x}, {"IsNan"}, {0, -1}), HasSubstr("that gives float"));
  EXPECT_THAT(
      refusal({x}, Ops(kMaxFusedElementwiseOps + 1, "Neg"), Numbers(2 * kMaxFusedElementwiseOps + 2, 0)),
      HasSubstr("at most"));
  EXPECT_THAT(refusal(std::vector<Output>(kMaxFusedElementwiseInputs + 1, x), {"Neg"}, {0, -1}),
              HasSubstr("at most"));
  EXPECT_THAT(refusal({x, other}, {"AddV2"}, {0, 1}),
              HasSubstr("inputs[1] must be [4,3] or one element, is [3]"));
  EXPECT_THAT(refusal({x, scalar}, {"ReluGrad"}, {0, 1}),
              HasSubstr("takes operands of one shape: inputs[1] is []"));
  EXPECT_THAT(refusal({other, InputOfUnknownBatch({1, 1})}, {"AddV2"}, {0, 1}),
              HasSubstr("or one element, is [1,1]"));
}

}  // namespace
}  // namespace weir
