// Which nodes gradients consist of: what is known when the graph is built is not computed in every step. That
// the numbers are right is checked in tests/conformance.
#include "graph/gradients.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

class GradientsTest : public testing::Test {
 protected:
  Output Input(PartialShape shape, DType dtype = DType::kFloat32) {
    return g_.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", std::move(shape)}});
  }
  Output Integers(std::vector<int32_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return g_.AddOp("Const", {},
                    {{"value", Tensor::FromSpan<int32_t>({count}, values)}, {"dtype", DType::kInt32}});
  }
  Output Scalar(int32_t value) {
    return g_.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kInt32}});
  }
  std::vector<Output> Gradients(Output y, const std::vector<Output>& xs) {
    const int before = g_.graph().num_nodes();
    auto gradients = AddGradients(g_, {y}, xs);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (!gradients.ok()) return std::vector<Output>(xs.size());
    counts_.clear();
    for (int i = before; i < g_.graph().num_nodes(); ++i) ++counts_[g_.graph().node(i)->op_name()];
    return *gradients;
  }
  int Count(const std::string& op) { return counts_[op]; }

  GraphBuilder g_{StandardOps()};
  std::map<std::string, int> counts_;
};

TEST_F(GradientsTest, EqualShapesNeedNoReduction) {
  const Output x = Input({2, 3}), y = Input({2, 3});
  const auto grads = Gradients(g_.AddOp("AddV2", {x, y}), {x, y});
  EXPECT_EQ(grads[0], grads[1]);
  for (const char* op : {"Sum", "Reshape", "BroadcastGradientArgs"}) EXPECT_EQ(Count(op), 0) << op;
}

TEST_F(GradientsTest, ScalarOnUnknownBatchReducesOverConstantAxes) {
  const Output x = Input({-1, 3}), y = Input(Shape());
  const auto grads = Gradients(g_.AddOp("Mul", {x, y}), {x, y});
  EXPECT_EQ(Count("BroadcastGradientArgs"), 0);
  EXPECT_EQ(Count("Sum"), 1);
  EXPECT_EQ(Count("Reshape"), 0);
  EXPECT_EQ(grads[0].shape().ToString(), "[?,3]");
  EXPECT_EQ(grads[1].shape().ToString(), "[]");
}

TEST_F(GradientsTest, LeadingAndInnerAxesNeedOneReshape) {
  const Output x = Input({4, 2, 3}), y = Input({2, 1});
  const auto grads = Gradients(g_.AddOp("Sub", {x, y}), {x, y});
  EXPECT_EQ(Count("Sum"), 1);
  EXPECT_EQ(Count("Reshape"), 1);
  EXPECT_EQ(grads[1].shape().ToString(), "[2,1]");
}

TEST_F(GradientsTest, TwoUnknownDimensionsAreComparedInTheStep) {
  const Output x = Input({-1, 3}), y = Input({-1, 3});
  Gradients(g_.AddOp("Mul", {x, y}), {x, y});
  EXPECT_EQ(Count("BroadcastGradientArgs"), 1);
  EXPECT_EQ(Count("Sum"), 2);
}

TEST_F(GradientsTest, TheSameTensorTwiceNeedsNoReduction) {
  const Output x = Input({-1, 3});
  Gradients(g_.AddOp("Mul", {x, x}), {x});
  EXPECT_EQ(Count("BroadcastGradientArgs"), 0);
  EXPECT_EQ(Count("Sum"), 0);
  EXPECT_EQ(Count("AddN"), 1);
}

TEST_F(GradientsTest, MeanLossIsDividedBeforeItIsBroadcast) {
  const Output x = Input({-1});
  const auto grads = Gradients(g_.AddOp("Mean", {x, Integers({0})}), {x});
  EXPECT_EQ(grads[0].node->op_name(), "BroadcastTo");
  EXPECT_EQ(grads[0].node->input(0).node->op_name(), "RealDiv");
  EXPECT_EQ(grads[0].shape().ToString(), "[?]");
}

TEST_F(GradientsTest, VariableGradientBelongsToTheHandle) {
  const Output handle =
      g_.AddOp("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({3, 2})}});
  const Output w = g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  const auto grads = Gradients(g_.AddOp("MatMul", {Input({-1, 3}), w}), {handle});
  EXPECT_EQ(grads[0].shape().ToString(), "[3,2]");
  EXPECT_EQ(grads[0].node->op_name(), "MatMul");
}

TEST_F(GradientsTest, NoGradientGoesThroughIndicesAndStops) {
  const Output x = Input({2, 3});
  const auto grads = Gradients(g_.AddOp("Square", {g_.AddOp("StopGradient", {x})}), {x});
  EXPECT_FALSE(grads[0]);
}

TEST_F(GradientsTest, CastsBetweenRealAndComplexCarryGradients) {
  const Output x = Input({4});
  const Output there = g_.AddOp("Cast", {x}, {{"DstT", DType::kComplex64}});
  const auto grads = Gradients(g_.AddOp("Real", {there}, {{"Tout", DType::kFloat32}}), {x});
  ASSERT_TRUE(grads[0]);
  EXPECT_EQ(grads[0].dtype(), DType::kFloat32);
}

// Without its part the sum of the others would be taken for the whole.
TEST_F(GradientsTest, AGradientThatNobodyHasWrittenIsAnError) {
  const Output x = Input({2, 2}, DType::kComplex64);
  const auto grads = AddGradients(g_, {g_.AddOp("MatrixLogarithm", {x})}, {x});
  EXPECT_EQ(grads.status().code(), absl::StatusCode::kUnimplemented) << grads.status();
}

TEST_F(GradientsTest, ErrorsNameTheForwardNode) {
  const Output x = Input({2, 3}, DType::kComplex64), y = Input({2, 3}, DType::kComplex64);
  const auto grads = AddGradients(g_, {g_.AddOp("Mul", {x, y}, {}, "product")}, {x});
  ASSERT_FALSE(grads.ok());
  EXPECT_TRUE(absl::StrContains(grads.status().message(), "gradient of Mul 'product': ")) << grads.status();
  EXPECT_EQ(grads.status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(GradientsTest, QrRefusesWhatTensorFlowRefuses) {
  const auto refusal = [&](PartialShape shape, bool full) {
    GraphBuilder g(StandardOps());
    const Output x = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", std::move(shape)}});
    const auto q = g.AddNode("Qr", {x}, {{"full_matrices", full}})->output(0);
    const auto gradients = AddGradients(g, {q}, {x});
    EXPECT_EQ(gradients.status().code(), absl::StatusCode::kUnimplemented) << gradients.status();
    return gradients.status().ToString();
  };
  const char* const unknown = "needs matrices whose shape is known when the graph is built; r is ";
  EXPECT_THAT(refusal({-1, 3}, false), testing::HasSubstr(absl::StrCat(unknown, "[?,3]")));
  EXPECT_THAT(refusal({2, 3, -1}, false), testing::HasSubstr(absl::StrCat(unknown, "[2,?,?]")));
  EXPECT_THAT(refusal(PartialShape(), false), testing::HasSubstr(unknown));
  EXPECT_THAT(refusal({3, 2}, true),
              testing::HasSubstr("no gradient of full_matrices with more rows than columns; r is [3,2]"));
}

TEST_F(GradientsTest, CrossEntropyComparesTheShapesOfItsInputs) {
  const Output features = Input({-1, -1}), labels = Input({-1, -1});
  const Output loss = g_.AddOp("SoftmaxCrossEntropyWithLogits", {features, labels});
  Gradients(loss, {features, labels});
  ASSERT_EQ(Count("BroadcastGradientArgs"), 1);
  for (const auto& node : g_.graph().nodes()) {
    if (node->op_name() != "BroadcastGradientArgs") continue;
    EXPECT_EQ(node->input(0).node->input(0), features);
    EXPECT_EQ(node->input(1).node->input(0), labels);
  }
}

TEST_F(GradientsTest, LookingUpRowsGivesRows) {
  const Output x = Input({100, 3}), ids = Input({-1, 2}, DType::kInt32);
  const Output y = g_.AddOp("GatherV2", {x, ids, Scalar(0)});
  const auto flows = AddGradientFlows(g_, {y}, {x});
  ASSERT_TRUE(flows.ok()) << flows.status();
  const auto* const slices = std::get_if<IndexedSlices>(&(*flows)[0]);
  ASSERT_NE(slices, nullptr);
  EXPECT_EQ(slices->values.shape().ToString(), "[?,3]");
  EXPECT_EQ(slices->indices.shape().rank(), 1);
  const auto grads = Gradients(y, {x});
  EXPECT_EQ(grads[0].node->op_name(), "UnsortedSegmentSum");
  EXPECT_EQ(grads[0].shape().ToString(), "[100,3]");
}

// An index of two types becomes the wider one; rows and a whole tensor become a whole tensor.
TEST_F(GradientsTest, RowsAreConcatenatedUntilSomethingDenseFlows) {
  const Output x = Input({100, 3});
  const Output a = g_.AddOp("GatherV2", {x, Input({4}, DType::kInt32), Scalar(0)});
  const Output b = g_.AddOp("GatherV2", {x, Input({5}, DType::kInt64), Scalar(0)});
  const auto rows = AddGradientFlows(g_, {a, b}, {x});
  ASSERT_TRUE(rows.ok()) << rows.status();
  const auto* const slices = std::get_if<IndexedSlices>(&(*rows)[0]);
  ASSERT_NE(slices, nullptr);
  EXPECT_EQ(slices->values.shape().ToString(), "[9,3]");
  EXPECT_EQ(slices->indices.dtype(), DType::kInt64);
  EXPECT_EQ(slices->indices.shape().ToString(), "[9]");
  const auto mixed = AddGradientFlows(g_, {a, g_.AddOp("Square", {x})}, {x});
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  const Output* const dense = std::get_if<Output>(&(*mixed)[0]);
  ASSERT_NE(dense, nullptr);
  EXPECT_EQ(dense->node->op_name(), "AddN");
  EXPECT_EQ(dense->shape().ToString(), "[100,3]");
}

// A gradient that nobody has written is an error where it is needed, and only there.
TEST(GradientMissingTest, NamesTheOpAndThePath) {
  OpRegistry ops;
  ASSERT_TRUE(RegisterOps(ops).ok());
  ASSERT_TRUE(ops.Register({.name = "WeirHard",
                            .summary = "Has a derivative that nobody has written.",
                            .inputs = {"x: float", "steps: int32"},
                            .outputs = {"y: float"},
                            .infer_shapes = UnchangedShape,
                            .gradient = GradientMissing})
                  .ok());
  GraphBuilder g(ops);
  const auto input = [&](DType dtype, const char* name) {
    return g.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", PartialShape({2})}}, name);
  };
  const Output x = input(DType::kFloat32, "x"), constant = input(DType::kFloat32, "constant");
  // The path from x leads through an integer: no gradient flows there.
  const Output steps = g.AddOp("Cast", {x}, {{"DstT", DType::kInt32}});
  const Output beside = g.AddOp("WeirHard", {constant, steps}, {}, "beside");
  const auto none = AddGradients(g, {beside}, {x});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE((*none)[0]);
  const Output hard = g.AddOp("WeirHard", {x, steps}, {}, "hard");
  const Output loss = g.AddOp("Square", {hard}, {}, "loss");
  const auto wanted = AddGradients(g, {loss}, {x});
  EXPECT_EQ(wanted.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(wanted.status().message(),
                                "gradient of WeirHard 'hard': the gradient of this op is not written yet; it "
                                "lies between y 'loss:0' and x 'x:0'"))
      << wanted.status();
}

// Second derivatives run through the gradients' own gradients.
TEST_F(GradientsTest, SecondDerivatives) {
  for (const char* op :
       {"Tanh", "Sigmoid", "Square", "Exp", "Log", "Sqrt", "Rsqrt", "Softmax", "LogSoftmax", "Relu"}) {
    const Output x = Input({2, 3});
    const Output y = g_.AddOp(op, {x});
    const Output first = Gradients(y, {x})[0];
    ASSERT_TRUE(first) << op << g_.status();
    // Relu is straight: its slope does not change with x.
    const Output second = Gradients(first, {x})[0];
    EXPECT_EQ(second ? second.shape().ToString() : "none", std::string(op) == "Relu" ? "none" : "[2,3]")
        << op;
  }
}

}  // namespace
}  // namespace weir
