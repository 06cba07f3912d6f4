// What calls of functions become.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/function_bodies.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/test_functions.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using function_text::Body;
using function_text::Calls;
using function_text::FromText;
using function_text::Function;
using function_text::Inputs;
using function_text::kBoolPlaceholder;
using function_text::kPlaceholder;
using function_text::kT;
using function_text::Node;
using function_text::SomeOps;
using function_text::WithGradientOfItsOwn;
using ::testing::ElementsAre;

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

}  // namespace
}  // namespace weir
