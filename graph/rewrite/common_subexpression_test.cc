#include "graph/rewrite/common_subexpression.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "graph/runtime_ops.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

class CommonSubexpressionTest : public testing::Test {
 protected:
  CommonSubexpressionTest() : g_(ops_) {
    Register({.name = "Const", .outputs = {"output: dtype"}, .attrs = {"value: tensor", "dtype: type"}});
    Register({.name = "Source", .outputs = {"output: float"}, .is_stateful = true});
    Register({.name = "Placeholder", .outputs = {"output: float"}});
    Register({.name = "Mul", .inputs = {"x: float", "y: float"}, .outputs = {"z: float"}});
    Register({.name = "Scale", .inputs = {"x: float"}, .outputs = {"y: float"}, .attrs = {"by: int"}});
    Register({.name = "Both", .inputs = {"x: float", "y: float"}});
  }

  void Register(OpDef def) {
    def.summary = "For tests.";
    def.infer_shapes = UnknownShape;
    def.gradient = NotDifferentiable;
    ASSERT_TRUE(ops_.Register(std::move(def)).ok());
  }

  Output Constant(float value, absl::string_view name) {
    return g_.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}}, name);
  }
  Output Scale(Output x, int by, absl::string_view name) {
    return g_.AddOp("Scale", {x}, {{"by", by}}, name);
  }

  // Merges, and gives the node of that name.
  Node* Merged(absl::string_view name) {
    EXPECT_TRUE(g_.ok()) << g_.status();
    const absl::Status status = MergeCommonSubexpressions(g_.graph());
    EXPECT_TRUE(status.ok()) << status;
    return g_.graph().FindNode(name);
  }

  OpRegistry ops_;
  GraphBuilder g_;
};

TEST_F(CommonSubexpressionTest, EqualNodesBecomeOneAndSoDoTheirUsers) {
  const Output x = g_.AddOp("Source", {}, {}, "x");
  const Output a = Scale(x, 2, "a"), b = Scale(x, 2, "b");
  const Output c = Scale(a, 3, "c"), d = Scale(b, 3, "d");
  g_.AddNode("Both", {c, d}, {}, "both");
  const Node* const both = Merged("both");
  EXPECT_EQ(g_.graph().num_nodes(), 4);
  EXPECT_EQ(both->input(0).name(), "c:0");
  EXPECT_EQ(both->input(1).name(), "c:0");
  EXPECT_EQ(g_.graph().FindNode("d"), nullptr);
}

// It would be on the default device, and the tensor cross once more.
TEST_F(CommonSubexpressionTest, AFetchIsColocatedWithTheNodeThatStays) {
  ASSERT_TRUE(RegisterRuntimeOps(ops_).ok());
  const Output x = g_.AddOp("Source", {}, {}, "x");
  Scale(x, 2, "a");
  const Output b = Scale(x, 2, "b");
  const auto fetch =
      g_.graph().AddNode({.op = kRetvalOp,
                          .name = "fetch",
                          .inputs = {b},
                          .attrs = {{"index", 0}, {"_class", std::vector<std::string>{"loc:@b"}}}});
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  EXPECT_THAT(Merged("fetch")->colocation_names(), testing::ElementsAre("a"));
}

TEST_F(CommonSubexpressionTest, EqualConstantsBecomeOne) {
  const Output one = Constant(1, "one"), uno = Constant(1, "uno"), two = Constant(2, "two");
  g_.AddNode("Both", {one, uno}, {}, "first");
  g_.AddNode("Both", {uno, two}, {}, "second");
  const Node* const second = Merged("second");
  EXPECT_EQ(second->input(0).name(), "one:0");
  EXPECT_EQ(second->input(1).name(), "two:0");
  EXPECT_EQ(g_.graph().FindNode("uno"), nullptr);
}

// All had one hash, and each was compared with all before it: this took minutes.
TEST_F(CommonSubexpressionTest, ManyConstantsAreToldApartByTheirStringsAndTheirLastNumbers) {
  constexpr int kEach = 60'000;
  for (int i = 0; i < kEach; ++i) {
    g_.AddOp("Const", {}, {{"value", Tensor::Scalar(absl::StrCat(i))}, {"dtype", DType::kString}});
    std::vector<float> numbers(40);
    numbers.back() = static_cast<float>(i);
    const Tensor tensor = Tensor::FromSpan<float>(Shape({40}), numbers);
    g_.AddOp("Const", {}, {{"value", tensor}, {"dtype", DType::kFloat32}});
  }
  Merged("none");
  EXPECT_EQ(g_.graph().num_nodes(), 2 * kEach);
}

TEST_F(CommonSubexpressionTest, EqualStringsBecomeOne) {
  const auto constant = [this](std::initializer_list<std::string> texts, absl::string_view name) {
    return g_.AddOp("Const", {}, {{"value", Tensor::Vector<std::string>(texts)}, {"dtype", DType::kString}},
                    name);
  };
  const std::string a(200, 'a');
  std::string b = a;
  b[100] = 'b';
  constant({a, ""}, "one");
  constant({a, ""}, "uno");
  constant({b, ""}, "two");
  EXPECT_EQ(Merged("uno"), nullptr);
  EXPECT_EQ(g_.graph().num_nodes(), 2);
}

TEST_F(CommonSubexpressionTest, WhatDiffersStays) {
  const Output x = g_.AddOp("Source", {}, {}, "x"), y = g_.AddOp("Source", {}, {}, "y");  // stateful
  const Output p = g_.AddOp("Placeholder", {}, {}, "p"), q = g_.AddOp("Placeholder", {}, {}, "q");
  const Output by_two = Scale(x, 2, "by_two"), by_three = Scale(x, 3, "by_three");  // an attr
  const Output other = Scale(y, 2, "other");                                        // an input
  Output elsewhere, later;
  {
    const auto device = g_.DeviceScope("/device:GPU:0");
    elsewhere = Scale(x, 2, "elsewhere");
  }
  {
    const auto after = g_.ControlScope({y.node});
    later = Scale(x, 2, "later");
  }
  g_.AddNode("Both", {p, q}, {}, "sources");
  g_.AddNode("Both", {by_two, by_three}, {}, "attrs");
  g_.AddNode("Both", {other, elsewhere}, {}, "devices");
  const int num_nodes = g_.graph().num_nodes();
  Merged("attrs");
  EXPECT_EQ(g_.graph().num_nodes(), num_nodes);
}

TEST_F(CommonSubexpressionTest, ControlEdgesFollowWhatStays) {
  const Output x = g_.AddOp("Source", {}, {}, "x");
  const Output a = Scale(x, 2, "a"), b = Scale(x, 2, "b");
  {
    const auto after = g_.ControlScope({a.node, b.node});
    g_.AddNode("Both", {x, x}, {}, "both");
  }
  const Node* const both = Merged("both");
  ASSERT_EQ(both->control_inputs().size(), 1);
  EXPECT_EQ(both->control_inputs()[0]->name(), "a");
}

}  // namespace
}  // namespace weir
