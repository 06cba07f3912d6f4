#include "graph/rewrite/constant_folding.h"

#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

class ConstantFoldingTest : public testing::Test {
 protected:
  ConstantFoldingTest() : g_(ops_) {
    Register({.name = "Const",
              .outputs = {"output: dtype"},
              .attrs = {"value: tensor", "dtype: type"},
              .infer_shapes = [](ShapeInference& s) {
                s.set_output(0, s.attr<Tensor>("value").shape());
                return absl::OkStatus();
              }});
    Register({.name = "Source",
              .outputs = {"output: float"},
              .attrs = {"shape: shape = ?"},
              .is_stateful = true,
              .infer_shapes = [](ShapeInference& s) {
                s.set_output(0, s.attr<PartialShape>("shape"));
                return absl::OkStatus();
              }});
    Register(
        {.name = "Negate", .inputs = {"x: float"}, .outputs = {"y: float"}, .infer_shapes = UnchangedShape});
    Register({.name = "Draw",
              .inputs = {"x: float"},
              .outputs = {"y: float"},
              .is_stateful = true,
              .infer_shapes = UnchangedShape});
    Register({.name = "Size",
              .inputs = {"input: float"},
              .outputs = {"output: out_type"},
              .attrs = {"out_type: {int32, int64} = int32"},
              .infer_shapes = ScalarShape});
    Register({.name = "Switch",
              .inputs = {"data: float", "pred: bool"},
              .outputs = {"output_false: float", "output_true: float"},
              .infer_shapes = UnchangedShape});
    Register({.name = "Use", .inputs = {"x: T"}, .attrs = {"T: type"}, .infer_shapes = NoOutputs});
  }

  void Register(OpDef def) {
    def.summary = "For tests.";
    def.gradient = NotDifferentiable;
    ASSERT_TRUE(ops_.Register(std::move(def)).ok());
  }

  Output Constant(const Tensor& value) {
    return g_.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}});
  }

  // The op of what the node named "use" reads after folding. Evaluated nodes give the negative of input 0.
  std::string ReadByUse(Output x, const ConstantFoldingOptions& options = {}) {
    g_.AddNode("Use", {x}, {}, "use");
    EXPECT_TRUE(g_.ok()) << g_.status();
    const auto evaluate = [](const Node&, absl::Span<const Tensor> inputs) {
      Tensor result = inputs[0].Clone();
      for (float& value : result.flat<float>()) value = -value;
      return absl::StatusOr<std::vector<Tensor>>(std::vector<Tensor>{result});
    };
    const absl::Status folded = FoldConstants(g_.graph(), evaluate, options);
    EXPECT_TRUE(folded.ok()) << folded;
    return g_.graph().FindNode("use")->input(0).node->op_name();
  }

  OpRegistry ops_;
  GraphBuilder g_;
};

TEST_F(ConstantFoldingTest, AFunctionOfConstantsBecomesOne) {
  EXPECT_EQ(ReadByUse(g_.AddOp("Negate", {Constant(Tensor::Scalar(2.0f))})), "Const");
  EXPECT_EQ(g_.graph().FindNode("use")->input(0).node->attr<Tensor>("value").scalar<float>(), -2);
}

TEST_F(ConstantFoldingTest, WhatHasStateGivesSomethingElseInEveryStep) {
  EXPECT_EQ(ReadByUse(g_.AddOp("Draw", {Constant(Tensor::Scalar(2.0f))})), "Draw");
}

TEST_F(ConstantFoldingTest, WhatWaitsForAnotherNodeStaysBehindIt) {
  const Output before = g_.AddOp("Source", {}), constant = Constant(Tensor::Scalar(2.0f));
  Output x;
  {
    auto after = g_.ControlScope({before.node});
    x = g_.AddOp("Negate", {constant});
  }
  EXPECT_EQ(ReadByUse(x), "Negate");
}

TEST_F(ConstantFoldingTest, LargeResultsStayComputed) {
  const Output x = g_.AddOp("Negate", {Constant(Tensor(DType::kFloat32, {3}))});
  EXPECT_EQ(ReadByUse(x, {.max_bytes_per_constant = 11}), "Negate");
}

// What is as large as memory would be computed once more, and thrown away.
TEST_F(ConstantFoldingTest, WhatIsKnownToBeLargeIsNotComputed) {
  g_.AddNode("Use", {g_.AddOp("Negate", {Constant(Tensor(DType::kFloat32, {3}))})}, {}, "use");
  int num_computed = 0;
  const auto evaluate = [&num_computed](const Node&, absl::Span<const Tensor> inputs) {
    ++num_computed;
    return absl::StatusOr<std::vector<Tensor>>(std::vector<Tensor>{inputs[0]});
  };
  const absl::Status folded = FoldConstants(g_.graph(), evaluate, {.max_bytes_per_constant = 11});
  EXPECT_TRUE(folded.ok()) << folded;
  EXPECT_EQ(num_computed, 0);
}

TEST_F(ConstantFoldingTest, ResultsAtTheLimitAreFolded) {
  const Output x = g_.AddOp("Negate", {Constant(Tensor(DType::kFloat32, {3}))});
  EXPECT_EQ(ReadByUse(x, {.max_bytes_per_constant = 12}), "Const");
}

TEST_F(ConstantFoldingTest, AConstantIsWhereItsNodeAskedToBe) {
  const auto device = g_.DeviceScope("/device:GPU:1");
  EXPECT_EQ(ReadByUse(g_.AddOp("Negate", {Constant(Tensor::Scalar(2.0f))})), "Const");
  EXPECT_EQ(g_.graph().FindNode("use")->input(0).node->requested_device().ToString(), "/device:GPU:1");
}

TEST_F(ConstantFoldingTest, AKnownSizeIsAConstant) {
  const Output x = g_.AddOp("Source", {}, {{"shape", PartialShape({3, 4})}});
  EXPECT_EQ(ReadByUse(g_.AddOp("Size", {x})), "Const");
  EXPECT_EQ(g_.graph().FindNode("use")->input(0).node->attr<Tensor>("value").scalar<int32_t>(), 12);
}

// A control edge from it is one from what its input comes after.
TEST_F(ConstantFoldingTest, ASizeThatOthersWaitForIsLeftToTheStep) {
  const Output x = g_.AddOp("Source", {}, {{"shape", PartialShape({3, 4})}});
  const Output size = g_.AddOp("Size", {x}, {}, "size");
  {
    auto after = g_.ControlScope({size.node});
    g_.AddOp("Source", {}, {{"shape", PartialShape({1})}}, "after");
  }
  EXPECT_EQ(ReadByUse(size), "Size");
  EXPECT_EQ(g_.graph().FindNode("after")->control_inputs()[0], g_.graph().FindNode("size"));
}

TEST_F(ConstantFoldingTest, ASizeThatItsDTypeCannotHoldIsLeftToTheStep) {
  const Output x = g_.AddOp("Source", {}, {{"shape", PartialShape({1 << 16, 1 << 16})}});
  EXPECT_EQ(ReadByUse(g_.AddOp("Size", {x})), "Size");
}

TEST_F(ConstantFoldingTest, ASizeThatItsDTypeHoldsIsAConstant) {
  const Output x = g_.AddOp("Source", {}, {{"shape", PartialShape({1 << 16, 1 << 16})}});
  EXPECT_EQ(ReadByUse(g_.AddOp("Size", {x}, {{"out_type", DType::kInt64}})), "Const");
}

// The size is known, but nobody may see it when the branch is not taken.
TEST_F(ConstantFoldingTest, WhatMayBeDeadIsNoConstant) {
  const Output x = g_.AddOp("Source", {}, {{"shape", PartialShape({3})}});
  Node* const branch = g_.AddNode("Switch", {x, Constant(Tensor::Scalar(true))});
  EXPECT_EQ(ReadByUse(g_.AddOp("Size", {branch->output(1)})), "Size");
}

TEST_F(ConstantFoldingTest, WhatHangsOnABranchByAControlEdgeMayBeDeadToo) {
  const Output x = g_.AddOp("Source", {}, {{"shape", PartialShape({3})}});
  Node* const branch = g_.AddNode("Switch", {x, Constant(Tensor::Scalar(true))});
  Output in_branch;
  {
    auto after = g_.ControlScope({branch});
    in_branch = g_.AddOp("Negate", {x});
  }
  EXPECT_EQ(ReadByUse(g_.AddOp("Size", {in_branch})), "Size");
}

}  // namespace
}  // namespace weir
