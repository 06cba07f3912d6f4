#include "graph/graph.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/rewrite/constant_folding.h"
#include "graph/rewrite/prune.h"
#include "graph/runtime_ops.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status ConstShape(ShapeInference& inference) {
  inference.set_output(0, inference.attr<Tensor>("value").shape());
  return absl::OkStatus();
}

absl::Status SourceShape(ShapeInference& inference) {
  inference.set_output(0, inference.attr<PartialShape>("shape"));
  return absl::OkStatus();
}

absl::Status ProductGradient(GradientContext& context) {
  context.set_input_grad(0, context.Add("Mul", {context.grad(0), context.input(1)}));
  context.set_input_grad(1, context.Add("Mul", {context.grad(0), context.input(0)}));
  return absl::OkStatus();
}

// A handful of ops, so that graph/ is tested without ops/.
class GraphTest : public testing::Test {
 protected:
  GraphTest() {
    const std::string numbers = "T: {float, double, int32}";
    Register({.name = "Const",
              .outputs = {"output: dtype"},
              .attrs = {"value: tensor", "dtype: type"},
              .infer_shapes = ConstShape});
    Register({.name = "Source",
              .outputs = {"output: dtype"},
              .attrs = {"dtype: type = float", "shape: shape = ?"},
              .infer_shapes = SourceShape});
    Register({.name = "Mul",
              .inputs = {"x: T", "y: T"},
              .outputs = {"z: T"},
              .attrs = {numbers},
              .infer_shapes = BroadcastBinaryShape,
              .gradient = ProductGradient});
    Register({.name = "AddN",
              .inputs = {"inputs: N * T"},
              .outputs = {"sum: T"},
              .attrs = {"N: int >= 1", numbers},
              .infer_shapes = UnchangedShape});
    Register({.name = "Window",
              .inputs = {"x: T"},
              .outputs = {"y: T"},
              .attrs = {numbers, "padding: {'SAME', 'VALID'}", "strides: list(int) >= 2 = [1, 1]"},
              .infer_shapes = UnchangedShape});
    EXPECT_TRUE(RegisterRuntimeOps(registry_).ok());
  }

  void Register(OpDef def) {
    if (def.gradient == nullptr) def.gradient = NotDifferentiable;
    const absl::Status status = registry_.Register(def);
    EXPECT_TRUE(status.ok()) << status;
  }

  static Output Source(GraphBuilder& g, PartialShape shape, absl::string_view name = "") {
    return g.AddOp("Source", {}, {{"shape", shape}}, name);
  }

  OpRegistry registry_;
};

TEST_F(GraphTest, RegisterRefusesIncompleteOps) {
  OpDef def = {.name = "Half", .inputs = {"x: T"}, .attrs = {"T: type"}, .infer_shapes = UnknownShape};
  EXPECT_THAT(registry_.Register(def).message(), AllOf(HasSubstr("Half"), HasSubstr("gradient")));
  def.gradient = NotDifferentiable;
  def.infer_shapes = nullptr;
  EXPECT_THAT(registry_.Register(def).message(), HasSubstr("shape function"));
  def.infer_shapes = UnknownShape;
  def.inputs = {"x: U"};
  EXPECT_THAT(registry_.Register(def).message(),
              AllOf(HasSubstr("x: U"), HasSubstr("neither a dtype nor an attr")));
  def.inputs = {"x: T"};
  def.attrs = {"T: type", "padding: {'SAME', 'VALID'} = 'NONE'"};
  EXPECT_THAT(registry_.Register(def).message(), AllOf(HasSubstr("padding"), HasSubstr("\"NONE\"")));
  def.attrs = {"T: type", "axis: int >= 1 = 0"};
  EXPECT_THAT(registry_.Register(def).message(), HasSubstr("axis"));
  def.attrs = {"T: type"};
  EXPECT_TRUE(registry_.Register(def).ok());
  EXPECT_EQ(registry_.Register(def).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(GraphTest, InfersTypesAttrsAndShapes) {
  GraphBuilder g(registry_);
  const Output z = g.AddOp("Mul", {Source(g, {-1, 3}), Source(g, {5, 1})});
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(z.dtype(), DType::kFloat32);
  EXPECT_EQ(z.shape().ToString(), "[5,3]");
  EXPECT_EQ(z.node->attr<DType>("T"), DType::kFloat32);
  const Output sum = g.AddOp("AddN", {std::vector<Output>{z, z, z}});
  EXPECT_EQ(sum.node->attr<int64_t>("N"), 3);
}

TEST_F(GraphTest, MinimaHoldForIntsAndForTheLengthsOfAllLists) {
  const auto status = [](const std::string& spec, AttrValue value) {
    OpDef def = {
        .name = "Bounded", .attrs = {spec}, .infer_shapes = NoOutputs, .gradient = NotDifferentiable};
    absl::StatusOr<Op> op = Op::Parse(def);
    return op.ok() ? op->FindAttr("a")->Validate(value) : op.status();
  };
  const auto allows_two_and_more = [&](const std::string& kind, auto element) {
    using List = std::vector<decltype(element)>;
    const std::string spec = "a: list(" + kind + ") >= 2";
    EXPECT_THAT(status(spec, List(1, element)).message(),
                AllOf(HasSubstr("attr a"), HasSubstr("has 1"), HasSubstr("at least 2")))
        << kind;
    EXPECT_TRUE(status(spec, List(2, element)).ok()) << status(spec, List(2, element));
    EXPECT_TRUE(status(spec, List(3, element)).ok()) << kind;
  };
  allows_two_and_more("int", int64_t{7});
  allows_two_and_more("float", 0.5f);
  allows_two_and_more("bool", true);
  allows_two_and_more("string", std::string("s"));
  allows_two_and_more("type", DType::kInt32);
  allows_two_and_more("shape", PartialShape({-1, 3}));
  allows_two_and_more("{'s', 't'}", std::string("s"));
  EXPECT_THAT(status("a: int >= 2", 1).message(), AllOf(HasSubstr("attr a is 1"), HasSubstr("at least 2")));
  EXPECT_TRUE(status("a: int >= 2", 2).ok());
  EXPECT_THAT(status("a: int >= -1", -2).message(), HasSubstr("at least -1"));
  EXPECT_TRUE(status("a: int >= -1", -1).ok());
  EXPECT_THAT(status("a: bool >= 1", true).message(), AllOf(HasSubstr("Bounded"), HasSubstr("no minimum")));
  EXPECT_THAT(status("a: list({'s', 't'})", std::vector<std::string>{"s", "u"}).message(),
              AllOf(HasSubstr("\"u\""), HasSubstr("'s', 't'")));
}

TEST_F(GraphTest, ErrorsAreStickyAndNameOpShapesAndLine) {
  GraphBuilder g(registry_);
  const Output a = Source(g, {2, 3}), b = Source(g, {4});
  const int line = __LINE__ + 1;
  const Output bad = g.AddOp("Mul", {a, b}, {}, "product");
  EXPECT_FALSE(bad);
  EXPECT_THAT(g.status().message(), AllOf(HasSubstr("Mul 'product': "), HasSubstr("[2,3]"), HasSubstr("[4]"),
                                          HasSubstr("graph_test.cc:" + std::to_string(line))));
  const std::string first(g.status().message());
  EXPECT_FALSE(g.AddOp("NoSuchOp", {bad}));
  EXPECT_EQ(g.status().message(), first);
  EXPECT_FALSE(g.Finish().ok());
}

TEST_F(GraphTest, BuildErrorsSayWhatWasFound) {
  const auto error = [&](auto build) {
    GraphBuilder g(registry_);
    build(g);
    return std::string(g.status().message());
  };
  EXPECT_THAT(error([](GraphBuilder& g) { g.AddOp("Mull", {}); }), HasSubstr("did you mean 'Mul'"));
  EXPECT_THAT(error([](GraphBuilder& g) { g.AddOp("Mlu", {}); }), HasSubstr("did you mean 'Mul'"));
  EXPECT_THAT(error([](GraphBuilder& g) { g.AddOp("Mul", {Source(g, {1})}); }),
              AllOf(HasSubstr("takes 2 inputs"), HasSubstr("got 1")));
  EXPECT_THAT(error([](GraphBuilder& g) {
                const Output x = Source(g, {1});
                g.AddOp("Mul", {x, InputArg(std::vector<Output>{x})});
              }),
              HasSubstr("input y is one tensor, got a list of 1"));
  EXPECT_THAT(error([](GraphBuilder& g) {
                g.AddOp("Mul", {Source(g, {1}, "a"), g.AddOp("Source", {}, {{"dtype", DType::kInt32}}, "b")});
              }),
              AllOf(HasSubstr("input y has T=int32"), HasSubstr("'b:0'"), HasSubstr("input x says float")));
  EXPECT_THAT(error([](GraphBuilder& g) {
                g.AddOp("Window", {Source(g, {1})}, {{"padding", "SOME"}});
              }),
              AllOf(HasSubstr("padding"), HasSubstr("\"SOME\""), HasSubstr("'SAME', 'VALID'")));
  EXPECT_THAT(error([](GraphBuilder& g) { g.AddOp("Window", {Source(g, {1})}); }), HasSubstr("attr padding"));
  EXPECT_THAT(error([](GraphBuilder& g) {
                g.AddOp("Window", {Source(g, {1})}, {{"padding", "SAME"}, {"pading", 1}});
              }),
              HasSubstr("did you mean 'padding'"));
  EXPECT_THAT(error([](GraphBuilder& g) { g.AddOp("Source", {}, {}, "a b"); }), HasSubstr("a node's name"));
  EXPECT_THAT(error([](GraphBuilder& g) { auto s = g.DeviceScope("/jub:x"); }), HasSubstr("/jub:x"));
}

// Ids of another graph mean other nodes here, or none.
TEST_F(GraphTest, NodesOfAnotherGraphAreRefused) {
  GraphBuilder other(registry_);
  Source(other, {1});
  const Output foreign = Source(other, {1}, "foreign");
  const auto error = [&](auto build) {
    GraphBuilder g(registry_);
    build(g, Source(g, {1}, "own"));
    EXPECT_EQ(g.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(g.status().message());
  };
  EXPECT_THAT(error([&](GraphBuilder& g, Output own) {
                g.AddOp("Mul", {own, foreign}, {}, "product");
              }),
              AllOf(HasSubstr("Mul 'product': "), HasSubstr("Source 'foreign' is a node of another graph")));
  EXPECT_THAT(error([&](GraphBuilder& g, Output own) {
                const auto before = g.ControlScope({foreign.node});
                g.AddOp("Mul", {own, own});
              }),
              HasSubstr("Source 'foreign' is a node of another graph"));
  EXPECT_THAT(error([&](GraphBuilder& g, Output) { const auto beside = g.ColocationScope(foreign.node); }),
              HasSubstr("Source 'foreign' is a node of another graph"));
  EXPECT_THAT(error([&](GraphBuilder& g, Output own) { AddGradients(g, {foreign}, {own}).IgnoreError(); }),
              HasSubstr("gradients: Source 'foreign' is a node of another graph"));
  EXPECT_THAT(error([&](GraphBuilder& g, Output own) { AddGradients(g, {own}, {foreign}).IgnoreError(); }),
              HasSubstr("gradients: Source 'foreign' is a node of another graph"));
}

TEST_F(GraphTest, ScopesNameAndPlaceLikeTensorFlow) {
  GraphBuilder g(registry_);
  Node* first = nullptr;
  {
    auto names = g.NameScope("dense");
    auto device = g.DeviceScope("/job:worker");
    auto inner = g.DeviceScope("/device:GPU:1");
    first = Source(g, {1}).node;
    EXPECT_EQ(first->name(), "dense/Source");
    EXPECT_EQ(first->requested_device().ToString(), "/job:worker/device:GPU:1");
    EXPECT_EQ(Source(g, {1}).node->name(), "dense/Source_1");
  }
  auto control = g.ControlScope({first});
  {
    auto names = g.NameScope("dense");
    Node* node = Source(g, {1}).node;
    EXPECT_EQ(node->name(), "dense_1/Source");
    EXPECT_THAT(node->control_inputs(), testing::ElementsAre(first));
  }
  auto colocation = g.ColocationScope(first);
  Node* const beside = Source(g, {1}, "x").node;
  EXPECT_THAT(beside->colocation_names(), testing::ElementsAre("dense/Source"));
  EXPECT_EQ(beside->requested_device().ToString(), "/job:worker/device:GPU:1");
}

TEST_F(GraphTest, NamesAvoidThoseOfNodesAddedPastTheBuilder) {
  GraphBuilder g(registry_);
  const auto import_node = [&](const std::string& name) {
    const absl::StatusOr<Node*> node = g.graph().AddNode({.op = "Source", .name = name});
    EXPECT_TRUE(node.ok()) << node.status();
  };
  import_node("Source");
  import_node("dense/w");
  import_node("dense/w_1");
  EXPECT_EQ(Source(g, {1}).node->name(), "Source_1");
  import_node("Source_2");
  EXPECT_EQ(Source(g, {1}).node->name(), "Source_3");
  auto names = g.NameScope("dense");
  EXPECT_EQ(Source(g, {1}, "w").node->name(), "dense/w_2");
  EXPECT_TRUE(g.ok()) << g.status();
}

// Names of tf.Graph().unique_name of TensorFlow 2.21.0 for the same sequence.
TEST_F(GraphTest, NamesAreUniqueWhateverTheirCase) {
  GraphBuilder g(registry_);
  std::vector<std::string> names;
  for (const char* name : {"a", "a", "A", "a_1", "A_1", "b_1", "b", "B", "b", "b_1"}) {
    names.push_back(g.UniqueName(name));
  }
  EXPECT_THAT(names,
              testing::ElementsAre("a", "a_1", "A_2", "a_1_1", "A_1_2", "b_1", "b", "B_2", "b_3", "b_1_1"));
}

TEST_F(GraphTest, AClearedControlScopeComesBack) {
  GraphBuilder g(registry_);
  Node* before = Source(g, {1}, "before").node;
  auto outer = g.ControlScope({before});
  {
    auto cleared = g.ClearControlScope();
    EXPECT_THAT(Source(g, {1}).node->control_inputs(), testing::IsEmpty());
    Node* inner = Source(g, {1}).node;
    auto again = g.ControlScope({inner});
    EXPECT_THAT(Source(g, {1}).node->control_inputs(), testing::ElementsAre(inner));
  }
  EXPECT_THAT(Source(g, {1}).node->control_inputs(), testing::ElementsAre(before));
}

// As tf.compat.v1.get_seed, where None is 0 and 0 of a random op means "random".
TEST_F(GraphTest, RandomSeedsAreTensorFlows) {
  const auto seeds = [this](std::optional<int64_t> of_graph, std::optional<int64_t> of_op, int num_before) {
    GraphBuilder g(registry_);
    if (of_graph) g.set_random_seed(*of_graph);
    for (int i = 0; i < num_before; ++i) g.NextRandomSeeds();
    const GraphBuilder::RandomSeeds result = g.NextRandomSeeds(of_op);
    return std::pair(result.seed, result.seed2);
  };
  EXPECT_EQ(seeds(std::nullopt, std::nullopt, 0), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(seeds(std::nullopt, 5, 0), std::pair(int64_t{87654321}, int64_t{5}));
  EXPECT_EQ(seeds(7, 5, 3), std::pair(int64_t{7}, int64_t{5}));
  EXPECT_EQ(seeds(7, std::nullopt, 3), std::pair(int64_t{7}, int64_t{3}));
  EXPECT_EQ(seeds(0, 0, 0), std::pair(int64_t{0}, int64_t{2147483647}));
  EXPECT_EQ(seeds(-1, -2, 0), std::pair(int64_t{2147483646}, int64_t{2147483645}));
  EXPECT_EQ(seeds(3000000000, 2147483647, 0), std::pair(int64_t{852516353}, int64_t{0}));
}

TEST_F(GraphTest, OutputsAreBounded) {
  Register({.name = "Parts",
            .outputs = {"parts: N * float"},
            .attrs = {"N: int >= 1"},
            .infer_shapes = UnknownShape});
  GraphBuilder g(registry_);
  EXPECT_EQ(g.AddNode("Parts", {}, {{"N", 3}})->num_outputs(), 3);
  EXPECT_EQ(g.AddNode("Parts", {}, {{"N", int64_t{1} << 40}}), nullptr);
  EXPECT_THAT(g.status().message(), HasSubstr("attr N asks for 1099511627776 outputs"));
}

TEST_F(GraphTest, FindsOutputsAndSuggestsNames) {
  GraphBuilder g(registry_);
  Source(g, {1}, "logits");
  EXPECT_EQ(g.graph().FindOutput("logits")->index, 0);
  EXPECT_EQ(g.graph().FindOutput("logits:1").status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(g.graph().FindOutput("logit:0").status().message(), HasSubstr("did you mean 'logits'"));
}

TEST_F(GraphTest, CyclesAreNamed) {
  GraphBuilder g(registry_);
  const Output x = Source(g, {1});
  const Output a = g.AddOp("Mul", {x, x}, {}, "a"), b = g.AddOp("Mul", {a, x}, {}, "b");
  ASSERT_TRUE(g.graph().TopologicalOrder().ok());
  g.graph().SetInput(a.node, 1, b);
  EXPECT_THAT(g.graph().TopologicalOrder().status().message(),
              AllOf(HasSubstr("Mul 'a'"), HasSubstr("Mul 'b'")));
}

TEST_F(GraphTest, TheOrderFollowsControlEdges) {
  GraphBuilder g(registry_);
  Node* first = Source(g, {1}, "first").node;
  Node* second = Source(g, {1}, "second").node;
  g.graph().AddControlInput(first, second);
  EXPECT_THAT(g.graph().TopologicalOrder().value(), testing::ElementsAre(second, first));
  g.graph().AddControlInput(second, first);
  EXPECT_THAT(g.graph().TopologicalOrder().status().message(),
              AllOf(HasSubstr("'first'"), HasSubstr("'second'")));
}

TEST_F(GraphTest, KeepOnlyForgetsNamesAndControlEdgesOfWhatItDrops) {
  GraphBuilder g(registry_);
  Node* dropped = Source(g, {1}, "dropped").node;
  Node* kept = Source(g, {1}, "kept").node;
  Node* after = Source(g, {1}, "after").node;
  g.graph().AddControlInput(after, dropped);
  g.graph().AddControlInput(after, kept);
  g.graph().KeepOnly({false, true, true});
  EXPECT_EQ(g.graph().FindNode("dropped"), nullptr);
  EXPECT_THAT(after->control_inputs(), testing::ElementsAre(kept));
  EXPECT_EQ(g.graph().node(after->id()), after);
}

TEST_F(GraphTest, PruneKeepsOnlyWhatASignatureNeeds) {
  GraphBuilder g(registry_);
  const Output x = Source(g, {2}, "x"), y = Source(g, {2}, "y");
  const Output xy = g.AddOp("Mul", {x, y}, {}, "xy"), square = g.AddOp("Mul", {xy, xy}, {}, "square");
  g.AddOp("Mul", {square, y}, {}, "unused");
  auto pruned = PruneToSignature(g.graph(), {xy}, {square}, {});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ((*pruned)->FindNode("x"), nullptr);
  EXPECT_EQ((*pruned)->FindNode("unused"), nullptr);
  ASSERT_NE((*pruned)->FindNode("square"), nullptr);
  EXPECT_EQ((*pruned)->FindNode("square")->input(0).node->op_name(), "_Arg");
  EXPECT_EQ((*pruned)->num_nodes(), 3);
  EXPECT_THAT(PruneToSignature(g.graph(), {xy}, {xy}, {}).status().message(),
              HasSubstr("both fed and fetched"));
  EXPECT_THAT(PruneToSignature(g.graph(), {x, x}, {xy}, {}).status().message(), HasSubstr("fed twice"));
}

// What is fed may have another value than the constant that a shape was inferred from.
TEST_F(GraphTest, ShapesThatCameFromAFedConstantAreInferredAnew) {
  Register({.name = "Fill",
            .inputs = {"dims: int32", "value: T"},
            .outputs = {"output: T"},
            .attrs = {"T: type"},
            .infer_shapes = [](ShapeInference& inference) {
              absl::StatusOr<PartialShape> shape = inference.InputAsShape(0);
              if (shape.ok()) inference.set_output(0, *shape);
              return shape.status();
            }});
  Register({.name = "Identity",
            .inputs = {"input: T"},
            .outputs = {"output: T"},
            .attrs = {"T: type"},
            .infer_shapes = UnchangedShape});
  Register({.name = "View",
            .inputs = {"tensor: T", "sizes: int32"},
            .outputs = {"output: T"},
            .attrs = {"T: type"},
            .infer_shapes = [](ShapeInference& inference) {
              absl::StatusOr<PartialShape> shape = inference.InputAsShape(1);
              if (shape.ok()) inference.set_output(0, *shape);
              return shape.status();
            }});
  GraphBuilder g(registry_);
  const Tensor sizes = Tensor::Vector<int32_t>({4, 3});
  const Output dims = g.AddOp("Const", {}, {{"value", sizes}, {"dtype", DType::kInt32}}, "dims");
  const Output one = g.AddOp("Const", {}, {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}});
  const Output filled = g.AddOp("Fill", {dims, one}, {}, "filled");
  const Output product = g.AddOp("Mul", {filled, filled}, {}, "product");
  const Output other = g.AddOp("Mul", {Source(g, {2}, "x"), one}, {}, "other");
  // Its sizes are not fed, but what passes them on is copied, too; and what comes after it is not inferred
  // anew.
  const Output known = g.AddOp("Const", {}, {{"value", sizes}, {"dtype", DType::kInt32}}, "known");
  const Output view = g.AddOp("View", {filled, g.AddOp("Identity", {known})}, {}, "view");
  const auto order = g.ControlScope({view.node});
  const Output after = g.AddOp("Mul", {one, one}, {}, "after");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_EQ(product.shape(), PartialShape({4, 3}));
  auto pruned = PruneToSignature(g.graph(), {}, {product}, {}).value();
  EXPECT_EQ(pruned->FindNode("product")->output_shape(0), PartialShape({4, 3}));
  pruned = PruneToSignature(g.graph(), {dims}, {product, other, view, after}, {}).value();
  EXPECT_EQ(pruned->FindNode("view")->output_shape(0), PartialShape({4, 3}));
  EXPECT_THAT(pruned->FindNode("after")->control_inputs(), ElementsAre(pruned->FindNode("view")));
  EXPECT_TRUE(pruned->TopologicalOrder().ok());
  EXPECT_EQ(pruned->FindNode("filled")->input(0).node->op_name(), "_Arg");
  EXPECT_FALSE(pruned->FindNode("filled")->output_shape(0).is_fully_known());
  EXPECT_FALSE(pruned->FindNode("product")->output_shape(0).is_fully_known());
  EXPECT_EQ(pruned->FindNode("other")->output_shape(0), PartialShape({2}));
}

// f(x, y) = (x * x, y * y) is called; the second call takes both outputs of the first.
TEST_F(GraphTest, OfTheResultsOfACallOnlyThoseAreComputedThatAreNeeded) {
  Register({.name = "IdentityN",
            .inputs = {"input: T"},
            .outputs = {"output: T"},
            .attrs = {"T: list(type)"},
            .infer_shapes = UnknownShape});
  GraphBuilder g(registry_);
  const auto call = [&g](Output x, Output y, const std::string& name) {
    const Output xx = g.AddOp("Mul", {x, x}, {}, name + "_xx"), yy = g.AddOp("Mul", {y, y}, {}, name + "_yy");
    return g.AddNode("IdentityN", {std::vector<Output>{xx, yy}}, {{kResultsOfCallAttr, true}}, name);
  };
  const Output before = Source(g, {2}, "before");
  Node* const first = [&] {
    const auto scope = g.ControlScope({before.node});
    return call(Source(g, {2}, "x"), Source(g, {3}, "y"), "first");
  }();
  Node* const second = call(first->output(0), first->output(1), "second");
  const Output sum = g.AddOp("Mul", {second->output(1), second->output(1)}, {}, "sum");
  ASSERT_TRUE(g.ok()) << g.status();

  auto pruned = PruneToSignature(g.graph(), {}, {sum}, {}).value();
  for (const char* name : {"x", "first_xx", "second_xx"}) EXPECT_EQ(pruned->FindNode(name), nullptr) << name;
  for (const char* name : {"y", "first_yy", "before"}) EXPECT_NE(pruned->FindNode(name), nullptr) << name;
  const Node* const left = pruned->FindNode("second")->input(0).node;
  EXPECT_EQ(left->op_name(), "Const");
  EXPECT_THAT(left->control_inputs(), testing::ElementsAre(pruned->FindNode("second_yy")));
  EXPECT_TRUE(pruned->TopologicalOrder().ok());

  pruned = PruneToSignature(g.graph(), {first->output(1)}, {sum}, {}).value();
  EXPECT_EQ(pruned->FindNode("first"), nullptr);
  pruned = PruneToSignature(g.graph(), {}, {sum}, {first}).value();
  EXPECT_NE(pruned->FindNode("first_xx"), nullptr) << "all of a target is run";
  EXPECT_EQ(pruned->FindNode("second_xx"), nullptr);
  pruned = PruneToSignature(g.graph(), {}, {first->output(0), sum}, {}).value();
  EXPECT_EQ(pruned->FindNode("first")->input(0).node, pruned->FindNode("first_xx"));
  EXPECT_EQ(pruned->FindNode("second")->input(0).node->op_name(), "Const");
}

// As TensorFlow has it: a fed placeholder has its value before the step begins, so nothing waits for it and
// it is not needed; any other fed node is still what a control edge asks for.
TEST_F(GraphTest, ControlEdgesFromFedPlaceholdersDoNotKeepThem) {
  Register({.name = "Placeholder",
            .outputs = {"output: dtype"},
            .attrs = {"dtype: type = float"},
            .infer_shapes = UnknownShape});
  GraphBuilder g(registry_);
  const Output before = Source(g, {2}, "before");
  const auto after = [&g](Node* node, auto build) {
    auto scope = g.ControlScope({node});
    return build();
  };
  const Output p = after(before.node, [&] { return g.AddOp("Placeholder", {}, {}, "p"); });
  const Output x = Source(g, {2}, "x"), xx = g.AddOp("Mul", {x, x}, {}, "xx");
  const Output after_p = after(p.node, [&] { return g.AddOp("Mul", {x, p}, {}, "after_p"); });
  const Output after_xx = after(xx.node, [&] { return g.AddOp("Mul", {x, x}, {}, "after_xx"); });
  ASSERT_TRUE(g.ok()) << g.status();

  auto pruned = PruneToSignature(g.graph(), {p}, {after_p}, {}).value();
  EXPECT_EQ(pruned->FindNode("p"), nullptr);
  EXPECT_EQ(pruned->FindNode("before"), nullptr);
  EXPECT_TRUE(pruned->FindNode("after_p")->control_inputs().empty());
  EXPECT_EQ(pruned->FindNode("after_p")->input(1).node->op_name(), "_Arg");

  pruned = PruneToSignature(g.graph(), {}, {after_p}, {}).value();
  ASSERT_NE(pruned->FindNode("p"), nullptr);
  EXPECT_THAT(pruned->FindNode("after_p")->control_inputs(), testing::ElementsAre(pruned->FindNode("p")));
  EXPECT_NE(pruned->FindNode("before"), nullptr);

  pruned = PruneToSignature(g.graph(), {p}, {after_p}, {p.node}).value();
  EXPECT_NE(pruned->FindNode("p"), nullptr) << "a target is run, fed or not";
  EXPECT_TRUE(pruned->FindNode("after_p")->control_inputs().empty());

  pruned = PruneToSignature(g.graph(), {xx}, {after_xx}, {}).value();
  EXPECT_THAT(pruned->FindNode("after_xx")->control_inputs(), testing::ElementsAre(pruned->FindNode("xx")));
}

// Its default may be there or not: only of a Placeholder TensorFlow drops the control edges.
TEST_F(GraphTest, ControlEdgesFromAFedDefaultKeepIt) {
  Register({.name = "PlaceholderWithDefault",
            .inputs = {"input: T"},
            .outputs = {"output: T"},
            .attrs = {"T: type"},
            .infer_shapes = UnknownShape});
  GraphBuilder g(registry_);
  const Output x = Source(g, {2}, "x"), p = g.AddOp("PlaceholderWithDefault", {x}, {}, "p");
  auto after_p = g.ControlScope({p.node});
  const Output y = g.AddOp("Mul", {x, x}, {}, "y");
  const auto pruned = PruneToSignature(g.graph(), {p}, {y}, {}).value();
  ASSERT_NE(pruned->FindNode("p"), nullptr);
  EXPECT_THAT(pruned->FindNode("y")->control_inputs(), testing::ElementsAre(pruned->FindNode("p")));
}

TEST_F(GraphTest, AFeedIsWhereItsNodeAskedToBe) {
  GraphBuilder g(registry_);
  Output x;
  {
    auto device = g.DeviceScope("/job:worker/task:1/device:GPU:0");
    x = Source(g, {2}, "x");
  }
  const Output y = g.AddOp("Mul", {x, x}, {}, "y");
  const auto pruned = PruneToSignature(g.graph(), {x}, {y}, {}).value();
  const Node* const arg = pruned->FindNode("y")->input(0).node;
  EXPECT_EQ(arg->op_name(), "_Arg");
  EXPECT_EQ(arg->requested_device().ToString(), "/job:worker/task:1/device:GPU:0");
}

TEST_F(GraphTest, FoldingComputesConstantsOnceAndDropsWhatNothingNeeds) {
  GraphBuilder g(registry_);
  const auto constant = [&g](float value) {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}});
  };
  const Output x = Source(g, {2}, "x");
  const Output six = g.AddOp("Mul", {constant(2), constant(3)}, {}, "six");
  const Output y = g.AddOp("Mul", {x, g.AddOp("Mul", {six, six}, {}, "square")}, {}, "y");
  const Output kept = g.AddOp("Mul", {six, constant(0)}, {}, "fails");
  const Output sum = g.AddOp("AddN", {std::vector<Output>{y, kept}}, {}, "sum");
  auto pruned = PruneToSignature(g.graph(), {}, {sum}, {}).value();
  const auto evaluate = [](const Node& node,
                           absl::Span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    if (node.name() == "fails") return absl::InternalError("not now");
    return std::vector<Tensor>{Tensor::Scalar(in[0].scalar<float>() * in[1].scalar<float>())};
  };
  ASSERT_TRUE(FoldConstants(*pruned, evaluate).ok());
  EXPECT_EQ(pruned->FindNode("six"), nullptr);
  const Node& factor = *pruned->FindNode("y")->input(1).node;
  EXPECT_EQ(factor.op_name(), "Const");
  EXPECT_EQ(factor.attr<Tensor>("value").scalar<float>(), 36);
  ASSERT_NE(pruned->FindNode("fails"), nullptr);
  EXPECT_EQ(pruned->FindNode("fails")->input(0).node->attr<Tensor>("value").scalar<float>(), 6);
  EXPECT_TRUE(pruned->TopologicalOrder().ok());
}

TEST_F(GraphTest, CloneIsEqualAndIndependent) {
  GraphBuilder g(registry_);
  const Output x = Source(g, {2}, "x");
  const Output y = g.AddOp("Mul", {x, x}, {}, "y");
  g.graph().AddControlInput(y.node, x.node);
  g.graph().variables().push_back({.variable_name = "v"});
  g.graph().collections()["losses"] = {"y:0"};
  const std::unique_ptr<Graph> clone = g.graph().Clone();
  Node* copy = clone->FindNode("y");
  ASSERT_NE(copy, nullptr);
  EXPECT_NE(copy, y.node);
  EXPECT_EQ(copy->input(0).node, clone->FindNode("x"));
  EXPECT_THAT(copy->control_inputs(), testing::ElementsAre(clone->FindNode("x")));
  ASSERT_EQ(clone->variables().size(), 1u);
  EXPECT_EQ(clone->variables()[0].variable_name, "v");
  EXPECT_EQ(clone->collections(), g.graph().collections());
  clone->SetAttr(copy, "_mark", 1);
  EXPECT_EQ(y.node->FindAttr("_mark"), nullptr);
}

TEST_F(GraphTest, GradientsSumPathsAndStopWhereNothingDepends) {
  GraphBuilder g(registry_);
  const Output x = Source(g, Shape(), "x"), y = Source(g, Shape(), "y"), other = Source(g, Shape(), "other");
  const Output z = g.AddOp("Mul", {g.AddOp("Mul", {x, x}), y});
  auto grads = AddGradients(g, {z}, {x, y, other});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ((*grads)[0].node->op_name(), "AddN");
  EXPECT_EQ((*grads)[1].node->op_name(), "Mul");
  EXPECT_FALSE((*grads)[2]);
}

TEST_F(GraphTest, AYGivenTwiceCountsTwice) {
  GraphBuilder g(registry_);
  const Output x = Source(g, Shape(), "x"), y = g.AddOp("Mul", {x, x}, {}, "y");
  auto grads = AddGradients(g, {y, y}, {y, x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  // Of y itself: two ones, summed.
  ASSERT_EQ((*grads)[0].node->op_name(), "AddN");
  ASSERT_EQ((*grads)[0].node->num_inputs(), 2);
  for (const Output& seed : (*grads)[0].node->inputs()) {
    EXPECT_EQ(seed.node->attr<Tensor>("value").scalar<float>(), 1);
  }
  // And that sum is what flows on.
  EXPECT_EQ((*grads)[1].node->input(0).node->input(0), (*grads)[0]);
}

TEST_F(GraphTest, AYWithoutAGradientGetsOnes) {
  GraphBuilder g(registry_);
  const Output x = Source(g, Shape(), "x"), grad = Source(g, Shape(), "grad");
  const Output y = g.AddOp("Mul", {x, x}, {}, "y"), z = g.AddOp("Mul", {x, x}, {}, "z");
  auto grads = AddGradients(g, {y, z}, {y, z}, {grad, Output()});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ((*grads)[0], grad);
  ASSERT_TRUE((*grads)[1]);
  EXPECT_EQ((*grads)[1].node->attr<Tensor>("value").scalar<float>(), 1);
}

// The device that the author asked for, not a colocation: the placer may put the two apart.
TEST_F(GraphTest, GradientsAskForTheDevicesOfTheirForwardNodes) {
  GraphBuilder g(registry_);
  const Output x = Source(g, Shape(), "x");
  Output y, z;
  {
    auto device = g.DeviceScope("/job:worker/task:1/device:GPU:0");
    y = g.AddOp("Mul", {x, x}, {}, "y");
  }
  z = g.AddOp("Mul", {y, y}, {}, "z");
  auto device = g.DeviceScope("/job:chief");
  ASSERT_TRUE(AddGradients(g, {z}, {x}).ok()) << g.status();
  const auto requested = [&g](absl::string_view name) {
    return g.graph().LookupNode(name).value()->requested_device().ToString();
  };
  EXPECT_EQ(requested("gradients/y_grad/Mul"), "/job:worker/task:1/device:GPU:0");
  EXPECT_TRUE(g.graph().FindNode("gradients/y_grad/Mul")->colocation_names().empty());
  EXPECT_EQ(requested("gradients/z_grad/Mul"), "") << "as its forward node, whatever the scope around";
  EXPECT_EQ(requested("gradients/Const"), "/job:chief") << "the ones that the pass begins with";
  EXPECT_EQ(requested("gradients/AddN"), "/job:chief") << "sums of several paths";
}

TEST_F(GraphTest, ConstantsOfGradientsHaveTheDTypeAskedFor) {
  GraphBuilder g(registry_);
  GradientContext context(g, *Source(g, {1}).node, {});
  for (int value = 1; value < 256; ++value) {
    const DType dtype = static_cast<DType>(value);
    if (!IsKnownDType(value) || !IsPlainBytes(dtype)) continue;
    const Output one = context.Constant(dtype, 1);
    ASSERT_TRUE(one) << dtype << ": " << g.status();
    EXPECT_EQ(one.dtype(), dtype);
    const std::string text = one.node->attr<Tensor>("value").ToString();
    EXPECT_EQ(text, dtype == DType::kBool ? "bool[] {true}"
                    : IsComplex(dtype)    ? absl::StrCat(DTypeName(dtype), "[] {(1,0)}")
                                          : absl::StrCat(DTypeName(dtype), "[] {1}"));
  }
  EXPECT_EQ(context.Constant(DType::kInt16, -32768).node->attr<Tensor>("value").scalar<int16_t>(), -32768);
  EXPECT_EQ(context.Constant(DType::kFloat32, 0.5).node->attr<Tensor>("value").scalar<float>(), 0.5f);
}

TEST_F(GraphTest, ConstantsOfGradientsThatNoDTypeHoldsAreErrors) {
  const auto error = [this](DType dtype, double value) {
    GraphBuilder g(registry_);
    GradientContext context(g, *Source(g, {1}).node, {});
    EXPECT_FALSE(context.Constant(dtype, value)) << dtype;
    return std::string(g.status().message());
  };
  EXPECT_THAT(error(DType::kString, 1), AllOf(HasSubstr("string"), HasSubstr("constant 1")));
  EXPECT_THAT(error(DType::kResource, 1), HasSubstr("resource"));
  EXPECT_THAT(error(DType::kUint8, -1), AllOf(HasSubstr("uint8"), HasSubstr("-1")));
  EXPECT_THAT(error(DType::kInt8, 128), HasSubstr("int8"));
  EXPECT_THAT(error(DType::kInt64, 9.3e18), HasSubstr("int64"));
  EXPECT_THAT(error(DType::kInt32, 0.5), HasSubstr("0.5"));
}

TEST_F(GraphTest, GradientOfIntegersIsRefused) {
  GraphBuilder g(registry_);
  const Output x = g.AddOp("Source", {}, {{"dtype", DType::kInt32}}, "count");
  EXPECT_THAT(AddGradients(g, {x}, {x}).status().message(),
              AllOf(HasSubstr("'count:0'"), HasSubstr("int32")));
}

TEST(SlideWindowTest, FollowsTensorFlowsPaddingRules) {
  const auto size = [](int64_t input, int64_t window, int64_t stride, const char* padding) {
    return SlideWindow(input, window, stride, 1, padding)->size;
  };
  EXPECT_EQ(size(28, 5, 1, "SAME"), 28);
  EXPECT_EQ(size(28, 5, 1, "VALID"), 24);
  EXPECT_EQ(size(7, 3, 2, "SAME"), 4);
  EXPECT_EQ(size(-1, 3, 2, "SAME"), -1);
  EXPECT_EQ(SlideWindow(5, 2, 2, 1, "SAME")->padding_after, 1);
  EXPECT_THAT(SlideWindow(2, 3, 1, 1, "VALID").status().message(), HasSubstr("does not fit"));
  EXPECT_FALSE(SlideWindow(2, 3, 0, 1, "VALID").ok());
}

}  // namespace
}  // namespace weir
