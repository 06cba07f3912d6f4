// Functions that are wrong, and those that would fill the memory.
#include <ctime>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/test_functions.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using function_text::Body;
using function_text::Calls;
using function_text::FromText;
using function_text::Function;
using function_text::kBoolPlaceholder;
using function_text::kPlaceholder;
using function_text::kT;
using function_text::Node;
using function_text::SomeOps;
using function_text::WithGradientOfItsOwn;
using ::testing::HasSubstr;

absl::Status ErrorOf(const std::string& text) { return FromText(text).status(); }

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

TEST(HostileFunctionsTest, FunctionsThatDoubleAreRefusedBeforeTheyFillTheMemory) {
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

// A million nodes were copied before they were too many.
TEST(HostileFunctionsTest, FunctionsThatDoubleAreRefusedBeforeAnythingIsCopied) {
  int64_t admitted = 0;
  std::vector<SkippedNode> skipped;
  ImportOptions options;
  options.skipped = &skipped;
  options.admit_tensors = [&](int64_t num_bytes) {
    admitted += num_bytes;
    return absl::OkStatus();
  };
  const auto graph = FromText(DoublingFunctions(25), options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_EQ(skipped[0].reason.code(), absl::StatusCode::kResourceExhausted) << skipped[0].reason;
  EXPECT_LT(admitted, 1 << 20);
}

TEST(HostileFunctionsTest, WhatCallsBecomeIsAdmittedWhileItGrows) {
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
  EXPECT_EQ(FromText(DoublingFunctions(16), options).status().message(), "no room");
}

// Strings that may name a device are kept for each node that passes one on.
TEST(HostileFunctionsTest, StringsThatCallsPassOnAreAdmitted) {
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
TEST(HostileFunctionsTest, LongNamesOfInputsAreRefusedBeforeTheyFillTheMemory) {
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
TEST(HostileFunctionsTest, AFunctionThatCannotBeInstantiatedIsNotCopiedForEachCall) {
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

TEST(HostileFunctionsTest, BodiesForManyAttrsAreRefusedBeforeTheyFillTheMemory) {
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

TEST(HostileFunctionsTest, FunctionsThatCallEachOtherTooDeepAreRefused) {
  std::string text = absl::StrCat(kPlaceholder, Node("call", "f0", {"x"}, ""));
  for (int i = 0; i < 120; ++i) {
    text += Function(absl::StrCat("f", i), {"a"}, "b:r:0", Body("b", absl::StrCat("f", i + 1), {"a"}, ""));
  }
  text += Function("f120", {"a"}, "a", "");
  EXPECT_THAT(std::string(ErrorOf(text).message()), HasSubstr("more than 100 deep"));
}

TEST(HostileFunctionsTest, AFunctionOfAKernelThatNamesItselfIsRefused) {
  const std::string text =
      absl::StrCat(kPlaceholder, Node("m", "Map", {"x"}, kT + Calls("f", "f")),
                   Function("f", {"a"}, "n:y:0", Body("n", "Map", {"a"}, kT + Calls("f", "f"))));
  EXPECT_THAT(std::string(ErrorOf(text).message()), HasSubstr("function 'f' calls itself"));
}

// Each level is twice in the one above: 2^40 bodies from two kilobytes.
TEST(HostileFunctionsTest, FunctionsOfKernelsThatGrowAreRefusedBeforeTheyFillTheMemory) {
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
