// Rewrites of a step's graph: where they happen, where they must not, and that the numbers stay.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/rewrite/arithmetic.h"
#include "graph/rewrite/prune.h"
#include "graph/rewrite/symbolic_shapes.h"
#include "gtest/gtest.h"
#include "session/test_session.h"

namespace weir {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Among them all that a careless rule would change.
Tensor Numbers() {
  return Tensor::From<float>({2, 3, 2},
                             {0.0f, -0.0f, 1.5f, -2.25f, kInf, -kInf, kNan, 1e-40f, 3e38f, 7, -1e-3f, 0.1f});
}

bool HaveSameBits(const Tensor& a, const Tensor& b) {
  return a.is_valid() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

class RewritesTest : public TestSession {
 protected:
  Output Input(PartialShape shape, DType dtype = DType::kFloat32) {
    return g_.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", std::move(shape)}});
  }
  Output Constant(Tensor value) {
    const DType dtype = value.dtype();
    return g_.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  }
  template <typename T>
  Output Scalar(T value) {
    return Constant(Tensor::Scalar<T>(value));
  }
  Output Integers(std::initializer_list<int32_t> values) { return Constant(Tensor::Vector<int32_t>(values)); }
  Output Op(const char* op, std::vector<InputArg> inputs, AttrMap attrs = {}) {
    return g_.AddOp(op, std::move(inputs), std::move(attrs));
  }

  // The ops of the step's graph after the arithmetic rules, without those that stand for feeds and fetches.
  std::vector<std::string> OpsLeft(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                                   const RewriteOptions& options = {}) {
    EXPECT_TRUE(g_.ok()) << g_.status();
    auto graph = PruneToSignature(g_.graph(), feeds, fetches, {}).value();
    EXPECT_TRUE(SimplifyArithmetic(*graph, options).ok());
    std::vector<std::string> ops;
    for (const auto& node : graph->nodes()) {
      if (node->op_name()[0] != '_') ops.push_back(node->op_name());
    }
    return ops;
  }

  std::vector<Tensor> Run(const Feeds& feeds, const std::vector<Output>& fetches,
                          const RewriteOptions& rewrites) {
    SessionOptions options;
    options.rewrites = rewrites;
    auto session = Session::Create(g_.graph(), {&worker_}, runtime_->kernels(), options).value();
    auto results = session->Run(feeds, {fetches.begin(), fetches.end()});
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *results : std::vector<Tensor>(fetches.size());
  }

  // The ops that are left, once it is sure that the results are the same bits.
  std::vector<std::string> Rewritten(Output x, const Tensor& value, const std::vector<Output>& fetches) {
    const Feeds feeds = {{x, value}};
    const std::vector<Tensor> rewritten = Run(feeds, fetches, {}),
                              plain = Run(feeds, fetches, {.is_enabled = false});
    for (size_t i = 0; i < fetches.size(); ++i) {
      EXPECT_TRUE(HaveSameBits(rewritten[i], plain[i]))
          << "fetch " << i << ": " << rewritten[i].ToString(20) << " instead of " << plain[i].ToString(20);
    }
    return OpsLeft({x}, fetches);
  }
};

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(RewritesTest, NeutralOperandsVanish) {
  const Output x = Input({2, 3, 2}), ones = Constant(Tensor::From<float>({3, 1}, {1, 1, 1}));
  for (const Output y :
       {Op("Mul", {x, Scalar(1.0f)}), Op("Mul", {Scalar(1.0f), x}), Op("Mul", {x, ones}),
        Op("RealDiv", {x, Scalar(1.0f)}), Op("Div", {x, Scalar(1.0f)}), Op("Sub", {x, Scalar(0.0f)}),
        Op("AddV2", {x, Scalar(-0.0f)}), Op("AddV2", {Scalar(-0.0f), x})}) {
    EXPECT_THAT(Rewritten(x, Numbers(), {y}), IsEmpty()) << y.node->Describe();
  }
}

TEST_F(RewritesTest, OperandsThatAreNotNeutralStay) {
  const Output x = Input({2, 3, 2}), y = Input({}), wide = Constant(Tensor::From<float>({1, 1, 1, 1}, {1}));
  for (const Output z : {Op("Mul", {x, wide}), Op("AddV2", {x, Scalar(0.0f)}), Op("Sub", {x, Scalar(-0.0f)}),
                         Op("Sub", {Scalar(0.0f), x}), Op("RealDiv", {Scalar(1.0f), x}),
                         Op("Mul", {x, Scalar(2.0f)}), Op("Mul", {x, Scalar(0.0f)}), Op("Sub", {x, x})}) {
    EXPECT_THAT(Rewritten(x, Numbers(), {z}), Contains(z.node->op_name())) << z.node->Describe();
  }
  // The operand has a shape of its own.
  const Output grown = Op("Mul", {y, Constant(Tensor::From<float>({2}, {1, 1}))});
  EXPECT_THAT(Rewritten(y, Tensor::Scalar(3.0f), {grown}), Contains("Mul"));
  // Of an unknown shape only a scalar is surely no larger.
  const Output unknown = Input(PartialShape());
  EXPECT_THAT(Rewritten(unknown, Numbers(), {Op("Mul", {unknown, Constant(Tensor::From<float>({1}, {1}))})}),
              Contains("Mul"));
  EXPECT_THAT(Rewritten(unknown, Numbers(), {Op("Mul", {unknown, Scalar(1.0f)})}), IsEmpty());
}

TEST_F(RewritesTest, IntegersAndComplexNumbersHaveRulesOfTheirOwn) {
  const Output i = Input({3}, DType::kInt32), c = Input({1}, DType::kComplex64);
  const Tensor integers = Tensor::Vector<int32_t>({1 << 30, -5, 7});
  EXPECT_THAT(Rewritten(i, integers, {Op("AddV2", {i, Scalar<int32_t>(0)})}), IsEmpty());
  EXPECT_THAT(
      Rewritten(i, integers, {Op("Mul", {Op("Mul", {i, Scalar<int32_t>(1 << 20)}), Scalar<int32_t>(3)})}),
      ElementsAre("Mul", "Const"));
  const Tensor infinite = Tensor::Vector<std::complex<float>>({{kInf, 1}});
  EXPECT_THAT(Rewritten(c, infinite, {Op("Mul", {c, Scalar<std::complex<float>>(1)})}), Contains("Mul"));
}

TEST_F(RewritesTest, FactorsAreJoinedOnlyWhereRoundingMayChange) {
  const Output x = Input({2, 3, 2});
  const Output y = Op("Mul", {Scalar(0.3f), Op("Mul", {x, Scalar(0.7f)})});
  EXPECT_THAT(OpsLeft({x}, {y}), ElementsAre("Mul", "Const"));
  EXPECT_THAT(OpsLeft({x}, {y}, {.may_change_rounding = false}), SizeIs(4));
  const Tensor value = Tensor::From<float>({1, 1, 2}, {1.5f, -3});
  const Output small = Input({1, 1, 2});
  const Output z = Op("Mul", {Scalar(0.3f), Op("Mul", {small, Scalar(0.7f)})});
  const Tensor joined = Run({{small, value}}, {z}, {})[0];
  EXPECT_NEAR(joined.flat<float>()[0], 0.315f, 1e-6f);
  EXPECT_NEAR(joined.flat<float>()[1], -0.63f, 1e-6f);
  // The inner product is read by others, and products that leave the range of floats.
  const Output inner = Op("Mul", {x, Scalar(0.7f)});
  EXPECT_THAT(OpsLeft({x}, {Op("Mul", {inner, Scalar(3.0f)}), Op("Exp", {inner})}), SizeIs(5));
  EXPECT_THAT(OpsLeft({x}, {Op("Mul", {Op("Mul", {x, Scalar(1e30f)}), Scalar(1e30f)})}), SizeIs(4));
  EXPECT_THAT(OpsLeft({x}, {Op("Mul", {Op("Mul", {x, Scalar(0.0f)}), Scalar(2.0f)})}), SizeIs(4));
}

TEST_F(RewritesTest, NodesThatPassTheirInputOnVanish) {
  const Output x = Input({2, 3, 2});
  const Output y = Op("Identity", {Op("StopGradient", {Op("Identity", {x})})});
  EXPECT_THAT(Rewritten(x, Numbers(), {Op("Exp", {y}), y}), ElementsAre("Exp"));
  EXPECT_THAT(Rewritten(x, Numbers(), {Op("Neg", {Op("Neg", {x})})}), IsEmpty());
  EXPECT_THAT(Rewritten(x, Numbers(), {Op("Neg", {Op("Neg", {Op("Neg", {x})})})}), ElementsAre("Neg"));
  EXPECT_THAT(Rewritten(x, Numbers(), {Op("AddN", {std::vector<Output>{x}})}), IsEmpty());
  EXPECT_THAT(Rewritten(x, Numbers(), {Op("AddN", {std::vector<Output>{x, x}})}), ElementsAre("AddN"));
}

TEST_F(RewritesTest, ControlInputsKeepANodeAndControlEdgesFollow) {
  const Output x = Input({2}), other = Op("Exp", {x});
  Output late, passed = Op("Identity", {other});
  {
    const auto after = g_.ControlScope({other.node});
    late = Op("Identity", {x});
  }
  EXPECT_THAT(OpsLeft({x}, {late}), Contains("Identity"));
  Output then;
  {
    const auto after = g_.ControlScope({passed.node});
    then = Op("Neg", {x});
  }
  auto graph = PruneToSignature(g_.graph(), {{x}}, {{then}}, {}).value();
  ASSERT_TRUE(SimplifyArithmetic(*graph).ok());
  const Node* const neg = graph->FindNode(then.node->name());
  ASSERT_EQ(neg->control_inputs().size(), 1);
  EXPECT_EQ(neg->control_inputs()[0]->name(), other.node->name());
}

TEST_F(RewritesTest, NodesOfOtherDevicesAndNodesThatOthersNameStay) {
  const Output x = Input({2}), y = Op("Exp", {x}), named = Op("Identity", {y});
  Output elsewhere;
  {
    const auto device = g_.DeviceScope("/device:GPU:0");
    elsewhere = Op("Identity", {y});
  }
  const Output beside =
      Op("Neg", {x}, {{"_class", std::vector<std::string>{absl::StrCat("loc:@", named.node->name())}}});
  EXPECT_THAT(OpsLeft({x}, {elsewhere}), Contains("Identity"));
  EXPECT_THAT(OpsLeft({x}, {named}), Not(Contains("Identity")));
  EXPECT_THAT(OpsLeft({x}, {named, beside}), Contains("Identity"));
}

TEST_F(RewritesTest, TransposesAreJoined) {
  const Output x = Input({2, 3, 2});
  const auto transpose = [&](Output y, std::initializer_list<int32_t> to) {
    return Op("Transpose", {y, Integers(to)});
  };
  EXPECT_THAT(Rewritten(x, Numbers(), {transpose(x, {0, 1, 2})}), IsEmpty());
  EXPECT_THAT(Rewritten(x, Numbers(), {transpose(transpose(x, {1, 2, 0}), {2, 0, 1})}), IsEmpty());
  EXPECT_THAT(Rewritten(x, Numbers(), {transpose(transpose(x, {1, 2, 0}), {1, 2, 0})}),
              ElementsAre("Transpose", "Const"));
  EXPECT_THAT(Rewritten(x, Numbers(), {transpose(transpose(transpose(x, {1, 2, 0}), {1, 2, 0}), {1, 2, 0})}),
              IsEmpty());
  const Output once = transpose(x, {2, 1, 0});
  EXPECT_THAT(Rewritten(x, Numbers(), {once, transpose(once, {0, 2, 1})}), SizeIs(4));
}

TEST_F(RewritesTest, ReshapesAreJoinedWhereNoErrorIsLost) {
  const Output x = Input({2, 3, 2}), rows = Input({-1, 6});
  const auto reshape = [&](Output y, std::initializer_list<int32_t> to) {
    return Op("Reshape", {y, Integers(to)});
  };
  EXPECT_THAT(Rewritten(x, Numbers(), {reshape(x, {2, 3, -1})}), IsEmpty());
  EXPECT_THAT(Rewritten(x, Numbers(), {reshape(reshape(x, {6, 2}), {-1})}), ElementsAre("Const", "Reshape"));
  const Tensor flat = Numbers().WithShape({2, 6});
  EXPECT_THAT(Rewritten(rows, flat, {reshape(rows, {-1, 6})}), IsEmpty());
  EXPECT_THAT(Rewritten(rows, flat, {reshape(reshape(rows, {-1, 3, 2}), {-1, 6})}), IsEmpty());
  EXPECT_THAT(Rewritten(rows, flat, {reshape(reshape(rows, {-1, 3, 2}), {-1, 3})}), SizeIs(4));
  EXPECT_THAT(Rewritten(rows, flat, {reshape(reshape(rows, {-1, 3}), {-1, 3, 2})}), SizeIs(2));
  EXPECT_THAT(Rewritten(rows, flat, {reshape(reshape(rows, {-1, 3, 2}), {-1})}), SizeIs(4))
      << "18 elements would no longer be refused";
  const auto refused =
      session().Run({{rows, Tensor(DType::kFloat32, {1, 6})}}, {reshape(reshape(rows, {-1, 4}), {-1, 2})});
  EXPECT_FALSE(refused.ok());
}

// Beside a 0, -1 is what the dimensions of the tensor that are not 0 leave.
TEST_F(RewritesTest, AReshapeToNothingDependsOnTheDimensionsBefore) {
  const Output x = Input({4, 0, 6});
  const auto reshape = [&](Output y, std::initializer_list<int32_t> to) {
    return Op("Reshape", {y, Integers(to)});
  };
  const Tensor nothing(DType::kFloat32, {4, 0, 6});
  const Output open = reshape(reshape(x, {0, 5}), {-1, 0}), closed = reshape(reshape(x, {0, 5}), {0, 7});
  EXPECT_THAT(Rewritten(x, nothing, {open}), SizeIs(4));
  EXPECT_EQ(Run({{x, nothing}}, {open}, {})[0].shape(), Shape({5, 0}));
  EXPECT_THAT(Rewritten(x, nothing, {closed}), ElementsAre("Const", "Reshape"));
}

// Alone the second Reshape would take any number of rows: 12 elements as [4,3], where [2,3] was promised.
TEST_F(RewritesTest, AReshapeToSixElementsRefusesTwelveBeforeAnotherLeavesTheNumberOpen) {
  const Output x = Input(PartialShape());
  const Output rows = Op("Reshape", {Op("Reshape", {x, Integers({6})}), Integers({-1, 3})});
  const Output closed = Op("Reshape", {Op("Reshape", {x, Integers({6})}), Integers({2, 3})});
  for (const Output y : {rows, closed}) {
    const auto refused = session().Run({{x, Numbers()}}, {y});
    EXPECT_FALSE(refused.ok()) << "gives " << refused->at(0).ToString(12);
  }
  EXPECT_THAT(OpsLeft({x}, {closed}), ElementsAre("Const", "Reshape"));
}

// What is known of two shapes together may be more than there can be. Folding their size would end the
// process.
TEST_F(RewritesTest, AShapeThatNoTensorHasIsRefused) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const Output rows = Input({kHuge, -1}), columns = Input({-1, kHuge});
  const Output size = Op("Size", {Op("AddN", {InputArg(std::vector<Output>{rows, columns})})});
  ASSERT_EQ(g_.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(size);
  EXPECT_THAT(std::string(g_.status().message()), ::testing::HasSubstr("[?,1099511627776]"));
}

TEST_F(RewritesTest, CastsThatLoseNothingAreJoined) {
  const auto cast = [&](Output y, DType to) { return Op("Cast", {y}, {{"DstT", to}}); };
  const Output x = Input({2, 3, 2}), i = Input({3}, DType::kInt32), h = Input({2}, DType::kHalf);
  const Tensor integers = Tensor::Vector<int32_t>({1 << 30, -5, 16777217});
  const Tensor halves = Tensor::Vector<Half>({Half(1.5f), Half(-kInf)});
  EXPECT_THAT(Rewritten(x, Numbers(), {cast(x, DType::kFloat32)}), IsEmpty());
  EXPECT_THAT(Rewritten(h, halves, {cast(cast(h, DType::kFloat32), DType::kHalf)}), IsEmpty());
  EXPECT_THAT(Rewritten(i, integers, {cast(cast(i, DType::kInt64), DType::kInt8)}), ElementsAre("Cast"));
  EXPECT_THAT(Rewritten(i, integers, {cast(cast(i, DType::kFloat64), DType::kFloat32)}), ElementsAre("Cast"));
  EXPECT_THAT(Rewritten(i, integers, {cast(cast(i, DType::kFloat32), DType::kInt32)}), SizeIs(2));
  EXPECT_THAT(Rewritten(i, integers, {cast(cast(i, DType::kInt8), DType::kInt32)}), SizeIs(2));
  EXPECT_THAT(Rewritten(i, integers, {cast(cast(i, DType::kUint32), DType::kInt64)}), SizeIs(2));
  EXPECT_THAT(Rewritten(x, Numbers(), {cast(cast(x, DType::kHalf), DType::kFloat32)}), SizeIs(2));
  EXPECT_THAT(Rewritten(x, Numbers(), {cast(cast(x, DType::kFloat64), DType::kInt32)}), SizeIs(2));
}

TEST_F(RewritesTest, WhatTakesEverythingVanishes) {
  const Output x = Input({2, 3, 2});
  const Output none = Constant(Tensor(DType::kInt32, {0}));
  const Output no_padding = Constant(Tensor::From<int32_t>({3, 2}, {0, 0, 0, 0, 0, 0}));
  for (const Output y :
       {Op("Sum", {x, none}), Op("Mean", {x, none}, {{"keep_dims", true}}),
        Op("Tile", {x, Integers({1, 1, 1})}), Op("BroadcastTo", {x, Integers({2, 3, 2})}),
        Op("Pad", {x, no_padding}), Op("Slice", {x, Integers({0, 0, 0}), Integers({-1, -1, -1})}),
        Op("Slice", {x, Integers({0, 0, 0}), Integers({2, 3, 2})}),
        Op("Split", {Scalar<int32_t>(1), x}, {{"num_split", 1}})}) {
    EXPECT_THAT(Rewritten(x, Numbers(), {y}), IsEmpty()) << y.node->Describe();
  }
  for (const Output y : {Op("Sum", {x, Integers({0})}), Op("Tile", {x, Integers({1, 2, 1})}),
                         Op("BroadcastTo", {x, Integers({2, 2, 3, 2})}),
                         Op("Slice", {x, Integers({0, 1, 0}), Integers({-1, -1, -1})}),
                         Op("Slice", {x, Integers({0, 0, 0}), Integers({1, -1, -1})})}) {
    EXPECT_THAT(Rewritten(x, Numbers(), {y}), Contains(y.node->op_name()));
  }
}

TEST_F(RewritesTest, ProductsReadTransposedMatrices) {
  const Output x = Input({3, 2}), y = Input({3, 4});
  const Output transposed = Op("Transpose", {x, Integers({1, 0})});
  const Output product = Op("MatMul", {transposed, y});
  EXPECT_THAT(OpsLeft({x, y}, {product}), ElementsAre("MatMul"));
  EXPECT_THAT(OpsLeft({x, y}, {product}, {.may_change_rounding = false}), SizeIs(3));
  const Output back = Op("MatMul", {y, transposed}, {{"transpose_a", true}, {"transpose_b", true}});
  EXPECT_THAT(OpsLeft({x, y}, {back}), ElementsAre("MatMul"));
  const Tensor a = Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor b = Tensor::From<float>({3, 4}, {1, 0, 2, 0, 0, 1, 0, 3, 1, 1, 1, 1});
  const Feeds feeds = {{x, a}, {y, b}};
  for (const Output z : {product, back}) {
    EXPECT_TRUE(HaveSameBits(Run(feeds, {z}, {})[0], Run(feeds, {z}, {.is_enabled = false})[0]));
  }
  const Output batch = Input({2, 2, 2});
  const Output swapped = Op("Transpose", {batch, Integers({0, 2, 1})});
  EXPECT_THAT(OpsLeft({batch}, {Op("BatchMatMulV2", {swapped, batch})}), ElementsAre("BatchMatMulV2"));
  const Output turned = Op("Transpose", {batch, Integers({2, 1, 0})});
  EXPECT_THAT(OpsLeft({batch}, {Op("BatchMatMulV2", {turned, batch})}), SizeIs(3));
}

// What the gradient of a sum of two tensors does with its operands' shapes.
class BroadcastGradientTest : public RewritesTest {
 protected:
  Output UndoBroadcast(Output gradient, Output a, Output b) {
    const Output shape = Op("Shape", {a});
    Node* const axes = g_.AddNode("BroadcastGradientArgs", {shape, Op("Shape", {b})});
    return Op("Reshape", {Op("Sum", {gradient, axes->output(0)}), shape});
  }
};

TEST_F(BroadcastGradientTest, NothingIsSummedWhereShapesAreSurelyEqual) {
  const Output x = Input({-1, 3, -1});
  const Output a = Op("Exp", {x}), sum = Op("AddV2", {a, Op("Mul", {x, Scalar(2.0f)})});
  EXPECT_THAT(Rewritten(x, Numbers(), {UndoBroadcast(Op("ReluGrad", {x, sum}), a, sum)}),
              Not(Contains("Sum")));
  EXPECT_THAT(Rewritten(x, Numbers(), {UndoBroadcast(Op("Neg", {sum}), a, sum)}),
              Not(Contains("BroadcastGradientArgs")));
}

TEST_F(BroadcastGradientTest, WhatMayBeBroadcastIsSummed) {
  const Output x = Input({-1, 3, -1}), y = Input({-1, 3, -1});
  const Output sum = Op("AddV2", {x, y});
  const Output gradient = UndoBroadcast(Op("Exp", {sum}), y, x);
  EXPECT_THAT(OpsLeft({x, y}, {gradient}), Contains("Sum"));
  const Tensor one = Tensor::From<float>({1, 3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor two = Tensor::From<float>({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Feeds feeds = {{x, two}, {y, one}};
  const Tensor rewritten = Run(feeds, {gradient}, {})[0],
               plain = Run(feeds, {gradient}, {.is_enabled = false})[0];
  EXPECT_EQ(rewritten.shape(), Shape({1, 3, 2}));
  EXPECT_TRUE(HaveSameBits(rewritten, plain));
}

class SymbolicShapesTest : public RewritesTest {
 protected:
  bool AreEqual(Output a, Output b) {
    EXPECT_TRUE(g_.ok()) << g_.status();
    const auto order = g_.graph().TopologicalOrder().value();
    return SymbolicShapes(order).AreEqual(a, b);
  }
};

TEST_F(SymbolicShapesTest, FollowWhatOpsHandOn) {
  const Output x = Input({-1, 5, 5, 2}), y = Input({-1, 5, 5, 2}), w = Input({3, 3, 2, 2}),
               of_any = Input({});
  const AttrMap same = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const Output conv = Op("Conv2D", {x, w}, same);
  EXPECT_TRUE(AreEqual(conv, x));
  EXPECT_TRUE(AreEqual(Op("BiasAdd", {Op("Relu", {conv}), Input({2})}), x));
  EXPECT_TRUE(AreEqual(Op("AddV2", {conv, Op("Neg", {x})}), x));
  EXPECT_TRUE(AreEqual(Op("Mul", {Scalar(2.0f), x}), x));
  EXPECT_TRUE(AreEqual(Op("ReluGrad", {y, x}), x)) << "equal, or an error";
  EXPECT_TRUE(AreEqual(Op("Reshape", {Input({-1}), Op("Shape", {x})}), conv));
  EXPECT_TRUE(AreEqual(Op("Conv2DBackpropInput", {Op("Shape", {x}), w, y}, same), x));
  EXPECT_FALSE(AreEqual(x, y));
  EXPECT_FALSE(AreEqual(Op("AddV2", {x, y}), x)) << "x may be repeated";
  EXPECT_FALSE(AreEqual(
      Op("Conv2D", {x, w}, {{"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", "SAME"}}), x));
  EXPECT_FALSE(AreEqual(of_any, x));
  const Output ranked = Input(PartialShape());
  EXPECT_TRUE(AreEqual(Op("Relu", {ranked}), ranked));
  EXPECT_FALSE(AreEqual(Op("AddV2", {ranked, x}), ranked));
  EXPECT_FALSE(AreEqual(ranked, Input(PartialShape())));
}

TEST_F(SymbolicShapesTest, OfProductsAreRowsAndColumns) {
  const Output a = Input({-1, 4}), b = Input({4, -1}), c = Input({4, -1});
  const Output product = Op("MatMul", {a, b});
  EXPECT_TRUE(AreEqual(product, Op("MatMul", {Op("Exp", {a}), b})));
  EXPECT_FALSE(AreEqual(product, Op("MatMul", {a, c})));
  EXPECT_FALSE(AreEqual(product, Op("MatMul", {b, a}, {{"transpose_a", true}, {"transpose_b", true}})));
}

TEST_F(SymbolicShapesTest, OfBranchesAreNobodysElse) {
  const Output x = Input({-1}), flag = Input({}, DType::kBool);
  Node* const branches = g_.AddNode("Switch", {x, flag});
  Node* const merged = g_.AddNode(
      "Merge", {std::vector<Output>{Op("Tile", {branches->output(0), Integers({2})}), branches->output(1)}});
  EXPECT_FALSE(AreEqual(merged->output(0), x));
  EXPECT_TRUE(AreEqual(Op("Relu", {merged->output(0)}), merged->output(0)));
}

}  // namespace
}  // namespace weir
