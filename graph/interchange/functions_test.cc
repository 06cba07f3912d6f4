// Calls of functions, and hostile functions.
#include <ctime>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "graph/function_bodies.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/runtime_ops.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status AnyShape(ShapeInference&) { return absl::OkStatus(); }

void Register(OpRegistry* ops, const std::string& name, std::vector<std::string> inputs,
              std::vector<std::string> outputs, std::vector<std::string> attrs, bool is_stateful = false) {
  const absl::Status status = ops->Register({.name = name,
                                             .inputs = std::move(inputs),
                                             .outputs = std::move(outputs),
                                             .attrs = std::move(attrs),
                                             .is_stateful = is_stateful,
                                             .infer_shapes = AnyShape,
                                             .gradient = NotDifferentiable});
  ASSERT_TRUE(status.ok()) << status;
}

const OpRegistry& SomeOps() {
  static const OpRegistry* const ops = [] {
    auto* registry = new OpRegistry;
    Register(registry, "Const", {}, {"output: dtype"}, {"value: tensor", "dtype: type"});
    Register(registry, "Placeholder", {}, {"output: dtype"}, {"dtype: type", "shape: shape = ?"});
    Register(registry, "NoOp", {}, {}, {});
    Register(registry, "Identity", {"input: T"}, {"output: T"}, {"T: type"});
    Register(registry, "IdentityN", {"input: T"}, {"output: T"}, {"T: list(type)"});
    Register(registry, "Add", {"x: T", "y: T"}, {"z: T"}, {"T: type"});
    Register(registry, "Print", {"x: T"}, {"z: T"}, {"T: type"}, /*is_stateful=*/true);
    Register(registry, "TopK", {"x: T"}, {"values: T", "indices: int32"}, {"T: type"});
    Register(registry, "Split", {"value: T"}, {"output: num * T"}, {"num: int >= 1", "T: type"});
    Register(registry, "Pack", {"values: N * T"}, {"output: T"}, {"N: int >= 1", "T: type"});
    Register(registry, "Equal", {"x: T", "y: T"}, {"z: bool"}, {"T: type"});
    Register(registry, "LogicalOr", {"x: bool", "y: bool"}, {"z: bool"}, {});
    Register(registry, "Less", {"x: T", "y: T"}, {"z: bool"}, {"T: type"});
    Register(registry, "Switch", {"data: T", "pred: bool"}, {"output_false: T", "output_true: T"},
             {"T: type"});
    Register(registry, "Merge", {"inputs: N * T"}, {"output: T", "value_index: int32"},
             {"T: type", "N: int >= 1"});
    Register(registry, "Enter", {"data: T"}, {"output: T"},
             {"T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"});
    Register(registry, "NextIteration", {"data: T"}, {"output: T"}, {"T: type"});
    Register(registry, "Exit", {"data: T"}, {"output: T"}, {"T: type"});
    Register(registry, "LoopCond", {"input: bool"}, {"output: bool"}, {});
    Register(registry, "Map", {"x: T"}, {"y: T"}, {"T: type", "f: func"});
    EXPECT_TRUE(RegisterRuntimeOps(*registry).ok());
    return registry;
  }();
  return *ops;
}

const char kT[] = "attr { key: 'T' value { type: DT_FLOAT } } ";

std::string NodeText(const std::string& field, const std::string& name, const std::string& op,
                     const std::vector<std::string>& inputs, const std::string& rest = kT) {
  std::string text = absl::StrCat(field, " { name: '", name, "' op: '", op, "' ");
  for (const std::string& input : inputs) absl::StrAppend(&text, "input: '", input, "' ");
  return absl::StrCat(text, rest, " }\n");
}

std::string Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest = kT) {
  return NodeText("node", name, op, inputs, rest);
}

std::string Body(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest = kT) {
  return NodeText("node_def", name, op, inputs, rest);
}

std::string Function(const std::string& name, const std::vector<std::string>& args, const std::string& result,
                     const std::string& body, const std::string& rest = "") {
  std::string text = absl::StrCat("library { function { signature { name: '", name, "' ");
  for (const std::string& arg : args) {
    absl::StrAppend(&text, "input_arg { name: '", arg, "' type: DT_FLOAT } ");
  }
  absl::StrAppend(&text, "output_arg { name: 'r' type: DT_FLOAT } } ret { key: 'r' value: '", result, "' } ");
  return absl::StrCat(text, body, rest, "} }\n");
}

std::string Calls(const std::string& attr, const std::string& function) {
  return absl::StrCat("attr { key: '", attr, "' value { func { name: '", function, "' } } } ");
}

const char kPlaceholder[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }\n";
const char kBoolPlaceholder[] =
    "node { name: 'p' op: 'Placeholder' attr { key: 'dtype' value { type: DT_BOOL } } }\n";

// The text may have the library in several parts.
absl::StatusOr<std::unique_ptr<Graph>> FromText(const std::string& text, const ImportOptions& options = {}) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &def)) << text;
  return GraphFromGraphDefBytes(def.SerializeAsString(), SomeOps(), options);
}

absl::Status ErrorOf(const std::string& text) { return FromText(text).status(); }

std::vector<std::string> Inputs(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  const weir::Node* const node = graph.FindNode(name);
  EXPECT_NE(node, nullptr) << name;
  if (node == nullptr) return names;
  for (const Output& input : node->inputs()) names.push_back(input.name());
  for (const weir::Node* before : node->control_inputs()) names.push_back("^" + before->name());
  return names;
}

TEST(FunctionsTest, ACallBecomesTheNodesOfTheFunction) {
  const auto graph = FromText(
      absl::StrCat(kPlaceholder, Node("call", "PartitionedCall", {"x", "^x"}, Calls("f", "double")),
                   Node("after", "Identity", {"call"}),
                   Function("double", {"a"}, "sum:z:0",
                            Body("sum", "Add", {"a", "again:output:0"}) + Body("again", "Identity", {"a"}) +
                                Body("printed", "Print", {"again:output:0"}))));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "after"), ElementsAre("call:0"));
  EXPECT_THAT(Inputs(**graph, "call"), ElementsAre("call/_call/sum:0", "^x", "^call/_call/printed"));
  EXPECT_THAT(Inputs(**graph, "call/_call/sum"), ElementsAre("call/_argument_0:0", "call/_call/again:0"));
  EXPECT_THAT(Inputs(**graph, "call/_argument_0"), ElementsAre("x:0", "^x"));
}

TEST(FunctionsTest, InputsAreNamedByArgumentsOfOps) {
  const auto graph = FromText(absl::StrCat(
      kPlaceholder, Node("call", "f", {"x"}, ""),
      Function(
          "f", {"a"}, "sum:z:0",
          Body("split", "Split", {"a"}, absl::StrCat(kT, "attr { key: 'num' value { i: 3 } }")) +
              Body("pack", "Pack", {"split:output"}, absl::StrCat(kT, "attr { key: 'N' value { i: 3 } }")) +
              Body("top", "TopK", {"pack:output:0"}) +
              Body("first", "Identity", {"top:indices:0"}, "attr { key: 'T' value { type: DT_INT32 } }") +
              Body("sum", "Add", {"split:output:2", "top:values:0", "^first"}))));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "call/_call/pack"),
              ElementsAre("call/_call/split:0", "call/_call/split:1", "call/_call/split:2"));
  EXPECT_THAT(Inputs(**graph, "call/_call/first"), ElementsAre("call/_call/top:1"));
  EXPECT_THAT(Inputs(**graph, "call/_call/sum"),
              ElementsAre("call/_call/split:2", "call/_call/top:0", "^call/_call/first"));
}

TEST(FunctionsTest, AttrsDevicesAndColocationsAreThoseOfTheCall) {
  const auto graph = FromText(absl::StrCat(
      kPlaceholder,
      Node("call", "f", {"x"}, "device: '/job:ps/task:1' attr { key: 'U' value { type: DT_FLOAT } }"),
      "library { function { signature { name: 'f' input_arg { name: 'a' type_attr: 'U' } "
      "output_arg { name: 'r' type_attr: 'U' } attr { name: 'U' type: 'type' } } ret { key: 'r' value: "
      "'c:output:0' } ",
      Body("b", "Identity", {"a"}, "device: '/device:GPU:0' attr { key: 'T' value { placeholder: 'U' } }"),
      Body("c", "Identity", {"b:output:0"},
           "attr { key: 'T' value { placeholder: 'U' } } attr { key: '_class' value { list { s: 'loc:@b' s: "
           "'loc:@elsewhere' } } }"),
      "} }"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const weir::Node* const b = (*graph)->FindNode("call/_call/b");
  EXPECT_EQ(b->requested_device().ToString(), "/job:ps/task:1/device:GPU:0");
  EXPECT_EQ(b->attr<DType>("T"), DType::kFloat32);
  EXPECT_THAT((*graph)->FindNode("call/_call/c")->colocation_names(), ElementsAre("call/_call/b"));
}

TEST(FunctionsTest, BranchesRunBetweenSwitchAndMerge) {
  const std::string one =
      "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { dtype: "
      "DT_FLOAT float_val: 1 tensor_shape {} } } }";
  const auto graph = FromText(absl::StrCat(
      kPlaceholder, kBoolPlaceholder,
      Node("if", "StatelessIf", {"p", "x"}, Calls("then_branch", "f") + Calls("else_branch", "g")),
      Function("f", {"a"}, "b:output:0", Body("b", "Identity", {"a"})),
      Function("g", {"a"}, "one:output:0", Body("one", "Const", {}, one))));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "if"), ElementsAre("if/_merge_0:0", "^if/_done"));
  EXPECT_THAT(Inputs(**graph, "if/_merge_0"), ElementsAre("if/_else/one:0", "if/_then/b:0"));
  EXPECT_THAT(Inputs(**graph, "if/_else/one"), ElementsAre("^if/_pivot_else"));
  EXPECT_THAT(Inputs(**graph, "if/_then/b"), ElementsAre("if/_switch_then_0:1"));
}

TEST(FunctionsTest, ALoopLeadsWhatDoesNotChangeInOnce) {
  const std::string loop =
      "library { function { signature { name: 'c' input_arg { name: 'i' type: DT_FLOAT } input_arg { name: "
      "'n' "
      "type: DT_FLOAT } output_arg { name: 'r' type: DT_BOOL } } ret { key: 'r' value: 'less:z:0' } " +
      Body("less", "Less", {"i", "n"}) +
      "} function { signature { name: 'b' input_arg { name: 'i' type: DT_FLOAT } input_arg { name: 'n' "
      "type: DT_FLOAT } output_arg { name: 'j' type: DT_FLOAT } output_arg { name: 'm' type: DT_FLOAT } } "
      "ret { "
      "key: 'j' value: 'add:z:0' } ret { key: 'm' value: 'n' } " +
      Body("add", "Add", {"i", "twice:z:0"}) + Body("twice", "Add", {"n", "n"}) + "} }";
  const auto graph = FromText(absl::StrCat(
      kPlaceholder, Node("loop", "While", {"x", "x"}, Calls("cond", "c") + Calls("body", "b")), loop));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "loop"), ElementsAre("loop/_exit_0:0", "x:0", "^loop/_exit_0"));
  EXPECT_THAT(Inputs(**graph, "loop/_merge_0"), ElementsAre("loop/_enter_0:0", "loop/_next_0:0"));
  EXPECT_THAT(Inputs(**graph, "loop/_cond/less"), ElementsAre("loop/_merge_0:0", "loop/_enter_1:0"));
  // Its inputs are there in every iteration, also when the condition is false.
  EXPECT_THAT(Inputs(**graph, "loop/_body/twice"),
              ElementsAre("loop/_enter_1:0", "loop/_enter_1:0", "^loop/_pivot"));
  EXPECT_TRUE((*graph)->FindNode("loop/_enter_1")->attr<bool>("is_constant"));
}

// In the iteration whose condition is false, "n" is there and "i" is not.
TEST(FunctionsTest, CallsInABodyThatTakeWhatDoesNotChangeWaitForTheIteration) {
  const std::string floats = "attr { key: 'Tout' value { list { type: DT_FLOAT } } } ";
  const std::string branches = Calls("then_branch", "f") + Calls("else_branch", "f") + floats;
  const std::string arguments =
      "input_arg { name: 'i' type: DT_FLOAT } input_arg { name: 'n' type: DT_FLOAT } input_arg { name: 'q' "
      "type: DT_BOOL } ";
  const std::string results =
      "output_arg { name: 'j' type: DT_FLOAT } output_arg { name: 'm' type: DT_FLOAT } output_arg { name: "
      "'q' type: DT_BOOL } } ret { key: 'm' value: 'n' } ret { key: 'q' value: 'q' } ";
  const std::string loop = absl::StrCat(
      "library { function { signature { name: 'c' ", arguments,
      "output_arg { name: 'r' type: DT_BOOL } } ret { key: 'r' value: 'less:z:0' } ",
      Body("less", "Less", {"i", "n"}), "} function { signature { name: 'inner' ", arguments, results,
      "ret { key: 'j' value: 'add:z:0' } ", Body("add", "Add", {"i", "n"}),
      "} function { signature { name: 'b' ", arguments, results, "ret { key: 'j' value: 'call:output:0' } ",
      Body("call", "PartitionedCall", {"n", "i"}, Calls("f", "f") + floats),
      Body("gated", "PartitionedCall", {"i", "i"}, Calls("f", "f") + floats),
      Body("if", "If", {"q", "n", "i"}, branches),
      Body("while", "While", {"i", "n", "q"}, Calls("cond", "c") + Calls("body", "inner")), "} }");
  const auto graph =
      FromText(absl::StrCat(kPlaceholder, kBoolPlaceholder,
                            Node("loop", "While", {"x", "x", "p"}, Calls("cond", "c") + Calls("body", "b")),
                            loop, Function("f", {"a", "b"}, "b", Body("print", "Print", {"a"}))));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "loop/_body/call/_argument_0"), ElementsAre("loop/_enter_1:0", "^loop/_pivot"));
  EXPECT_THAT(Inputs(**graph, "loop/_body/gated/_argument_0"), ElementsAre("loop/_switch_0:1"));
  EXPECT_THAT(Inputs(**graph, "loop/_body/if/_choice_then"),
              ElementsAre("loop/_enter_2:0", "loop/_enter_2:0", "^loop/_pivot"));
  EXPECT_THAT(Inputs(**graph, "loop/_body/while/_enter_1"), ElementsAre("loop/_enter_1:0", "^loop/_pivot"));
  EXPECT_THAT(Inputs(**graph, "loop/_body/while"), testing::Contains("^loop/_pivot"))
      << "what it hands on is there without the loop";
}

// "n" is led into a loop of v1 once, so it is there in the iteration whose condition is false, and "i" is
// not.
TEST(FunctionsTest, CallsInALoopOfV1WaitForAllTheirInputs) {
  const std::string enter = absl::StrCat(kT, "attr { key: 'frame_name' value { s: 'loop' } } ");
  const std::string floats = "attr { key: 'Tout' value { list { type: DT_FLOAT } } } ";
  const std::string branches = Calls("then_branch", "f") + Calls("else_branch", "f") + floats +
                               "attr { key: 'Tin' value { list { type: DT_FLOAT type: DT_FLOAT } } } ";
  const auto graph = FromText(absl::StrCat(
      kPlaceholder, kBoolPlaceholder,
      Node("n", "Enter", {"x"}, enter + "attr { key: 'is_constant' value { b: true } } "),
      Node("i", "Enter", {"x"}, enter), Node("call", "PartitionedCall", {"n", "i"}, Calls("f", "f") + floats),
      Node("plain", "PartitionedCall", {"i", "i"}, Calls("f", "f") + floats),
      Node("if", "If", {"p", "n", "i"}, branches),
      Function("f", {"a", "b"}, "b", Body("print", "Print", {"a"}))));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "call/_all_given"), ElementsAre("^call/_given_0", "^call/_given_1"));
  EXPECT_THAT(Inputs(**graph, "call/_argument_0"), ElementsAre("call/_given_0:0", "^call/_all_given"));
  EXPECT_THAT(Inputs(**graph, "call/_call/print"), ElementsAre("call/_argument_0:0"));
  EXPECT_THAT(Inputs(**graph, "call"), testing::Contains("^call/_all_given"));
  EXPECT_THAT(Inputs(**graph, "plain/_argument_0"), ElementsAre("i:0"));
  EXPECT_THAT(Inputs(**graph, "if/_choice_then"),
              ElementsAre("if/_given_0:0", "if/_given_0:0", "^if/_all_given"));
}

TEST(FunctionsTest, TheResultsOfALoopWaitForWhatComesBeforeIt) {
  const std::string arguments =
      "input_arg { name: 'i' type: DT_FLOAT } input_arg { name: 'n' type: DT_FLOAT } ";
  const auto graph = FromText(
      absl::StrCat(kPlaceholder, Node("before", "Print", {"x"}),
                   Node("loop", "While", {"x", "x", "^before"}, Calls("cond", "c") + Calls("body", "b")),
                   "library { function { signature { name: 'c' ", arguments,
                   "output_arg { name: 'r' type: DT_BOOL } } ret { key: 'r' value: 'less:z:0' } ",
                   Body("less", "Less", {"i", "n"}), "} function { signature { name: 'b' ", arguments,
                   "output_arg { name: 'j' type: DT_FLOAT } output_arg { name: 'm' type: DT_FLOAT } } ret { "
                   "key: 'j' value: 'add:z:0' } ret { key: 'm' value: 'n' } ",
                   Body("add", "Add", {"i", "n"}), "} }"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "loop"), testing::Contains("^before"));
}

// In TensorFlow it is there when the condition has ended the loop, with all that leads to that.
TEST(FunctionsTest, WhatALoopHandsOnUnchangedIsThereWhenTheLoopHasEnded) {
  const std::string arguments =
      "input_arg { name: 'i' type: DT_FLOAT } input_arg { name: 'n' type: DT_FLOAT } ";
  const auto loop = [&](absl::string_view handed_on) {
    return FromText(absl::StrCat(
        kPlaceholder, Node("loop", "While", {"x", "x"}, Calls("cond", "c") + Calls("body", "b")),
        "library { function { signature { name: 'c' ", arguments,
        "output_arg { name: 'r' type: DT_BOOL } } ret { key: 'r' value: 'less:z:0' } ",
        Body("less", "Less", {"i", "n"}), "} function { signature { name: 'b' ", arguments,
        "output_arg { name: 'j' type: DT_FLOAT } output_arg { name: 'm' type: DT_FLOAT } } ret { key: 'j' "
        "value: 'add:z:0' } ret { key: 'm' value: '",
        handed_on, "' } ", Body("add", "Add", {"i", "n"}), "} }"));
  };
  const auto with_one = loop("n");
  ASSERT_TRUE(with_one.ok()) << with_one.status();
  EXPECT_THAT(Inputs(**with_one, "loop"), ElementsAre("loop/_exit_0:0", "x:0", "^loop/_exit_0"));
  const auto without = loop("add:z:0");
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT(Inputs(**without, "loop"), ElementsAre("loop/_exit_0:0", "loop/_exit_1:0"));
}

// Also where the function does not use the argument: as an op it would.
TEST(FunctionsTest, ACallWaitsForEffectsThatLeadToItsArguments) {
  const std::string calls = Calls("f", "f");
  const auto graph = FromText(
      absl::StrCat(kPlaceholder, Node("printed", "Print", {"x"}), Node("given", "Identity", {"printed"}),
                   Node("call", "StatefulPartitionedCall", {"given", "x"}, calls),
                   Node("outer", "g", {"x"}, ""), Node("pure", "StatefulPartitionedCall", {"x", "x"}, calls),
                   Node("stateless", "f", {"given", "x"}, ""), Function("f", {"a", "b"}, "b", ""),
                   Function("g", {"a"}, "c:output:0",
                            Body("p", "Print", {"a"}) +
                                Body("c", "StatefulPartitionedCall", {"p:z:0", "a"},
                                     calls + "attr { key: 'Tout' value { list { type: DT_FLOAT } } }"))));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "call"), ElementsAre("call/_argument_1:0", "^given"));
  EXPECT_THAT(Inputs(**graph, "outer/_call/c"), testing::Contains("^outer/_call/p"));
  EXPECT_THAT(Inputs(**graph, "pure"), ElementsAre("pure/_argument_1:0"));
  // Its result needs no more than what it is made of, as in TensorFlow.
  EXPECT_THAT(Inputs(**graph, "stateless"), ElementsAre("stateless/_argument_1:0"));
}

// As in TensorFlow: automatic control dependencies make what must run a control result.
TEST(FunctionsTest, OnlyCallsOfFunctionsWithoutControlResultsRunAllThatHasEffects) {
  const std::string printed =
      Body("b", "Identity", {"a"}) + Body("one", "Print", {"a"}) + Body("two", "Print", {"a"});
  const auto graph = FromText(absl::StrCat(
      kPlaceholder, kBoolPlaceholder, Node("all", "f", {"x"}, ""), Node("one", "g", {"x"}, ""),
      Node("if", "If", {"p", "x"}, Calls("then_branch", "f") + Calls("else_branch", "g")),
      Node("loop", "While", {"x"}, Calls("cond", "c") + Calls("body", "f")),
      Function("f", {"a"}, "b:output:0", printed),
      Function("g", {"a"}, "b:output:0", printed, "control_ret { key: 'done' value: 'one' }"),
      "library { function { signature { name: 'c' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: "
      "'r' type: DT_BOOL } } ret { key: 'r' value: 'less:z:0' } ",
      Body("less", "Less", {"a", "a"}), printed, "} }"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "all"), ElementsAre("all/_call/b:0", "^all/_call/one", "^all/_call/two"));
  EXPECT_THAT(Inputs(**graph, "one"), ElementsAre("one/_call/b:0", "^one/_call/one"));
  EXPECT_THAT(Inputs(**graph, "if/_done_then"), ElementsAre("if/_pivot_then:0"));
  EXPECT_THAT(Inputs(**graph, "if/_done_else"), ElementsAre("if/_pivot_else:0", "^if/_else/one"));
  EXPECT_THAT(Inputs(**graph, "loop/_loop_cond"), ElementsAre("loop/_cond/less:0"));
  EXPECT_THAT(Inputs(**graph, "loop/_next_0"), ElementsAre("loop/_body/b:0"));
}

// A node in a branch or a loop of the function itself cannot be waited for.
TEST(FunctionsTest, EffectsBesideBranchesAndLoopsOfAFunctionRun) {
  const std::string two = absl::StrCat(kT, "attr { key: 'N' value { i: 2 } } ");
  const std::string frame = absl::StrCat(kT, "attr { key: 'frame_name' value { s: 'loop' } } ");
  const auto graph = FromText(absl::StrCat(
      kPlaceholder, Node("call", "f", {"x"}, ""),
      Function("f", {"a"}, "print_after:z:0",
               Body("print_before", "Print", {"a"}) + Body("less", "Less", {"a", "a"}) +
                   Body("switch", "Switch", {"a", "less:z:0"}) +
                   Body("print_in_branch", "Print", {"switch:output_true:0"}) +
                   Body("pivot", "Identity", {"switch:output_true:0"}) +
                   Body("inner", "Switch", {"pivot:output:0", "less:z:0"}) +
                   Body("inner_merge", "Merge", {"inner:output_false:0", "inner:output_true:0"}, two) +
                   Body("print_in_merged", "Print", {"inner_merge:output:0"}) +
                   Body("print_at_pivot", "Print", {"a", "^pivot"}) +
                   Body("merge", "Merge", {"switch:output_false:0", "inner_merge:output:0"}, two) +
                   Body("print_merged", "Print", {"merge:output:0"}) +
                   Body("enter", "Enter", {"merge:output:0"}, frame) +
                   Body("loop", "Merge", {"enter:output:0", "next:output:0"}, two) +
                   Body("print_in_cond", "Print", {"loop:output:0"}) +
                   Body("goes_on", "Less", {"print_in_cond:z:0", "print_in_cond:z:0"}) +
                   Body("loop_cond", "LoopCond", {"goes_on:z:0"}, "") +
                   Body("loop_switch", "Switch", {"loop:output:0", "loop_cond:output:0"}) +
                   Body("next", "NextIteration", {"loop_switch:output_true:0"}) +
                   Body("print_in_loop", "Print", {"loop_switch:output_true:0"}) +
                   Body("exit", "Exit", {"loop_switch:output_false:0"}) +
                   Body("print_after", "Print", {"exit:output:0"}))));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "call"), ElementsAre("call/_call/print_after:0", "^call/_call/print_before",
                                                   "^call/_call/print_merged", "^call/_call/print_after"));
}

// In a v1 conditional, only the Switch of the handle says that the call is not to run.
TEST(FunctionsTest, ACallWithHandlesOnlyIsGatedByThem) {
  const std::string resource = "attr { key: 'T' value { type: DT_RESOURCE } } ";
  const std::string function = absl::StrCat(
      "library { function { signature { name: 'f' input_arg { name: 'a' type: DT_RESOURCE } "
      "output_arg { name: 'r' type: DT_FLOAT } } ret { key: 'r' value: 'c:output:0' } ",
      Body("c", "Const", {},
           "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { "
           "dtype: DT_FLOAT tensor_shape {} float_val: 1 } } }"),
      "} }");
  const std::string handle =
      "node { name: 'h' op: 'Placeholder' attr { key: 'dtype' value { type: DT_RESOURCE } } }\n";
  const auto graph =
      FromText(absl::StrCat(handle, kBoolPlaceholder, Node("switch", "Switch", {"h", "p"}, resource),
                            Node("call", "f", {"switch:1"}, ""), function));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Inputs(**graph, "call/_gate"), ElementsAre("switch:1"));
  EXPECT_THAT(Inputs(**graph, "call/_call/c"), ElementsAre("^call/_gate"));
  const auto plain = FromText(absl::StrCat(handle, Node("call", "f", {"h"}, ""), function));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ((*plain)->FindNode("call/_gate"), nullptr);
}

// h(a, d) = a + d is the gradient of g(a) = a.
std::string WithGradientOfItsOwn() {
  return absl::StrCat(Function("g", {"a"}, "b:output:0", Body("b", "Identity", {"a"})),
                      Function("h", {"a", "d"}, "b:z:0", Body("b", "Add", {"a", "d"})),
                      "library { gradient { function_name: 'g' gradient_func: 'h' } }");
}

TEST(FunctionsTest, AGradientGoesThroughThoseThatFunctionsHaveOfTheirOwn) {
  for (const bool is_named : {false, true}) {
    const std::string call =
        is_named ? Body("c", "g", {"a"}, "") : Body("c", "PartitionedCall", {"a"}, Calls("f", "g"));
    const auto graph = FromText(
        absl::StrCat(kPlaceholder, Node("call", "SymbolicGradient", {"x", "x"}, Calls("f", "f")),
                     Function("f", {"a"}, is_named ? "c:r:0" : "c:output:0", call), WithGradientOfItsOwn()));
    ASSERT_TRUE(graph.ok()) << graph.status();
    int num_sums = 0;
    for (const auto& node : (*graph)->nodes()) {
      EXPECT_FALSE(IsRuntimeOp(node->op_name())) << node->Describe();
      num_sums += node->op_name() == "Add";
    }
    EXPECT_EQ(num_sums, 1);
  }
}

struct Refused {
  std::string name;
  std::string graph;
  absl::StatusCode code;
  std::string text;
};

std::vector<Refused> RefusedGraphs() {
  const auto call = [](const std::string& rest) {
    return absl::StrCat(kPlaceholder, Node("call", "PartitionedCall", {"x"}, rest));
  };
  const std::string f = call(Calls("f", "f"));
  const std::string gradient =
      absl::StrCat(kPlaceholder, Node("call", "SymbolicGradient", {"x", "x"}, Calls("f", "f")));
  const std::string copy = Body("b", "Identity", {"a"});
  const std::string no_index = absl::StrCat(kT, "attr { key: 'index' value { i: 1099511627776 } } ");
  const std::string own_result =
      Function("f", {"a"}, "b:output:0", copy + Body("c", "_Retval", {"a"}, no_index),
               "control_ret { key: 'done' value: 'c' }");
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  return {
      {"Missing", call(Calls("f", "g")) + Function("f", {"a"}, "a", ""), absl::StatusCode::kNotFound,
       "Function g is not defined"},
      {"NoAttr", call(""), kInvalid, "attr 'f' must be a function, and is missing"},
      {"WrongAttr", call("attr { key: 'f' value { i: 3 } }"), kInvalid, "and is something else"},
      {"Arity", f + Function("f", {"a", "b"}, "a", ""), kInvalid, "its function takes 2"},
      {"Results",
       call(Calls("f", "f") + "attr { key: 'Tout' value { list { type: DT_FLOAT type: DT_FLOAT } } }") +
           Function("f", {"a"}, "a", ""),
       kInvalid, "attr 'Tout' has 2 types; the function gives 1"},
      {"ResultType",
       call(Calls("f", "f") + "attr { key: 'Tout' value { list { type: DT_INT32 } } }") +
           Function("f", {"a"}, "a", ""),
       kInvalid, "output 0 is DT_INT32 by attr 'Tout'; the function gives DT_FLOAT"},
      {"NoResult", f + Function("f", {"a"}, "nothing:output:0", copy), kInvalid,
       "nothing:output:0 is not found"},
      {"NoOutputArgument", f + Function("f", {"a"}, "b:nothing:0", copy), kInvalid, "b:nothing is not found"},
      {"OutputIndex", f + Function("f", {"a"}, "b:output:1", copy), kInvalid, "b:output:1 is not found"},
      {"NoInput", f + Function("f", {"a"}, "b:output:0", Body("b", "Identity", {"c:output:0"})), kInvalid,
       "node 'b': input c:output:0 is not found"},
      {"NoControlInput", f + Function("f", {"a"}, "b:output:0", Body("b", "Identity", {"a", "^c"})), kInvalid,
       "input ^c is not found"},
      {"NoControlResult",
       f + Function("f", {"a"}, "b:output:0", copy, "control_ret { key: 'done' value: 'c' }"), kInvalid,
       "^c is not found"},
      {"NodeNamedAsAnArgument", f + Function("f", {"a"}, "#7:output:0", Body("#7", "Identity", {"a"})),
       kInvalid, "'#7' is no name of a node"},
      {"TwoNodes", f + Function("f", {"a"}, "b:output:0", copy + copy), kInvalid,
       "Duplicated node name: 'b'"},
      {"TwoArguments", f + Function("f", {"a", "a"}, "a", ""), kInvalid, "Duplicated arg name: 'a'"},
      {"Cycle",
       f + Function("f", {"a"}, "b:z:0", Body("b", "Add", {"a", "c:z:0"}) + Body("c", "Add", {"b:z:0", "a"})),
       kInvalid, "are on a cycle"},
      {"ControlCycle", f + Function("f", {"a"}, "b:output:0", Body("b", "Identity", {"a", "^b"})), kInvalid,
       "are on a cycle"},
      {"NoPlaceholder",
       f + Function("f", {"a"}, "b:output:0",
                    Body("b", "Identity", {"a"}, "attr { key: 'T' value { placeholder: 'T' } }")),
       kInvalid, "Attr T is not found from the call"},
      {"Differing", f + Function("f", {"a"}, "a", "") + Function("f", {"a"}, "b:output:0", copy), kInvalid,
       "a different function with the same name already exists"},
      {"Itself", f + Function("f", {"a"}, "b:output:0", Body("b", "PartitionedCall", {"a"}, Calls("f", "f"))),
       kInvalid, "function 'f' calls itself: f -> f"},
      {"EachOther",
       f + Function("f", {"a"}, "b:r:0", Body("b", "g", {"a"}, "")) +
           Function("g", {"a"}, "b:r:0", Body("b", "f", {"a"}, "")),
       kInvalid, "f -> g -> f"},
      {"OwnArgument", f + Function("f", {"a"}, "c:output:0", Body("c", "_Arg", {}, no_index)), kInvalid,
       "its op is one that only the runtime itself may use"},
      {"OwnArgumentOfAGradient",
       gradient + Function("f", {"a"}, "c:output:0", Body("c", "_Arg", {}, no_index)), kInvalid,
       "_Arg 'c': its op is one that only the runtime itself may use"},
      {"KeptCallOfAGradient",
       gradient +
           Function(
               "f", {"a"}, "c:results:0",
               Body("c", "_FunctionCall", {"a"},
                    "attr { key: 'Tin' value { list { type: DT_FLOAT } } } attr { key: 'Tout' value { list "
                    "{ type: DT_FLOAT } } } attr { key: 'function' value { s: 'x' } }")),
       kInvalid, "_FunctionCall 'c': its op is one that only the runtime itself may use"},
      {"OwnResultOfAGradient", gradient + own_result, kInvalid,
       "_Retval 'c': its op is one that only the runtime itself may use"},
      {"LongList",
       f + Function(
               "f", {"a"}, "b:output:0",
               Body("b", "Split", {"a"}, absl::StrCat(kT, "attr { key: 'num' value { i: 2000000000 } }"))),
       kInvalid, "a list has between 0 and"},
      {"NegativeList",
       f + Function("f", {"a"}, "b:output:0",
                    Body("b", "Split", {"a"}, absl::StrCat(kT, "attr { key: 'num' value { i: -1 } }"))),
       kInvalid, "a list has between 0 and"},
      {"NameIsTaken", f + Node("call/_call/b", "Identity", {"x"}) + Function("f", {"a"}, "b:output:0", copy),
       absl::StatusCode::kAlreadyExists, "call/_call/b"},
      {"WrongType",
       f + "library { function { signature { name: 'f' input_arg { name: 'a' type: DT_INT32 } output_arg { "
           "name: 'r' type: DT_INT32 } } ret { key: 'r' value: 'a' } } }",
       kInvalid, "call/_argument_0"},
      {"Branches",
       absl::StrCat(
           kPlaceholder, kBoolPlaceholder,
           Node("if", "If", {"p", "x"}, Calls("then_branch", "f") + Calls("else_branch", "g")),
           Function("f", {"a"}, "a", ""),
           "library { function { signature { name: 'g' input_arg { name: 'a' type: DT_FLOAT } } } }"),
       kInvalid, "its branches give different tensors"},
      {"NoBranches", absl::StrCat(kPlaceholder, Node("case", "Case", {"x", "x"}, "")), kInvalid,
       "attr 'branches' must be a list of functions"},
      {"NoCondition", Node("if", "If", {}, ""), kInvalid, "has no input"},
      {"OwnGradientOfABranch",
       gradient +
           Function("f", {"a"}, "i:output:0",
                    Body("p", "Placeholder", {}, "attr { key: 'dtype' value { type: DT_BOOL } }") +
                        Body("i", "If", {"p:output:0", "a"},
                             Calls("then_branch", "g") + Calls("else_branch", "g"))) +
           WithGradientOfItsOwn(),
       absl::StatusCode::kUnimplemented, "function 'f' has 'g' as a branch or in a loop"},
  };
}

class RefusedFunctionsTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedFunctionsTest, IsAnErrorOrLeftOut) {
  const absl::Status status = ErrorOf(GetParam().graph);
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().text));
  if (GetParam().name == "Differing") return;  // a fault of the library, whatever is called
  // A client's graph goes without the call, and all of it.
  std::vector<SkippedNode> skipped;
  ImportOptions options;
  options.skipped = &skipped;
  const auto graph = FromText(GetParam().graph + Node("y", "NoOp", {}, ""), options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE((*graph)->FindNode("y"), nullptr);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_THAT(std::string(skipped[0].reason.message()), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(, RefusedFunctionsTest, ::testing::ValuesIn(RefusedGraphs()),
                         [](const auto& info) { return info.param.name; });

// Each function calls the next one twice.
std::string DoublingFunctions(int depth) {
  std::string text = absl::StrCat(kPlaceholder, Node("call", "f0", {"x"}, ""), Node("y", "Identity", {"x"}));
  for (int i = 0; i < depth; ++i) {
    const std::string next = absl::StrCat("f", i + 1);
    text += Function(absl::StrCat("f", i), {"a"}, "c:r:0",
                     Body("b", next, {"a"}, "") + Body("c", next, {"b:r:0"}, ""));
  }
  return text + Function(absl::StrCat("f", depth), {"a"}, "a", "");
}

TEST(FunctionsTest, FunctionsThatDoubleAreRefusedBeforeTheyFillTheMemory) {
  for (const bool by_bytes : {false, true}) {
    std::vector<SkippedNode> skipped;
    ImportOptions options;
    options.skipped = &skipped;
    EXPECT_EQ(options.max_call_nodes, 1'000'000);
    EXPECT_EQ(options.max_call_bytes, int64_t{512} << 20);
    (by_bytes ? options.max_call_bytes : options.max_call_nodes) = 1000;
    const auto graph = FromText(DoublingFunctions(90), options);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ((*graph)->num_nodes(), 2);
    ASSERT_EQ(skipped.size(), 1u);
    EXPECT_EQ(skipped[0].reason.code(), absl::StatusCode::kResourceExhausted) << skipped[0].reason;
  }
}

TEST(FunctionsTest, WhatCallsBecomeIsAdmittedWhileItGrows) {
  const std::string text = DoublingFunctions(8);
  int64_t admitted = 0, limit = int64_t{1} << 40;
  std::vector<SkippedNode> skipped;
  ImportOptions options;
  options.skipped = &skipped;
  options.admit_tensors = [&](int64_t num_bytes) {
    if (num_bytes > limit - admitted) return absl::ResourceExhaustedError("no room");
    admitted += num_bytes;
    return absl::OkStatus();
  };
  const auto graph = FromText(text, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const int64_t num_nodes = (*graph)->num_nodes();
  EXPECT_GT(num_nodes, 1000);
  EXPECT_GE(admitted, num_nodes * 2000);
  EXPECT_LE(admitted, num_nodes * 4000);
  // That ends the import: the call is not merely left out.
  limit = admitted - 1;
  admitted = 0;
  EXPECT_EQ(FromText(text, options).status().message(), "no room");
  // An import that fails early has not been admitted whole.
  admitted = 0;
  limit = num_nodes * 1000;
  EXPECT_EQ(FromText(DoublingFunctions(90), options).status().message(), "no room");
}

// Strings that may name a device are kept for each node that passes one on.
TEST(FunctionsTest, StringsThatCallsPassOnAreAdmitted) {
  constexpr int kCopies = 2000, kLength = 1000;
  const auto admitted = [&](int length) {
    int64_t num_bytes = 0;
    ImportOptions options;
    options.admit_tensors = [&](int64_t more) {
      num_bytes += more;
      return absl::OkStatus();
    };
    const std::string type = "attr { key: 'T' value { type: DT_STRING } }";
    std::string body = Body(
        "s0", "Const", {},
        absl::StrCat("attr { key: 'dtype' value { type: DT_STRING } } attr { key: 'value' value { tensor { "
                     "dtype: DT_STRING tensor_shape {} string_val: '",
                     std::string(length, 'x'), "' } } }"));
    std::string before = "s0:output:0";
    for (int i = 1; i <= kCopies; ++i) {
      const std::string name = absl::StrCat("s", i);
      body += Body(name, "Identity", {before}, type);
      before = absl::StrCat(name, ":output:0");
    }
    body += Body("out", "Identity", {"a", absl::StrCat("^s", kCopies)});
    const std::string text =
        absl::StrCat(kPlaceholder, Node("call", "f", {"x"}, ""), Function("f", {"a"}, "out:output:0", body));
    const auto graph = FromText(text, options);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return num_bytes;
  };
  EXPECT_GT(admitted(kLength) - admitted(1), kCopies * (kLength - 1));
}

// A few bytes of names stand for many: the inputs of one node, each with the name of another.
TEST(FunctionsTest, LongNamesOfInputsAreRefusedBeforeTheyFillTheMemory) {
  const std::string name(10'000, 'n');
  const std::string num = absl::StrCat(kT, "attr { key: 'num' value { i: 100000 } }");
  const std::string n = absl::StrCat(kT, "attr { key: 'N' value { i: 100000 } }");
  const auto refused = [](const std::string& text) {
    const absl::Status status = ErrorOf(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status.message().substr(0, 1000);
    EXPECT_LT(status.message().size(), 100'000u);
  };
  refused(absl::StrCat(
      kPlaceholder, Node("call", "f", {"x"}, ""),
      Function("f", {"a"}, "pack:output:0",
               Body(name, "Split", {"a"}, num) + Body("pack", "Pack", {absl::StrCat(name, ":output")}, n))));
  refused(
      absl::StrCat(kPlaceholder, Node(name, "f", {"x"}, ""),
                   Function("f", {"a"}, "pack:output:0",
                            Body("split", "Split", {"a"}, num) + Body("pack", "Pack", {"split:output"}, n))));
}

// Calls of 30 bytes each must not copy a function of megabytes each.
TEST(FunctionsTest, AFunctionThatCannotBeInstantiatedIsNotCopiedForEachCall) {
  const std::string big = absl::StrCat(
      "attr { key: 'dtype' value { type: DT_STRING } } attr { key: 'value' value { tensor { dtype: DT_STRING "
      "tensor_shape {} string_val: '",
      std::string(16 << 20, 'v'), "' } } }");
  const struct {
    std::string input, attrs, result;
  } faults[] = {{"c:output:0", kT, "big:output:0"},
                {"a", "attr { key: 'T' value { placeholder: 'V' } }", "big:output:0"},
                {"a", kT, "nothing:output:0"}};
  for (const auto& [input, attrs, result] : faults) {
    std::string text = kPlaceholder;
    for (int i = 0; i < 1000; ++i) {
      text += Node(absl::StrCat("call", i), "f", {"x"},
                   absl::StrCat("attr { key: 'U' value { i: ", i / 2, " } }"));
    }
    absl::StrAppend(
        &text,
        "library { function { signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } output_arg ",
        "{ name: 'r' type: DT_FLOAT } attr { name: 'U' type: 'int' } } ret { key: 'r' value: '", result,
        "' } ", Body("big", "Const", {}, big), Body("other", "Identity", {input}, attrs), "} }");
    tensorflow::GraphDef def;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def));
    const std::clock_t begin = std::clock();
    for (int i = 0; i < 200; ++i) {
      const tensorflow::FunctionDefLibrary copy = def.library();
      ASSERT_EQ(copy.function_size(), 1);
    }
    const std::clock_t copied = std::clock();
    std::vector<SkippedNode> skipped;
    ImportOptions options;
    options.skipped = &skipped;
    Graph graph(SomeOps());
    const absl::Status status = ImportGraphDef(def, options, &graph);
    EXPECT_LT(std::clock() - copied, copied - begin);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(skipped.size(), 1000u);
  }
}

TEST(FunctionsTest, BodiesForManyAttrsAreRefusedBeforeTheyFillTheMemory) {
  std::string text = absl::StrCat(kPlaceholder, Node("y", "Identity", {"x"}));
  constexpr int kCalls = 500;
  for (int i = 0; i < kCalls; ++i) {
    text += Node(absl::StrCat("call", i), "f", {"x", "x"},
                 absl::StrCat("attr { key: 'U' value { i: ", i, " } }"));
  }
  std::string body;
  for (int i = 0; i < 10'000; ++i) body += Body(absl::StrCat("b", i), "NoOp", {}, "");
  text +=
      "library { function { signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } attr { name: 'U' "
      "type: "
      "'int' } } " +
      body + "} }";
  std::vector<SkippedNode> skipped;
  ImportOptions options;
  options.skipped = &skipped;
  const auto graph = FromText(text, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(skipped.size(), kCalls);
  EXPECT_EQ(skipped.front().reason.code(), absl::StatusCode::kInvalidArgument) << skipped.front().reason;
  EXPECT_EQ(skipped.back().reason.code(), absl::StatusCode::kResourceExhausted) << skipped.back().reason;
}

TEST(FunctionsTest, FunctionsThatCallEachOtherTooDeepAreRefused) {
  std::string text = absl::StrCat(kPlaceholder, Node("call", "f0", {"x"}, ""));
  for (int i = 0; i < 120; ++i) {
    text += Function(absl::StrCat("f", i), {"a"}, "b:r:0", Body("b", absl::StrCat("f", i + 1), {"a"}, ""));
  }
  text += Function("f120", {"a"}, "a", "");
  EXPECT_THAT(std::string(ErrorOf(text).message()), HasSubstr("more than 100 deep"));
}

// The graph that a node has as the body of its function f.
std::unique_ptr<Graph> BodyOf(const Graph& graph, const std::string& node) {
  const AttrValue* const body = graph.FindNode(node)->FindAttr(BodyAttr("f"));
  EXPECT_NE(body, nullptr);
  ImportOptions options;
  options.lets_runtime_ops_in = true;
  options.max_call_nodes = 0;  // nothing in it is left to expand
  return GraphFromGraphDefBytes(body->get<std::string>(), SomeOps(), options).value();
}

TEST(FunctionsTest, AFunctionOfAKernelStaysWithItsNode) {
  const std::string text = absl::StrCat(
      kPlaceholder, Node("m", "Map", {"x"}, kT + Calls("f", "outer")),
      Function("inner", {"a"}, "p:z:0", Body("p", "Print", {"a"}) + Body("unused", "Add", {"a", "a"})),
      Function("outer", {"a"}, "n:y:0",
               Body("c", "inner", {"a"}, "") + Body("n", "Map", {"c:r:0"}, kT + Calls("f", "inner"))));
  const auto graph = FromText(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->num_nodes(), 2);
  const std::unique_ptr<Graph> outer = BodyOf(**graph, "m");
  EXPECT_NE(outer->FindNode("c/_call/p"), nullptr);
  EXPECT_EQ(Inputs(*outer, "_result_0"), std::vector<std::string>{"n:0"});
  const std::unique_ptr<Graph> inner = BodyOf(*outer, "n");
  EXPECT_EQ(Inputs(*inner, "p"), std::vector<std::string>{"_argument_0:0"});
  EXPECT_EQ(inner->FindNode("unused"), nullptr);
  // A graph that is written and read again has the body, though the library is gone.
  const auto again = GraphFromGraphDefBytes(GraphDefBytes(**graph).value(), SomeOps());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(BodyOf(**again, "m")->FindNode("n"), nullptr);
}

TEST(FunctionsTest, AFunctionOfAKernelThatNamesItselfIsRefused) {
  const std::string text =
      absl::StrCat(kPlaceholder, Node("m", "Map", {"x"}, kT + Calls("f", "f")),
                   Function("f", {"a"}, "n:y:0", Body("n", "Map", {"a"}, kT + Calls("f", "f"))));
  EXPECT_THAT(std::string(ErrorOf(text).message()), HasSubstr("function 'f' calls itself"));
}

// Each level is twice in the one above: 2^40 bodies from two kilobytes.
TEST(FunctionsTest, FunctionsOfKernelsThatGrowAreRefusedBeforeTheyFillTheMemory) {
  std::string text = absl::StrCat(kPlaceholder, Node("m", "Map", {"x"}, kT + Calls("f", "f0")));
  for (int i = 0; i < 40; ++i) {
    const std::string next = kT + Calls("f", absl::StrCat("f", i + 1));
    text += Function(absl::StrCat("f", i), {"a"}, "n:y:0",
                     Body("k", "Map", {"a"}, next) + Body("n", "Map", {"k:y:0"}, next));
  }
  text += Function("f40", {"a"}, "a", "");
  ImportOptions options;
  options.max_call_nodes = 10'000;
  EXPECT_EQ(FromText(text, options).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace weir
