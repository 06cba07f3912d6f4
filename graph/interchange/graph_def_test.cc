#include "graph/interchange/graph_def.h"

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "graph/graph_builder.h"
#include "graph/interchange/attr_value_proto.h"
#include "graph/interchange/meta_graph.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/proto/meta_graph.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string TestFile(const std::string& name) {
  std::ifstream file("graph/interchange/testdata/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

absl::Status AnyShape(ShapeInference&) { return absl::OkStatus(); }

void Register(OpRegistry* ops, const std::string& name, std::vector<std::string> inputs,
              std::vector<std::string> outputs, std::vector<std::string> attrs) {
  const absl::Status status = ops->Register({.name = name,
                                             .inputs = std::move(inputs),
                                             .outputs = std::move(outputs),
                                             .attrs = std::move(attrs),
                                             .infer_shapes = AnyShape,
                                             .gradient = NotDifferentiable});
  ASSERT_TRUE(status.ok()) << status;
}

// A few ops under TensorFlow's names.
const OpRegistry& SomeOps() {
  static const OpRegistry* const ops = [] {
    auto* registry = new OpRegistry;
    Register(registry, "Const", {}, {"output: dtype"}, {"value: tensor", "dtype: type"});
    Register(registry, "Placeholder", {}, {"output: dtype"}, {"dtype: type", "shape: shape = ?"});
    Register(registry, "NoOp", {}, {}, {});
    Register(registry, "_Recv", {}, {"tensor: T"}, {"T: type"});
    Register(registry, "PlaceholderWithDefault", {"input: dtype"}, {"output: dtype"},
             {"dtype: type", "shape: shape"});
    Register(registry, "Identity", {"input: T"}, {"output: T"}, {"T: type"});
    Register(registry, "Add", {"x: T", "y: T"}, {"z: T"}, {"T: type"});
    Register(registry, "Split", {"value: T"}, {"output: num * T"}, {"num: int >= 1", "T: type"});
    Register(registry, "Pack", {"values: N * T"}, {"output: T"}, {"N: int >= 1", "T: type", "axis: int = 0"});
    Register(registry, "IdentityN", {"input: T"}, {"output: T"}, {"T: list(type)"});
    Register(registry, "Merge", {"inputs: N * T"}, {"output: T", "value_index: int32"},
             {"T: type", "N: int >= 1"});
    Register(registry, "Enter", {"data: T"}, {"output: T"}, {"T: type", "frame_name: string"});
    Register(registry, "NextIteration", {"data: T"}, {"output: T"}, {"T: type"});
    return registry;
  }();
  return *ops;
}

std::string Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest = "attr { key: 'T' value { type: DT_FLOAT } }") {
  std::string text = absl::StrCat("node { name: '", name, "' op: '", op, "' ");
  for (const std::string& input : inputs) absl::StrAppend(&text, "input: '", input, "' ");
  return absl::StrCat(text, rest, " }\n");
}

const char kFloatType[] = "attr { key: 'dtype' value { type: DT_FLOAT } }";

absl::StatusOr<std::unique_ptr<Graph>> FromText(const std::string& text, const ImportOptions& options = {}) {
  return GraphFromGraphDefText(text, SomeOps(), options);
}

std::string ErrorOf(const std::string& text) {
  const auto graph = FromText(text);
  return graph.ok() ? "no error" : std::string(graph.status().message());
}

TEST(GraphDefTest, NodesComeInAnyOrder) {
  const auto graph = FromText(Node("c", "Add", {"b", "a:0", "^d"}) + Node("b", "Identity", {"a"}) +
                              Node("a", "Placeholder", {}, kFloatType) + Node("d", "NoOp", {}, ""));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const weir::Node* c = (*graph)->FindNode("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->input(0).name(), "b:0");
  EXPECT_EQ(c->input(1).name(), "a:0");
  EXPECT_THAT(c->control_inputs(), ElementsAre((*graph)->FindNode("d")));
}

TEST(GraphDefTest, DevicesDefaultsAndForeignAttrs) {
  const auto graph = FromText(
      Node("a", "Placeholder", {}, absl::StrCat(kFloatType, " device: '/job:ps/task:1/device:GPU:*'")) +
      Node("p", "Pack", {"a", "a"},
           "attr { key: 'N' value { i: 2 } } attr { key: 'added_later' value { b: false } } "
           "attr { key: '_note' value { func { name: 'f' attr { key: 'x' value { b: true } } } } } "
           "attr { key: '_class' value { list { s: 'loc:@a' } } } attr { key: '_output_shapes' value { list "
           "{} } }"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->FindNode("a")->requested_device().ToString(), "/job:ps/task:1/device:GPU:*");
  const weir::Node* pack = (*graph)->FindNode("p");
  EXPECT_EQ(pack->attr<int64_t>("axis"), 0);
  EXPECT_EQ(pack->attr<DType>("T"), DType::kFloat32);
  EXPECT_THAT(pack->colocation_names(), ElementsAre("a"));
  EXPECT_EQ(pack->FindAttr("_output_shapes"), nullptr);
  EXPECT_EQ(pack->FindAttr("added_later"), nullptr);

  // Defaults and devices are written out, and everything comes back.
  const auto text = GraphDefText(**graph);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("key: \"axis\""));
  const auto back = FromText(*text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*GraphDefText(**back), *text);
}

TEST(GraphDefTest, AssignedDevicesAreWrittenOnRequest) {
  const auto graph = FromText(Node("a", "Placeholder", {}, absl::StrCat(kFloatType, " device: '/job:ps'")));
  ASSERT_TRUE(graph.ok());
  (*graph)->SetAssignedDevice((*graph)->node(0), MakeDeviceName("ps", 3, "CPU", 0));
  EXPECT_THAT(*GraphDefText(**graph), HasSubstr("device: \"/job:ps\""));
  EXPECT_THAT(*GraphDefText(**graph, {.use_assigned_devices = true}),
              HasSubstr("device: \"/job:ps/replica:0/task:3/device:CPU:0\""));
}

TEST(GraphDefTest, LoopsCloseThroughNextIteration) {
  const auto graph = FromText(Node("m", "Merge", {"e", "n"}, "attr { key: 'N' value { i: 2 } }") +
                              Node("n", "NextIteration", {"i"}) + Node("i", "Identity", {"m"}) +
                              Node("a", "Placeholder", {}, kFloatType) +
                              Node("e", "Enter", {"a"}, "attr { key: 'frame_name' value { s: 'f' } }"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->FindNode("m")->input(1).name(), "n:0");
  EXPECT_TRUE((*graph)->TopologicalOrder().ok());
  // The same graph again, from its own export.
  const auto back = GraphFromGraphDefBytes(*GraphDefBytes(**graph), SomeOps());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ((*back)->FindNode("m")->input(1).name(), "n:0");
}

// Each back edge was looked for among all inputs of the Merge: this took minutes.
TEST(GraphDefTest, AMergeMayHaveManyInputs) {
  constexpr int kEach = 400'000;
  std::vector<std::string> inputs(kEach, "e");
  inputs.resize(2 * kEach, "n");
  const std::string num = absl::StrCat(
      "attr { key: 'T' value { type: DT_FLOAT } } attr { key: 'N' value { i: ", 2 * kEach, " } }");
  const auto graph = FromText(Node("a", "Placeholder", {}, kFloatType) +
                              Node("e", "Enter", {"a"}, "attr { key: 'frame_name' value { s: 'f' } }") +
                              Node("m", "Merge", inputs, num) + Node("n", "NextIteration", {"m"}));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->FindNode("m")->input(2 * kEach - 1).name(), "n:0");
}

TEST(GraphDefTest, CyclesNameTheirNodes) {
  EXPECT_EQ(ErrorOf(Node("x", "Placeholder", {}, kFloatType) + Node("a", "Add", {"x", "c"}) +
                    Node("b", "Identity", {"a"}) + Node("c", "Identity", {"b"}) +
                    Node("behind", "Identity", {"c"})),
            "the graph has a cycle: a -> b -> c -> a");
  EXPECT_THAT(ErrorOf(Node("a", "Identity", {"a"})), HasSubstr("a -> a"));
  EXPECT_THAT(ErrorOf(Node("a", "NoOp", {"^b"}, "") + Node("b", "NoOp", {"^a"}, "")), HasSubstr("cycle"));
  // Only Merge may take what NextIteration hands back.
  EXPECT_THAT(ErrorOf(Node("i", "Identity", {"n"}) + Node("n", "NextIteration", {"i"})), HasSubstr("cycle"));
}

TEST(GraphDefTest, WhatDoesNotFitIsNamed) {
  const std::string a = Node("alpha", "Placeholder", {}, kFloatType);
  EXPECT_EQ(ErrorOf(a + Node("b", "Identity", {"alphaa"})),
            "Identity 'b': its input 'alphaa' is no node of the graph; did you mean 'alpha'?");
  EXPECT_THAT(ErrorOf(a + Node("b", "Identitty", {"alpha"})),
              HasSubstr("Identitty 'b': no op is named 'Identitty'; did you mean 'Identity'"));
  EXPECT_THAT(ErrorOf(a + a), HasSubstr("already has a node"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Identity", {"alpha:1"})), HasSubstr("'alpha:1'"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Identity", {"alpha:x"})), HasSubstr("names no output"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Identity", {"alpha:-1"})), HasSubstr("names no output"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Add", {"alpha"})), HasSubstr("Add 'b': has 1 inputs"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Pack", {"alpha"}, "attr { key: 'N' value { i: 1000000000000 } }")),
              HasSubstr("has 1 inputs"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Pack", {"alpha"}, "attr { key: 'N' value { i: -1 } }")),
              HasSubstr("has 1 inputs"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Identity", {"alpha"}, "attr { key: 'T' value { type: DT_INT32 } }")),
              HasSubstr("Identity 'b'"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Identity", {"alpha"}, "device: '/job:'")), HasSubstr("Identity 'b'"));
  EXPECT_THAT(ErrorOf(a + Node("b", "Identity", {"alpha"}, "attr { key: 'new' value { b: true } }")),
              HasSubstr("has no attr 'new'"));
  EXPECT_THAT(ErrorOf(Node("b", "Placeholder", {}, "attr { key: 'dtype' value { type: DT_FLOAT4_E2M1FN } }")),
              HasSubstr("attr dtype cannot be read: the type DT_FLOAT4_E2M1FN, which Weir lacks"));
  EXPECT_THAT(ErrorOf(Node("bad name", "NoOp", {}, "")), HasSubstr("bad name"));
  EXPECT_THAT(ErrorOf("node { nam: 'x' }"), HasSubstr("line 1, column"));
  EXPECT_THAT(ErrorOf("versions { min_consumer: 100000 }"), HasSubstr("consumer of version 100000"));
  EXPECT_THAT(ErrorOf("versions { bad_consumers: [1, 2474] }"),
              HasSubstr("refuses consumers of version 2474"));
  EXPECT_FALSE(GraphFromGraphDefBytes("garbage", SomeOps()).ok());
}

// Its kernel would trust an attr that only the partitioner writes.
TEST(GraphDefTest, OpsOfTheRuntimeAreForItsOwnMessages) {
  const std::string text =
      Node("r", "_Recv", {}, "attr { key: 'T' value { type: DT_FLOAT } }") + Node("i", "Identity", {"r"});
  EXPECT_THAT(ErrorOf(text), HasSubstr("_Recv 'r': its op is one that only the runtime itself may use"));
  std::vector<SkippedNode> skipped;
  EXPECT_TRUE(FromText(text, {.skipped = &skipped}).ok());
  EXPECT_EQ(skipped.size(), 2u);
  EXPECT_TRUE(FromText(text, {.lets_runtime_ops_in = true}).ok());
}

TEST(GraphDefTest, DeepNestingIsRefused) {
  std::string text, end;
  for (int i = 0; i < 100000; ++i) {
    text += "func { attr { key: 'x' value { ";
    end += "} } }";
  }
  EXPECT_THAT(ErrorOf("node { attr { key: 'a' value { " + text + end + " } } }"),
              HasSubstr("does not parse"));
}

TEST(GraphDefTest, UnknownOpsMayBeLeftOut) {
  std::vector<SkippedNode> skipped;
  const auto graph =
      FromText(Node("x", "Foo", {}) + Node("y", "Identity", {"x"}) + Node("z", "NoOp", {"^y"}, "") +
                   Node("a", "Placeholder", {}, kFloatType) + Node("b", "Identity", {"a"}),
               {.skipped = &skipped});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->num_nodes(), 2);
  ASSERT_THAT(skipped, SizeIs(3));
  EXPECT_EQ(skipped[2].name, "z");
  EXPECT_THAT(std::string(skipped[2].reason.message()), StartsWith("Foo 'x': no op is named 'Foo'"));
}

// Names that may have been meant are looked for among those of all ops, and a graph may have any number of
// unknown ones.
TEST(GraphDefTest, OnlySoManyUnknownOpsAreComparedWithAllOthers) {
  constexpr int kFew = 16, kMany = 40;
  std::string text;
  for (int i = 0; i < kMany; ++i) {
    for (const char* node : {"first", "second"}) {
      text += Node(absl::StrCat(node, i), absl::StrCat("Identity", i), {});
    }
  }
  std::vector<SkippedNode> skipped;
  ASSERT_TRUE(FromText(text, {.skipped = &skipped}).ok());
  ASSERT_THAT(skipped, SizeIs(2 * kMany));
  for (int i = 0; i < 2 * kMany; ++i) {
    const std::string reason(skipped[i].reason.message());
    EXPECT_THAT(reason, HasSubstr(absl::StrCat("no op is named 'Identity", i / 2, "'")));
    EXPECT_EQ(absl::StrContains(reason, "did you mean 'Identity'"), i / 2 < kFew) << reason;
  }
}

TEST(GraphDefTest, ANodeIsBehindEachNodeOnce) {
  const auto graph = FromText(Node("a", "NoOp", {}, "") + Node("b", "NoOp", {}, "") +
                              Node("c", "NoOp", {"^b", "^a", "^b", "^a"}, ""));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT((*graph)->FindNode("c")->control_inputs(),
              ElementsAre((*graph)->FindNode("b"), (*graph)->FindNode("a")));
}

// What TensorFlow's own inference let pass is for the kernel to refuse.
TEST(GraphDefTest, ANodeThatOnlyTheShapesOfItsInputsSpeakAgainstIsNotLeftOut) {
  OpRegistry ops;
  ASSERT_TRUE(ops.Register({.name = "Placeholder",
                            .outputs = {"output: dtype"},
                            .attrs = {"dtype: type", "shape: shape = ?"},
                            .infer_shapes = [](ShapeInference& s) -> absl::Status {
                              s.set_output(0, s.attr<PartialShape>("shape"));
                              return absl::OkStatus();
                            },
                            .gradient = NotDifferentiable})
                  .ok());
  Register(&ops, "PlaceholderWithDefault", {"input: dtype"}, {"output: dtype"},
           {"dtype: type", "shape: shape"});
  ASSERT_TRUE(ops.Register({.name = "Square",
                            .inputs = {"x: N * float"},
                            .outputs = {"y: float"},
                            .attrs = {"N: int >= 1"},
                            .infer_shapes = [](ShapeInference& s) -> absl::Status {
                              if (s.attr<int64_t>("N") == 2) return absl::InvalidArgumentError("two");
                              s.set_output(0, PartialShape());
                              return s.WithRank(0, 2).status();
                            },
                            .gradient = NotDifferentiable})
                  .ok());
  const std::string shape = "attr { key: 'shape' value { shape { dim { size: 3 } } } }";
  const std::string text = Node("a", "Placeholder", {}, kFloatType + shape) +
                           Node("y", "Square", {"a"}, "attr { key: 'N' value { i: 1 } }") +
                           Node("z", "Square", {"a", "a"}, "attr { key: 'N' value { i: 2 } }") +
                           Node("w", "Square", {"a:7"}, "attr { key: 'N' value { i: 1 } }");
  EXPECT_TRUE(absl::IsInvalidArgument(GraphFromGraphDefText(text, ops).status()));
  std::vector<SkippedNode> skipped;
  const auto graph = GraphFromGraphDefText(text, ops, {.skipped = &skipped});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const weir::Node* const y = (*graph)->FindNode("y");
  ASSERT_NE(y, nullptr);
  ASSERT_EQ(y->input(0).node->op_name(), "PlaceholderWithDefault");
  EXPECT_FALSE(y->input(0).shape().has_rank());
  EXPECT_EQ(y->input(0).node->input(0).name(), "a:0");
  ASSERT_THAT(skipped, SizeIs(2));
  EXPECT_EQ(skipped[0].name, "z");
  EXPECT_EQ(skipped[1].name, "w");
  EXPECT_EQ((*graph)->num_nodes(), 3);

  ImportOptions full{.skipped = &skipped};
  full.admit_tensors = [](int64_t num_bytes) {
    return num_bytes == 0 ? absl::OkStatus() : absl::ResourceExhaustedError("full");
  };
  EXPECT_TRUE(absl::IsResourceExhausted(GraphFromGraphDefText(text, ops, full).status()));
}

TEST(GraphDefTest, ALoopThatNothingEntersMayBeLeftOut) {
  std::vector<SkippedNode> skipped;
  const auto graph = GraphFromGraphDefText(Node("m", "Merge", {"n"}) + Node("n", "NextIteration", {"m"}),
                                           SomeOps(), {.skipped = &skipped});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(skipped, SizeIs(2));
}

// Whatever is wrong with a node; loops too, whose start is added before their end turns out to be missing.
TEST(GraphDefTest, NodesThatCannotBeReadMayBeLeftOut) {
  std::vector<SkippedNode> skipped;
  const auto graph =
      FromText(Node("a", "Placeholder", {}, kFloatType) +
                   Node("odd", "Identity", {"a"}, "attr { key: 'T' value { type: DT_INT64 } }") +
                   Node("device", "Identity", {"a"}, std::string("device: '/nonsense:x:y' ")) +
                   Node("nowhere", "Identity", {"missing"}) + Node("input", "Identity", {"a:x"}) +
                   Node("type", "Placeholder", {}, "attr { key: 'dtype' value { type: 77 } }") +
                   Node("user", "Identity", {"type"}) +
                   Node("enter", "Enter", {"a"}, "attr { key: 'frame_name' value { s: 'f' } }") +
                   Node("merge", "Merge", {"enter", "next"}) + Node("body", "Identity", {"merge"}) +
                   Node("bad", "Split", {"body"}, "") + Node("next", "NextIteration", {"bad"}) +
                   Node("fine", "Identity", {"a"}),
               {.skipped = &skipped});
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<std::string> names;
  for (const SkippedNode& node : skipped) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("odd", "device", "nowhere", "input", "type", "user", "merge", "body", "bad",
                                 "next"));
  EXPECT_EQ((*graph)->num_nodes(), 3);
  EXPECT_NE((*graph)->FindNode("fine"), nullptr);
  // The graph remembers the reasons, for look-ups and for what is imported later...
  EXPECT_EQ((*graph)->LookupNode("user").status(), skipped[5].reason);
  EXPECT_EQ((*graph)->FindOutput("user:0").status(), skipped[5].reason);
  tensorflow::GraphDef more;
  *more.add_node() = [] {
    tensorflow::NodeDef node;
    node.set_name("later");
    node.set_op("Identity");
    node.add_input("user");
    return node;
  }();
  EXPECT_EQ(ImportGraphDef(more, {}, graph->get()).message(),
            absl::StrCat("Identity 'later': ", skipped[5].reason.message()));
  more.mutable_node(0)->set_name("user");
  more.mutable_node(0)->set_input(0, "a");
  EXPECT_EQ(ImportGraphDef(more, {}, graph->get()).code(), absl::StatusCode::kAlreadyExists);
  // ... and the export has the nodes again.
  tensorflow::GraphDef exported;
  ASSERT_TRUE(ExportGraphDef(**graph, {}, &exported).ok());
  EXPECT_EQ(exported.node_size(), 13);
}

// Resource variables, and no ops with references.
void RegisterVariableOps(OpRegistry* ops) {
  Register(ops, "VarHandleOp", {}, {"resource: resource"},
           {"dtype: type", "shape: shape = ?", "shared_name: string = \"\"", "container: string = \"\""});
  Register(ops, "ReadVariableOp", {"resource: resource"}, {"value: dtype"}, {"dtype: type"});
  Register(ops, "AssignAddVariableOp", {"resource: resource", "value: dtype"}, {}, {"dtype: type"});
  Register(ops, "Mul", {"x: T", "y: T"}, {"z: T"}, {"T: type"});
  Register(ops, "Const", {}, {"output: dtype"}, {"dtype: type"});
  Register(ops, "NoOp", {}, {}, {});
}

// Of a node that is left out, TensorFlow's name is told, and not those of the reads that it would have had.
TEST(GraphDefTest, SkippedNodesAreThoseOfTheGraphDef) {
  OpRegistry ops;
  RegisterVariableOps(&ops);
  std::vector<SkippedNode> skipped;
  const auto graph =
      GraphFromGraphDefText(Node("v", "VariableV2", {}, "") + Node("w", "VariableV2", {}, kFloatType) +
                                Node("product", "Mul", {"v", "v"}) + Node("unknown", "Foo", {"w"}, ""),
                            ops, {.skipped = &skipped});
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<std::string> names;
  for (const SkippedNode& node : skipped) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("v", "product", "unknown"));
}

// Only who runs after an update, and may be beside the variable, reads once more.
TEST(GraphDefTest, ReadsAreSharedWhereNothingIsWrittenBetween) {
  OpRegistry ops;
  RegisterVariableOps(&ops);
  Register(&ops, "Identity", {"input: T"}, {"output: T"}, {"T: type"});
  const auto graph = GraphFromGraphDefText(
      Node("v", "VariableV2", {}, absl::StrCat(kFloatType, " device: '/job:worker/device:CPU:*' ")) +
          Node("c", "Const", {}, kFloatType) + Node("read", "Identity", {"v"}) +
          Node("add", "AssignAdd", {"v", "c"}) +
          Node("beside", "Mul", {"read", "c", "^add"}, "device: '/job:worker/task:0' ") +
          Node("plain", "Mul", {"read", "c"}) + Node("after", "Mul", {"read", "c", "^add"}) +
          Node("far", "Mul", {"read", "c", "^add"}, "device: '/job:worker/device:GPU:0' "),
      ops);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto source = [&](const char* name) { return (*graph)->FindNode(name)->input(0).node->name(); };
  EXPECT_EQ(source("plain"), "read");
  EXPECT_EQ(source("after"), "after/ref_read_0");
  EXPECT_EQ(source("beside"), "beside/ref_read_0");
  EXPECT_EQ(source("far"), "read");
}

// What control flow and changes of shape make of a variable's buffer is the buffer still.
TEST(GraphDefTest, ReadsAfterUpdatesAreMadeInBranchesAndLoops) {
  OpRegistry ops;
  RegisterVariableOps(&ops);
  Register(&ops, "Identity", {"input: T"}, {"output: T"}, {"T: type"});
  Register(&ops, "Placeholder", {}, {"output: dtype"}, {"dtype: type"});
  Register(&ops, "Switch", {"data: T", "pred: bool"}, {"output_false: T", "output_true: T"}, {"T: type"});
  Register(&ops, "Enter", {"data: T"}, {"output: T"},
           {"T: type", "frame_name: string", "is_constant: bool = false"});
  Register(&ops, "Reshape", {"tensor: T", "shape: Tshape"}, {"output: T"}, {"T: type", "Tshape: type"});
  Register(&ops, "Shape", {"input: T"}, {"output: out_type"}, {"T: type", "out_type: type"});
  const std::string type = "attr { key: 'T' value { type: DT_FLOAT } }";
  const std::string loop =
      type + "attr { key: 'frame_name' value { s: 'f' } } attr { key: 'is_constant' value { b: true } }";
  const auto graph = GraphFromGraphDefText(
      Node("v", "VariableV2", {}, kFloatType) + Node("c", "Const", {}, kFloatType) +
          Node("p", "Placeholder", {}, "attr { key: 'dtype' value { type: DT_BOOL } }") +
          Node("s", "Const", {}, "attr { key: 'dtype' value { type: DT_INT32 } }") +
          Node("read", "Identity", {"v"}) + Node("add", "AssignAdd", {"v", "c"}) +
          Node("switch", "Switch", {"read", "p"}, type) + Node("branch", "Mul", {"switch:1", "c", "^add"}) +
          Node("enter", "Enter", {"switch:1"}, loop) + Node("one", "Enter", {"add"}, loop) +
          Node("in_loop", "Mul", {"enter", "one"}) + Node("shape", "Reshape", {"read", "s"}) +
          Node("shaped", "Mul", {"shape", "c", "^add"}),
      ops);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto node = [&](const char* name) { return (*graph)->FindNode(name); };
  const auto source = [&](const char* name) { return node(name)->input(0).node; };
  EXPECT_EQ(source("branch")->op_name(), "ReadVariableOp");
  EXPECT_THAT(source("branch")->control_inputs(), ElementsAre(node("add"), node("branch/ref_gate_0")));
  EXPECT_EQ(source("branch/ref_gate_0"), node("switch"));
  EXPECT_EQ(source("in_loop")->op_name(), "ReadVariableOp");
  EXPECT_EQ(source("in_loop")->input(0).node, node("enter/ref_handle"));
  EXPECT_EQ(source("in_loop")->control_inputs()[0], node("enter"));
  EXPECT_EQ(source("enter/ref_handle"), node("v"));
  EXPECT_THAT(node("enter/ref_handle")->control_inputs(), ElementsAre(node("enter/ref_gate_0")));
  EXPECT_EQ(source("shaped")->op_name(), "Reshape");
  EXPECT_EQ(source("shaped")->input(0).node->op_name(), "ReadVariableOp");
  EXPECT_EQ(source("shaped")->input(1).node->input(0).node, node("shape"));
}

TEST(GraphDefTest, LaterImportsKnowTheReadsOfEarlierOnes) {
  OpRegistry ops;
  RegisterVariableOps(&ops);
  Register(&ops, "Identity", {"input: T"}, {"output: T"}, {"T: type"});
  auto graph = GraphFromGraphDefText(
      Node("v", "VariableV2", {}, absl::StrCat(kFloatType, " device: '/device:CPU:0' ")) +
          Node("c", "Const", {}, kFloatType) + Node("read", "Identity", {"v"}) +
          Node("copy", "Identity", {"read"}) + Node("add", "AssignAdd", {"v", "c"}) +
          Node("h", "VarHandleOp", {}, kFloatType) + Node("own", "ReadVariableOp", {"h"}, kFloatType),
      ops);
  ASSERT_TRUE(graph.ok()) << graph.status();
  tensorflow::GraphDef more;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      Node("plain", "Mul", {"read", "c"}) + Node("after", "Mul", {"copy", "own", "^add"}) +
          Node("far", "Mul", {"read", "c", "^add"}, "device: '/device:GPU:0' "),
      &more));
  ASSERT_TRUE(ImportGraphDef(more, {}, graph->get()).ok());
  const auto input = [&](const char* name, int i) { return (*graph)->FindNode(name)->input(i).node->name(); };
  EXPECT_EQ(input("plain", 0), "read");
  EXPECT_EQ(input("after", 0), "after/ref_read_0");
  EXPECT_EQ(input("after", 1), "own");
  EXPECT_EQ(input("far", 0), "read");
}

TEST(GraphDefTest, LaterImportsKnowTheReferencesOfEarlierOnes) {
  OpRegistry ops;
  RegisterVariableOps(&ops);
  auto graph =
      GraphFromGraphDefText(Node("v", "VariableV2", {}, kFloatType) + Node("c", "Const", {}, kFloatType) +
                                Node("add", "AssignAdd", {"v", "c"}),
                            ops);
  ASSERT_TRUE(graph.ok()) << graph.status();
  tensorflow::GraphDef more;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      Node("again", "AssignAdd", {"add", "c"}) + Node("product", "Mul", {"again", "v", "^c"}), &more));
  ASSERT_TRUE(ImportGraphDef(more, {}, graph->get()).ok());
  const weir::Node* const again = (*graph)->FindNode("again");
  EXPECT_EQ(again->op_name(), "AssignAddVariableOp");
  EXPECT_EQ(again->input(0).node->name(), "v");
  EXPECT_THAT(again->control_inputs(), ElementsAre((*graph)->FindNode("add")));
  const weir::Node* const product = (*graph)->FindNode("product");
  const weir::Node* const passed = product->input(0).node;
  EXPECT_EQ(passed->op_name(), "ReadVariableOp");
  EXPECT_EQ(passed->input(0).node->name(), "v");
  const weir::Node* const order = (*graph)->FindNode("product/ref_order");
  EXPECT_THAT(order->control_inputs(), ElementsAre((*graph)->FindNode("c"), again));
  EXPECT_THAT(passed->control_inputs(), ElementsAre(again, order));
  EXPECT_EQ(product->input(1).node->op_name(), "ReadVariableOp");
  EXPECT_EQ((*graph)->FindValue("again:0")->node->name(), "again/ref_value");
  EXPECT_EQ((*graph)->FindOutput("v:0")->dtype(), DType::kResource);
  EXPECT_EQ((*graph)->FindValue("v:0")->dtype(), DType::kFloat32);
  // A copy has them, too; a part of the graph those that are left.
  EXPECT_EQ((*graph)->Clone()->FindValue("v:0")->dtype(), DType::kFloat32);
  std::vector<bool> keep;
  for (const auto& node : (*graph)->nodes()) keep.push_back(node->name() == "v" || node->name() == "c");
  (*graph)->KeepOnly(keep);
  EXPECT_FALSE((*graph)->has_stand_ins());
}

// The reads that stand for references are told by an attr, which a program may give to any node of its own.
TEST(GraphDefTest, NodesThatOnlyLookLikeReadsOfReferencesAreNone) {
  const std::string attr = "attr { key: '_reads_reference' value { b: true } } ";
  OpRegistry ops;
  RegisterVariableOps(&ops);
  Register(&ops, "Identity", {"input: T"}, {"output: T"}, {"T: type"});
  auto graph = GraphFromGraphDefText(Node("c", "Const", {}, attr + kFloatType), ops);
  ASSERT_TRUE(graph.ok()) << graph.status();
  tensorflow::GraphDef more;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      Node("v", "VariableV2", {}, kFloatType) + Node("add", "AssignAdd", {"v", "c"}) +
          Node("same", "Identity", {"c"}) + Node("product", "Mul", {"same", "v", "^add"}),
      &more));
  ASSERT_TRUE(ImportGraphDef(more, {}, graph->get()).ok());
  EXPECT_EQ((*graph)->FindNode("product")->input(0).node->name(), "same");
}

TEST(GraphDefTest, ExtendsAGraphOrLeavesItAsItWas) {
  auto graph = FromText(Node("a", "Placeholder", {}, kFloatType));
  ASSERT_TRUE(graph.ok());
  tensorflow::GraphDef more;
  auto* node = more.add_node();
  node->set_name("b");
  node->set_op("Identity");
  node->add_input("a");
  *more.add_node() = *node;
  more.mutable_node(1)->set_name("c");
  more.mutable_node(1)->add_input("a");
  EXPECT_FALSE(ImportGraphDef(more, {}, graph->get()).ok());
  EXPECT_EQ((*graph)->num_nodes(), 1);
  more.mutable_node()->RemoveLast();
  ASSERT_TRUE(ImportGraphDef(more, {}, graph->get()).ok());
  EXPECT_EQ((*graph)->FindNode("b")->input(0).name(), "a:0");
  EXPECT_FALSE(ImportGraphDef(more, {}, graph->get()).ok());  // the name is used now
  EXPECT_EQ((*graph)->num_nodes(), 2);
}

TEST(AttrValueProtoTest, EveryKindComesBack) {
  for (const AttrValue& value :
       {AttrValue("text"), AttrValue(-5), AttrValue(2.5f), AttrValue(true), AttrValue(DType::kHalf),
        AttrValue(PartialShape({-1, 3})), AttrValue(PartialShape()), AttrValue(Tensor::Vector<float>({1, 2})),
        AttrValue(FunctionName{"f"}), AttrValue(std::vector<std::string>{"a", ""}),
        AttrValue(std::vector<int64_t>{1, -2}), AttrValue(std::vector<float>{1.5f}),
        AttrValue(std::vector<bool>{true, false}),
        AttrValue(std::vector<DType>{DType::kInt8, DType::kString}),
        AttrValue(std::vector<PartialShape>{PartialShape(), PartialShape({2})})}) {
    tensorflow::AttrValue proto;
    ASSERT_TRUE(AttrValueToProto(value, &proto).ok());
    const auto back = AttrValueFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(*back == value) << value.ToString() << " " << back->ToString();
  }
  tensorflow::AttrValue proto;
  EXPECT_FALSE(AttrValueToProto(AttrValue(), &proto).ok());
  proto.set_type(tensorflow::DT_FLOAT_REF);
  EXPECT_TRUE(*AttrValueFromProto(proto) == AttrValue(DType::kFloat32));
  proto.mutable_list()->add_tensor();
  EXPECT_FALSE(AttrValueFromProto(proto).ok());
}

// --- a real model of TensorFlow's: an MLP with classic and resource variables, Adam, a queue, a cond ---

std::string AttrSpec(const tensorflow::OpDef::AttrDef& attr) {
  std::string spec = absl::StrCat(attr.name(), ": ", attr.type());
  if (!attr.has_default_value()) return spec;
  const absl::StatusOr<AttrValue> value = AttrValueFromProto(attr.default_value());
  EXPECT_TRUE(value.ok());
  if (value->kind() == AttrKind::kShape && !value->get<PartialShape>().has_rank()) return spec + " = ?";
  if (value->kind() == AttrKind::kString) return absl::StrCat(spec, " = '", value->get<std::string>(), "'");
  return absl::StrCat(spec, " = ", value->ToString());
}

std::string ArgSpec(const tensorflow::OpDef::ArgDef& arg) {
  const std::string type = !arg.type_attr().empty() ? arg.type_attr()
                           : !arg.type_list_attr().empty()
                               ? arg.type_list_attr()
                               : std::string(DTypeName(static_cast<DType>(arg.type())));
  return absl::StrCat(arg.name(), ": ", arg.number_attr().empty() ? "" : arg.number_attr() + " * ", type);
}

// The ops of the .meta file, from the schemas that TensorFlow put into it.
std::unique_ptr<OpRegistry> OpsOfMetaFile() {
  tensorflow::MetaGraphDef meta;
  EXPECT_TRUE(meta.ParseFromString(TestFile("graph.meta")));
  auto ops = std::make_unique<OpRegistry>();
  for (const tensorflow::OpDef& op : meta.meta_info_def().stripped_op_list().op()) {
    std::vector<std::string> inputs, outputs, attrs;
    for (const auto& arg : op.input_arg()) inputs.push_back(ArgSpec(arg));
    for (const auto& arg : op.output_arg()) outputs.push_back(ArgSpec(arg));
    for (const auto& attr : op.attr()) attrs.push_back(AttrSpec(attr));
    Register(ops.get(), op.name(), inputs, outputs, attrs);
  }
  return ops;
}

TEST(TensorFlowGraphTest, BinaryTextAndMetaAreTheSameGraph) {
  const std::unique_ptr<OpRegistry> ops = OpsOfMetaFile();
  const auto binary = GraphFromGraphDefBytes(TestFile("graph.pb"), *ops);
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_EQ((*binary)->num_nodes(), 154);
  const auto text = GraphFromGraphDefText(TestFile("graph.pbtxt"), *ops);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto meta = MetaGraphFromBytes(TestFile("graph.meta"), *ops);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(*GraphDefBytes(**binary), *GraphDefBytes(**text));
  EXPECT_EQ(*GraphDefBytes(**binary), *GraphDefBytes(*meta->graph));
  // Exported and imported again it is still the same.
  const auto again = GraphFromGraphDefText(*GraphDefText(**binary), *ops);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*GraphDefBytes(**again), *GraphDefBytes(**binary));
}

TEST(TensorFlowGraphTest, TheExportSaysWhatTensorFlowsFileSays) {
  const std::unique_ptr<OpRegistry> ops = OpsOfMetaFile();
  tensorflow::GraphDef theirs;
  ASSERT_TRUE(theirs.ParseFromString(TestFile("graph.pb")));
  const auto graph = GraphFromGraphDefBytes(TestFile("graph.pb"), *ops);
  ASSERT_TRUE(graph.ok()) << graph.status();
  tensorflow::GraphDef ours;
  ASSERT_TRUE(ExportGraphDef(**graph, {}, &ours).ok());
  std::map<std::string, const tensorflow::NodeDef*> by_name;
  for (const auto& node : ours.node()) by_name[node.name()] = &node;
  ASSERT_EQ(ours.node_size(), theirs.node_size());
  for (const auto& node : theirs.node()) {
    const tensorflow::NodeDef& mine = *by_name[node.name()];
    EXPECT_EQ(mine.op(), node.op());
    EXPECT_THAT(mine.input(), ::testing::ElementsAreArray(node.input())) << node.name();
    EXPECT_EQ(mine.device(), node.device());
    for (const auto& [name, value] : node.attr()) {
      if (name == "_output_shapes") continue;
      const auto place = mine.attr().find(name);
      ASSERT_TRUE(place != mine.attr().end()) << node.name() << " " << name;
      // Python spells out equal elements that we write once.
      if (value.has_tensor()) {
        EXPECT_TRUE(*AttrValueFromProto(place->second) == *AttrValueFromProto(value)) << node.name();
      } else {
        EXPECT_EQ(place->second.SerializeAsString(), value.SerializeAsString()) << node.name() << " " << name;
      }
    }
  }
}

// A MetaGraphDef of one variable "w/part_1" that says to be this slice of "w".
std::string MetaGraphOfSlice(const std::vector<int64_t>& full_shape, const std::vector<int64_t>& offset,
                             const std::vector<int64_t>& shape) {
  tensorflow::VariableDef variable;
  variable.set_variable_name("w/part_1:0");
  tensorflow::SaveSliceInfoDef& slice = *variable.mutable_save_slice_info_def();
  slice.set_full_name("w");
  for (const int64_t size : full_shape) slice.add_full_shape(size);
  for (const int64_t begin : offset) slice.add_var_offset(begin);
  for (const int64_t size : shape) slice.add_var_shape(size);
  tensorflow::MetaGraphDef meta;
  (*meta.mutable_collection_def())["variables"].mutable_bytes_list()->add_value(variable.SerializeAsString());
  return meta.SerializeAsString();
}

TEST(TensorFlowGraphTest, MetaGraphsKeepSlicesOfVariables) {
  const OpRegistry& ops = SomeOps();
  const auto meta = MetaGraphFromBytes(MetaGraphOfSlice({5, 2}, {3, 0}, {2, 2}), ops);
  ASSERT_TRUE(meta.ok()) << meta.status();
  ASSERT_THAT(meta->graph->variables(), SizeIs(1));
  const auto& slice = meta->graph->variables()[0].slice;
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->full_name, "w");
  EXPECT_EQ(slice->ToString(), "5 2 3,2:0,2");
}

TEST(TensorFlowGraphTest, SlicesOutsideOfTheirVariableAreRefused) {
  const OpRegistry& ops = SomeOps();
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::vector<std::string> wrong = {
      MetaGraphOfSlice({5, 2}, {4, 0}, {2, 2}),      // reaches over the end
      MetaGraphOfSlice({5, 2}, {-1, 0}, {2, 2}),     // begins before the first element
      MetaGraphOfSlice({5, 2}, {3}, {2, 2}),         // an offset for one dimension of two
      MetaGraphOfSlice({5}, {3, 0}, {2, 2}),         // of other ranks
      MetaGraphOfSlice({5, 2}, {kHuge, 0}, {2, 2}),  // a sum that would overflow
      MetaGraphOfSlice({-5, 2}, {0, 0}, {2, 2}),     // a negative size
      MetaGraphOfSlice({kHuge, 8}, {0, 0}, {2, 2}),  // more elements than can be counted
  };
  for (const std::string& bytes : wrong) {
    EXPECT_EQ(MetaGraphFromBytes(bytes, ops).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(MetaGraphFromBytes(wrong[0], ops).status().message(),
              HasSubstr("variable 'w/part_1': the slice of shape [2,2] at [4,0] does not lie in [5,2]"));
}

TEST(TensorFlowGraphTest, MetaGraphsKeepVariablesCollectionsAndSaver) {
  const std::unique_ptr<OpRegistry> ops = OpsOfMetaFile();
  const auto meta = MetaGraphFromBytes(TestFile("graph.meta"), *ops);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_THAT(meta->graph->variables(), SizeIs(9));
  EXPECT_THAT(meta->graph->collections().at("summaries"), SizeIs(2));
  EXPECT_THAT(meta->graph->collections().at("global_step"), ::testing::ElementsAre("global_step"))
      << "of a variable's record";
  ASSERT_TRUE(meta->saver.has_value());
  const auto bytes = MetaGraphBytes(*meta->graph, &*meta->saver);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto back = MetaGraphFromBytes(*bytes, *ops);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_THAT(back->graph->variables(), SizeIs(9));
  int num_trainable = 0;
  for (const VariableDef& variable : back->graph->variables()) {
    num_trainable += variable.trainable;
    EXPECT_TRUE(back->graph->FindOutput(variable.handle_name).ok()) << variable.handle_name;
    EXPECT_TRUE(back->graph->FindNode(variable.initializer_name) != nullptr) << variable.initializer_name;
  }
  EXPECT_EQ(num_trainable, 2);
  EXPECT_EQ(back->graph->collections(), meta->graph->collections());
  EXPECT_EQ(back->saver->restore_op_name, meta->saver->restore_op_name);
}

TEST(TensorFlowGraphTest, AMetaGraphIsAddedToAGraphOnceOrNotAtAll) {
  const std::unique_ptr<OpRegistry> ops = OpsOfMetaFile();
  Graph graph(*ops);
  const auto meta = ImportMetaGraph(TestFile("graph.meta"), {}, &graph);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_TRUE(meta->saver.has_value());
  const int num_nodes = graph.num_nodes();
  const auto collections = graph.collections();
  EXPECT_EQ(ImportMetaGraph(TestFile("graph.meta"), {}, &graph).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(graph.num_nodes(), num_nodes);
  EXPECT_THAT(graph.variables(), SizeIs(9));
  EXPECT_EQ(graph.collections(), collections);
}

}  // namespace
}  // namespace weir
