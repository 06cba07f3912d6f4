// Damaged and hostile functions must be errors, or leave out the nodes that call them: never a crash, a hang,
// or memory beyond what the limits of graph/interchange/function_expansion.h allow. What is imported can be
// written and read again.
#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/proto/graph.pb.h"
#include "gtest/gtest.h"
#include "ops/register_ops.h"
#include "tests/fuzz/mutator.h"

namespace weir {
namespace {

// Calls of all kinds, one in the other.
constexpr char kGraph[] = R"(
node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }
node { name: 'p' op: 'Placeholder' attr { key: 'dtype' value { type: DT_BOOL } } }
node { name: 'n' op: 'Placeholder' attr { key: 'dtype' value { type: DT_INT32 } } }
node { name: 'call' op: 'StatefulPartitionedCall' input: 'x' input: '^p' attr { key: 'f' value { func { name: 'f' } } } }
node { name: 'named' op: 'g' input: 'call' attr { key: 'T' value { type: DT_FLOAT } } }
node { name: 'if' op: 'If' input: 'p' input: 'x' attr { key: 'then_branch' value { func { name: 'f' } } }
  attr { key: 'else_branch' value { func { name: 'g' attr { key: 'T' value { type: DT_FLOAT } } } } } }
node { name: 'case' op: 'Case' input: 'n' input: 'x' attr { key: 'branches' value { list { func { name: 'f' }
  func { name: 'g' attr { key: 'T' value { type: DT_FLOAT } } } } } } }
node { name: 'while' op: 'While' input: 'x' input: 'named' attr { key: 'cond' value { func { name: 'c' } } }
  attr { key: 'body' value { func { name: 'b' } } } }
library {
  function { signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }
    ret { key: 'r' value: 'sum:sum:0' } control_ret { key: 'done' value: 'sum' }
    node_def { name: 'twice' op: 'AddV2' input: 'a' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }
    node_def { name: 'many' op: 'Pack' input: 'a' input: 'twice:z:0' attr { key: 'N' value { i: 2 } }
      attr { key: 'T' value { type: DT_FLOAT } } }
    node_def { name: 'few' op: 'Unpack' input: 'many:output:0' attr { key: 'num' value { i: 2 } }
      attr { key: 'T' value { type: DT_FLOAT } } }
    node_def { name: 'sum' op: 'AddN' input: 'few:output' input: '^twice' attr { key: 'N' value { i: 2 } }
      attr { key: 'T' value { type: DT_FLOAT } } attr { key: '_class' value { list { s: 'loc:@twice' } } } } }
  function { signature { name: 'g' input_arg { name: 'a' type_attr: 'T' } output_arg { name: 'r' type_attr: 'T' }
      attr { name: 'T' type: 'type' } is_stateful: true }
    ret { key: 'r' value: 'inner:output:0' }
    node_def { name: 'inner' op: 'PartitionedCall' input: 'a' device: '/device:CPU:0'
      attr { key: 'f' value { func { name: 'f' } } } attr { key: 'Tout' value { list { type: DT_FLOAT } } } } }
  function { signature { name: 'c' input_arg { name: 'i' type: DT_FLOAT } input_arg { name: 'k' type: DT_FLOAT }
      output_arg { name: 'r' type: DT_BOOL } }
    ret { key: 'r' value: 'less:z:0' }
    node_def { name: 'less' op: 'Less' input: 'i' input: 'k' attr { key: 'T' value { type: DT_FLOAT } } } }
  function { signature { name: 'b' input_arg { name: 'i' type: DT_FLOAT } input_arg { name: 'k' type: DT_FLOAT }
      output_arg { name: 'j' type: DT_FLOAT } output_arg { name: 'l' type: DT_FLOAT } }
    ret { key: 'j' value: 'next:r:0' } ret { key: 'l' value: 'k' }
    node_def { name: 'next' op: 'g' input: 'i' attr { key: 'T' value { type: DT_FLOAT } } } }
}
)";

class FunctionsFuzzTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { google::protobuf::SetLogHandler(nullptr); }

  // How many of the calls are there.
  int NumCalls(const Graph& graph) {
    int count = 0;
    for (const char* name : {"call", "named", "if", "case", "while"})
      count += graph.FindNode(name) != nullptr;
    return count;
  }

  void Import(const absl::StatusOr<std::unique_ptr<Graph>>& graph) {
    if (!graph.ok()) {
      EXPECT_FALSE(graph.status().message().empty());
      return;
    }
    num_calls_ += NumCalls(**graph);
    EXPECT_LE((*graph)->num_nodes(), 1'000'000);
    const absl::StatusOr<std::string> bytes = GraphDefBytes(**graph);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    std::vector<SkippedNode> skipped;
    ImportOptions options;
    options.skipped = &skipped;
    const auto again = GraphFromGraphDefBytes(*bytes, StandardOps(), options);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->num_nodes(), (*graph)->num_nodes());
  }

  int64_t num_calls_ = 0;
};

TEST_F(FunctionsFuzzTest, TheSampleIsImported) {
  const auto graph = GraphFromGraphDefText(kGraph, StandardOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(NumCalls(**graph), 5);
}

TEST_F(FunctionsFuzzTest, Bytes) {
  tensorflow::GraphDef sample;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kGraph, &sample));
  Mutator mutator({sample.SerializeAsString()}, 1);
  for (int i = 0; i < 4000; ++i) {
    const std::string bytes = mutator.Next();
    std::vector<SkippedNode> skipped;
    ImportOptions options;
    options.skipped = &skipped;
    Import(GraphFromGraphDefBytes(bytes, StandardOps(), i % 2 == 0 ? options : ImportOptions()));
    if (HasFatalFailure()) FAIL() << "round " << i;
  }
  EXPECT_GT(num_calls_, 100);
}

// Names that name each other's places: calls of oneself, cycles, arguments where nodes are meant.
TEST_F(FunctionsFuzzTest, NamesThatAreExchanged) {
  tensorflow::GraphDef sample;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kGraph, &sample));
  Mutator random({"-"}, 2);
  for (int i = 0; i < 4000; ++i) {
    tensorflow::GraphDef def = sample;
    std::vector<std::string*> names;
    for (auto& function : *def.mutable_library()->mutable_function()) {
      for (auto& node : *function.mutable_node_def()) {
        names.push_back(node.mutable_name());
        names.push_back(node.mutable_op());
        for (std::string& input : *node.mutable_input()) names.push_back(&input);
        for (auto& [name, attr] : *node.mutable_attr()) {
          if (attr.has_func()) names.push_back(attr.mutable_func()->mutable_name());
        }
      }
      for (auto& [name, value] : *function.mutable_ret()) names.push_back(&value);
      for (auto& arg : *function.mutable_signature()->mutable_input_arg())
        names.push_back(arg.mutable_name());
    }
    for (int swaps = 0; swaps < 1 + i % 3; ++swaps) {
      *names[random.Below(names.size())] = *names[random.Below(names.size())];
    }
    std::vector<SkippedNode> skipped;
    ImportOptions options;
    options.skipped = &skipped;
    Import(GraphFromGraphDefBytes(def.SerializeAsString(), StandardOps(), options));
    if (HasFatalFailure()) FAIL() << "round " << i;
  }
  EXPECT_GT(num_calls_, 100);
}

}  // namespace
}  // namespace weir
