// Programs with TensorFlow 1's reference variables: what they read and when, after import as resource
// variables.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/test_import.h"
#include "graph/rewrite/prune.h"
#include "graph/types/status_macros.h"
#include "session/fetched_references.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFloat[] = "attr { key: 'T' value { type: DT_FLOAT } }";

std::string Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& rest = kFloat) {
  std::string text = "node { name: '" + name + "' op: '" + op + "' ";
  for (const std::string& input : inputs) text += "input: '" + input + "' ";
  return text + rest + " }\n";
}

std::string Constant(const std::string& name, float value) {
  return Node(
      name, "Const", {},
      "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { dtype: DT_FLOAT "
      "tensor_shape {} float_val: " +
          std::to_string(value) + " } } }");
}

std::string Integer(const std::string& name, int value) {
  return Node(name, "Const", {},
              "attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value' value { tensor { dtype: "
              "DT_INT32 tensor_shape {} int_val: " +
                  std::to_string(value) + " } } }");
}

std::string Variable(const std::string& name, const std::string& op = "VariableV2") {
  return Node(name, op, {},
              "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' value { shape {} } }");
}

class ReferencesTest : public testing::Test {
 protected:
  void Import(const std::string& text) {
    auto graph = GraphFromGraphDefText(text, runtime_->ops());
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
    session_ = Session::Create(*graph_, {&worker_}, runtime_->kernels()).value();
  }

  // Adds to what was imported; a session after that.
  void ImportMore(const std::string& text) {
    const absl::Status imported = ImportGraphDefText(text, graph_.get());
    ASSERT_TRUE(imported.ok()) << imported;
    session_ = Session::Create(*graph_, {&worker_}, runtime_->kernels()).value();
  }

  absl::StatusOr<float> Fetch(const std::string& name) {
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session_->Run({}, {name}));
    return values[0].scalar<float>();
  }
  void Run(const std::string& target) {
    const auto done = session_->Run({}, {}, {target});
    ASSERT_TRUE(done.ok()) << done.status();
  }

  std::unique_ptr<Runtime> runtime_ = Runtime::Create({.num_cpus = 2}).value();
  LocalWorker worker_{*runtime_, runtime_->task()};
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Session> session_;
};

TEST_F(ReferencesTest, AFetchedReferenceHasWhatTheStepsUpdatesMade) {
  Import(Variable("v") + Constant("two", 2) + Node("assign", "Assign", {"v", "two"}) +
         Node("slow", "Square", {"two"}) + Node("slower", "Square", {"slow"}) +
         Node("add", "AssignAdd", {"v", "slower"}) + Node("read", "Identity", {"v"}));
  Run("assign");
  float expected = 2;
  for (int i = 0; i < 20; ++i) {
    const auto values = session_->Run({}, {"v:0"}, {"add"});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ((*values)[0].scalar<float>(), expected += 16);
  }
  EXPECT_EQ(Fetch("v:0").value(), expected) << "no update runs for a fetch alone";
}

// What an Identity or a Reshape gives is the buffer as well, also where something reads it before the update.
TEST_F(ReferencesTest, AFetchOfWhatPassesTheBufferOnHasTheUpdatesToo) {
  Import(Variable("v") + Constant("two", 2) + Constant("nine", 9) + Node("init", "Assign", {"v", "two"}) +
         Node("alone", "Identity", {"v"}) + Node("read", "Identity", {"v"}) +
         Node("copy", "StopGradient", {"read"}) + Node("used", "Mul", {"read", "two"}) +
         Node("late", "Assign", {"v", "nine", "^used", "^copy"}) + Integer("zero", 0) +
         Node("deep", "ExpandDims", {"read", "zero"}));
  Run("init");
  const auto values = session_->Run({}, {"alone:0", "read:0", "copy:0", "deep:0", "used:0"}, {"late"});
  ASSERT_TRUE(values.ok()) << values.status();
  for (int i = 0; i < 4; ++i) EXPECT_EQ((*values)[i].flat<float>()[0], 9) << i;
  EXPECT_EQ((*values)[3].shape(), Shape({1}));
  EXPECT_EQ((*values)[4].scalar<float>(), 4) << "it was computed before";
}

// All nodes were looked at for each of them: this took minutes.
TEST_F(ReferencesTest, ManyReferencesAreFetched) {
  constexpr int kVariables = 30'000;
  std::string text = Constant("two", 2);
  for (int i = 0; i < kVariables; ++i) {
    const std::string name = "v" + std::to_string(i);
    text += Variable(name) + Node(name + "_set", "Assign", {name, "two"});
  }
  const auto graph = GraphFromGraphDefText(text, runtime_->ops());
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<Output> reads;
  std::vector<weir::Node*> targets;
  for (int i = 0; i < kVariables; ++i) {
    const std::string name = "v" + std::to_string(i);
    reads.push_back((*graph)->StandIn({(*graph)->FindNode(name), 0}).value());
    targets.push_back((*graph)->FindNode(name + "_set"));
  }
  const auto pruned = PruneToSignature(**graph, {}, reads, targets);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  ASSERT_TRUE(ReadFetchedReferencesLast(**graph, **pruned).ok());
  const auto before = (*pruned)->FindNode(reads.back().node->name())->control_inputs();
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before[0]->name(), targets.back()->name());
}

// Each was named after the read, and the names grew with their number.
TEST_F(ReferencesTest, ManyFetchesShareABuffer) {
  constexpr int kFetches = 30'000;
  std::string text = Variable("v") + Constant("two", 2) + Node("read", "Identity", {"v"}) +
                     Node("used", "Mul", {"read", "two"}) + Node("late", "AssignAdd", {"v", "two", "^used"}) +
                     Node("later", "AssignAdd", {"v", "two", "^late"});
  for (int i = 0; i < kFetches; ++i) text += Node("f" + std::to_string(i), "Identity", {"read"});
  const auto graph = GraphFromGraphDefText(text, runtime_->ops());
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<Output> fetches;
  for (int i = 0; i < kFetches; ++i) fetches.push_back({(*graph)->FindNode("f" + std::to_string(i)), 0});
  const auto pruned = PruneToSignature(**graph, {}, fetches, {(*graph)->FindNode("later")});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  const int num_nodes = (*pruned)->num_nodes();
  ASSERT_TRUE(ReadFetchedReferencesLast(**graph, **pruned).ok());
  EXPECT_EQ((*pruned)->num_nodes(), num_nodes + kFetches + 1)
      << "a read each, and one node after the updates";
  const weir::Node* const last = (*pruned)->FindNode("f7/last_read");
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->control_inputs().size(), 2u);
}

TEST_F(ReferencesTest, AReferenceIsFetchedAsItsValue) {
  Import(Variable("v") + Constant("two", 2) + Node("assign", "Assign", {"v", "two"}) +
         Node("add", "AssignAdd", {"v", "two"}) + Node("read", "Identity", {"v"}));
  const auto uninitialized = Fetch("v:0");
  EXPECT_EQ(uninitialized.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(uninitialized.status().message()),
              HasSubstr("Attempting to use uninitialized value v"));
  EXPECT_EQ(Fetch("assign:0").value(), 2);
  EXPECT_EQ(Fetch("v:0").value(), 2);
  EXPECT_EQ(Fetch("add:0").value(), 4);
  EXPECT_EQ(Fetch("read:0").value(), 4);
}

TEST_F(ReferencesTest, AVariableOfTheFirstVersionHasTheShapeOfItsValue) {
  Import(Variable("v", "Variable") + Constant("two", 2) + Node("assign", "Assign", {"v", "two"}));
  EXPECT_EQ(Fetch("assign:0").value(), 2);
}

// c reads the variable after what it is told to run after, and after what passed the reference on.
TEST_F(ReferencesTest, AConsumerReadsWhenItRuns) {
  Import(Variable("v") + Constant("two", 2) + Constant("three", 3) + Node("init", "Assign", {"v", "two"}) +
         Node("add", "AssignAdd", {"v", "three"}) + Node("after", "Mul", {"v", "v", "^add"}) +
         Node("passed", "Mul", {"add", "two"}) + Node("twice", "AssignAdd", {"add", "two"}) +
         Node("identity", "RefIdentity", {"v", "^add"}) + Node("through", "Mul", {"identity", "two"}) +
         Node("doubled", "AssignAdd", {"v", "v"}) + Node("negative", "Neg", {"add"}) +
         Node("beside", "Mul", {"v", "negative"}));
  Run("init");
  EXPECT_EQ(Fetch("after:0").value(), 25);
  Run("init");
  EXPECT_EQ(Fetch("passed:0").value(), 10);
  Run("init");
  EXPECT_EQ(Fetch("twice:0").value(), 7);
  Run("init");
  EXPECT_EQ(Fetch("through:0").value(), 10);
  Run("init");
  EXPECT_EQ(Fetch("doubled:0").value(), 4);
  Run("init");
  EXPECT_EQ(Fetch("beside:0").value(), -25);
}

// What an Identity gives is not copied: who runs after an update sees it, also through several of them.
TEST_F(ReferencesTest, AnIdentityGivesTheVariablesBuffer) {
  Import(Variable("v") + Constant("two", 2) + Constant("three", 3) + Node("init", "Assign", {"v", "two"}) +
         Node("read", "Identity", {"v"}) + Node("add", "AssignAdd", {"v", "three"}) +
         Node("before", "Mul", {"read", "two"}) + Node("after", "Mul", {"read", "two", "^add"}) +
         Node("copy", "Identity", {"read"}) + Node("through", "Sub", {"copy", "read", "^add"}) +
         Node("negative", "Neg", {"add"}) + Node("behind", "Mul", {"copy", "negative"}) +
         Node("average", "AssignSub", {"add", "copy"}));
  Run("init");
  EXPECT_EQ(Fetch("before:0").value(), 4);
  EXPECT_EQ(Fetch("after:0").value(), 10);
  Run("init");
  EXPECT_EQ(Fetch("through:0").value(), 0);
  Run("init");
  EXPECT_EQ(Fetch("behind:0").value(), -25);
  Run("init");
  EXPECT_EQ(Fetch("average:0").value(), 0);
}

// The default of Assign is another than that of the op that takes its place.
TEST_F(ReferencesTest, AssignChecksTheShapeUnlessToldOtherwise) {
  const std::string variable = Node("v", "VariableV2", {},
                                    "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' "
                                    "value { shape { unknown_rank: true } } }");
  const std::string pair =
      Node("pair", "Pack", {"two", "two"}, std::string(kFloat) + " attr { key: 'N' value { i: 2 } }");
  Import(variable + Constant("two", 2) + pair + Node("init", "Assign", {"v", "two"}) +
         Node("other", "Assign", {"v", "pair"}) +
         Node("any", "Assign", {"v", "pair"},
              std::string(kFloat) + " attr { key: 'validate_shape' value { b: false } }"));
  Run("init");
  const auto refused = session_->Run({}, {}, {"other"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
  Run("any");
}

TEST_F(ReferencesTest, AnAssignWithoutChecksMayChangeTheShapeThatTheVariableDeclares) {
  const std::string pair =
      Node("pair", "Pack", {"two", "two"}, std::string(kFloat) + " attr { key: 'N' value { i: 2 } }");
  Import(Variable("v") + Constant("two", 2) + pair + Node("init", "Assign", {"v", "two"}) +
         Node("any", "Assign", {"v", "pair"},
              std::string(kFloat) + " attr { key: 'validate_shape' value { b: false } }"));
  Run("init");
  const auto changed = session_->Run({}, {"any:0"});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)[0].shape(), Shape({2}));
}

// Also one that comes when steps have been compiled for the shape that the variable declares.
TEST_F(ReferencesTest, AnAssignThatComesLaterMayChangeTheShapeToo) {
  Import(Variable("v") + Constant("two", 2) + Node("init", "Assign", {"v", "two"}) +
         Node("read", "Identity", {"v"}) + Node("twice", "Add", {"read", "read"}) +
         Node("size", "Size", {"twice"}));
  Run("init");
  const auto sizes = [&] {
    const auto values = session_->Run({}, {"v:0", "twice:0", "size:0"});
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok()) return std::vector<int64_t>();
    return std::vector<int64_t>{(*values)[0].num_elements(), (*values)[1].num_elements(),
                                (*values)[2].scalar<int32_t>()};
  };
  EXPECT_THAT(sizes(), ElementsAre(1, 1, 1));
  const std::string triple = Node("triple", "Pack", {"two", "two", "two"},
                                  std::string(kFloat) + " attr { key: 'N' value { i: 3 } }");
  const std::string any_shape = std::string(kFloat) + " attr { key: 'validate_shape' value { b: false } }";
  // Through a node that only passes the reference on. As the graphs of clients grow.
  std::vector<SkippedNode> skipped;
  ImportOptions options;
  options.skipped = &skipped;
  const absl::Status grown = session_->Extend([&] {
    return ImportGraphDefText(
        triple + Node("same", "RefIdentity", {"v"}) + Node("any", "Assign", {"same", "triple"}, any_shape),
        graph_.get(), options);
  });
  ASSERT_TRUE(grown.ok()) << grown;
  EXPECT_TRUE(skipped.empty());
  EXPECT_THAT(sizes(), ElementsAre(1, 1, 1));
  Run("any");
  EXPECT_THAT(sizes(), ElementsAre(3, 3, 3));
  Run("any");
  const auto refused = session_->Run({}, {}, {"init"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
}

// A read is before the updates of a step where nothing else is said, but for the stand-in of a reference.
TEST_F(ReferencesTest, ANodeThatOnlyHasTheNameOfAStandInIsNotReadLast) {
  const std::string dtype = "attr { key: 'dtype' value { type: DT_FLOAT } }";
  Import(Variable("v") + Constant("two", 2) + Node("init", "Assign", {"v", "two"}) +
         Node("h", "VarHandleOp", {}, dtype + "attr { key: 'shape' value { shape {} } }") +
         Node("set", "AssignVariableOp", {"h", "two"}, dtype) +
         Node("h/ref_value", "ReadVariableOp", {"h"}, dtype) +
         Node("add", "AssignAddVariableOp", {"h", "two"}, dtype) + Node("add_v", "AssignAdd", {"v", "two"}));
  Run("init");
  Run("set");
  const auto values = session_->Run({}, {"h/ref_value:0", "v:0"}, {"add", "add_v"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 2);
  EXPECT_EQ((*values)[1].scalar<float>(), 4);
}

TEST_F(ReferencesTest, ConditionalsPassReferencesOn) {
  Import(Variable("v") + Constant("two", 2) + Node("init", "Assign", {"v", "two"}) +
         Node("is_ready", "IsVariableInitialized", {"v"}, "attr { key: 'dtype' value { type: DT_FLOAT } }") +
         Node("switch", "RefSwitch", {"v", "is_ready"}) + Node("yes", "Identity", {"switch:1"}) +
         Node("zero", "Const", {"^switch/no"},
              "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { dtype: "
              "DT_FLOAT "
              "tensor_shape {} float_val: 0 } } }") +
         Node("switch/no", "Switch", {"two", "is_ready"}) + Node("no", "Mul", {"switch/no", "zero"}) +
         Node("merge", "Merge", {"no", "yes"}, std::string(kFloat) + " attr { key: 'N' value { i: 2 } }"));
  EXPECT_EQ(Fetch("merge:0").value(), 0);
  Run("init");
  EXPECT_EQ(Fetch("merge:0").value(), 2);
}

// As rewrites of TensorFlow write a moving average that begins with the first value.
TEST_F(ReferencesTest, NothingIsReadForANodeThatDoesNotRun) {
  Import(
      Variable("v") + Constant("two", 2) +
      Node("is_ready", "IsVariableInitialized", {"v"}, "attr { key: 'dtype' value { type: DT_FLOAT } }") +
      Node("switch", "Switch", {"two", "is_ready"}) + Node("difference", "Sub", {"v", "switch:1"}) +
      Node("negative", "Neg", {"switch:1"}) + Node("sum", "Sub", {"v", "negative"}) +
      Node("later", "AddV2", {"difference", "sum"}) +
      Node("merge", "Merge", {"switch", "later"}, std::string(kFloat) + " attr { key: 'N' value { i: 2 } }") +
      Node("assign", "Assign", {"v", "merge"}));
  EXPECT_EQ(Fetch("assign:0").value(), 2);
  EXPECT_EQ(Fetch("assign:0").value(), 4);  // 2 - 2 + 2 + 2
  EXPECT_EQ(Fetch("assign:0").value(), 8);
}

// The same where the branch is of a RefSwitch.
TEST_F(ReferencesTest, NothingIsReadForANodeInTheBranchOfARefSwitch) {
  Import(Variable("v") + Variable("w") + Constant("two", 2) + Node("init", "Assign", {"v", "two"}) +
         Node("set", "Assign", {"w", "two"}) +
         Node("is_ready", "IsVariableInitialized", {"w"}, "attr { key: 'dtype' value { type: DT_FLOAT } }") +
         Node("switch", "RefSwitch", {"v", "is_ready"}) + Node("sum", "AddV2", {"w", "switch:1"}) +
         Node("other", "Identity", {"switch"}) +
         Node("merge", "Merge", {"other", "sum"}, std::string(kFloat) + " attr { key: 'N' value { i: 2 } }"));
  Run("init");
  EXPECT_EQ(Fetch("merge:0").value(), 2);
  Run("set");
  EXPECT_EQ(Fetch("merge:0").value(), 4);
}

// A client sends a graph in parts.
TEST_F(ReferencesTest, NothingIsReadForANodeInABranchOfAnEarlierPart) {
  Import(Variable("v") + Variable("w") + Constant("two", 2) + Node("init", "Assign", {"v", "two"}) +
         Node("set", "Assign", {"w", "two"}) +
         Node("is_ready", "IsVariableInitialized", {"w"}, "attr { key: 'dtype' value { type: DT_FLOAT } }") +
         Node("switch", "Switch", {"two", "is_ready"}) + Node("ref_switch", "RefSwitch", {"v", "is_ready"}));
  ImportMore(
      Node("sum", "AddV2", {"w", "switch:1"}) + Node("difference", "Sub", {"w", "ref_switch:1"}) +
      Node("merge", "Merge", {"switch", "sum"}, std::string(kFloat) + " attr { key: 'N' value { i: 2 } }") +
      Node("ref_merge", "Merge", {"switch", "difference"},
           std::string(kFloat) + " attr { key: 'N' value { i: 2 } }"));
  Run("init");
  EXPECT_EQ(Fetch("merge:0").value(), 2);
  EXPECT_EQ(Fetch("ref_merge:0").value(), 2);
  Run("set");
  EXPECT_EQ(Fetch("merge:0").value(), 4);
  EXPECT_EQ(Fetch("ref_merge:0").value(), 0);
}

// A value that comes from elsewhere changes nothing for those that are beside their consumer.
TEST_F(ReferencesTest, NothingIsReadBesideANodeThatDoesNotRun) {
  const std::string here = "device: '/device:CPU:0' ", there = "device: '/device:CPU:1' ";
  const std::string variable =
      "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' value { shape {} } }";
  Import(
      Node("v", "VariableV2", {}, there + variable) + Node("w", "VariableV2", {}, here + variable) +
      Constant("two", 2) + Node("init", "Assign", {"v", "two"}, there + kFloat) +
      Node("set", "Assign", {"w", "two"}, here + kFloat) +
      Node("is_ready", "IsVariableInitialized", {"w"}, "attr { key: 'dtype' value { type: DT_FLOAT } }") +
      Node("switch", "Switch", {"two", "is_ready"}, here + kFloat) +
      Node("sum", "AddN", {"v", "w", "switch:1"}, here + kFloat + " attr { key: 'N' value { i: 3 } }") +
      Node("merge", "Merge", {"switch", "sum"}, std::string(kFloat) + " attr { key: 'N' value { i: 2 } }"));
  Run("init");
  EXPECT_EQ(Fetch("merge:0").value(), 2);
  Run("set");
  EXPECT_EQ(Fetch("merge:0").value(), 6);
}

// As tf.cond and tf.while_loop pass them on.
TEST_F(ReferencesTest, HandlesThatWereReferencesArePassedOn) {
  const std::string types = "attr { key: 'component_types' value { list { type: DT_FLOAT } } }";
  const std::string of_enqueue = "attr { key: 'Tcomponents' value { list { type: DT_FLOAT } } }";
  const std::string text = "attr { key: 'T' value { type: DT_STRING } } ";
  const std::string frame = text + "attr { key: 'frame_name' value { s: 'f' } } ";
  const std::string constant = "attr { key: 'is_constant' value { b: true } } ";
  Import(
      Constant("two", 2) + Node("queue", "FIFOQueue", {}, types) +
      Node(
          "truth", "Const", {},
          "attr { key: 'dtype' value { type: DT_BOOL } } attr { key: 'value' value { tensor { dtype: DT_BOOL "
          "tensor_shape {} bool_val: true } } }") +
      Node("switch", "RefSwitch", {"queue", "truth"}, text) +
      Node("same", "RefIdentity", {"switch:1"}, text) + Node("again", "Identity", {"same"}, text) +
      Node("put", "QueueEnqueue", {"again", "two"}, of_enqueue) +
      Node("never", "QueueEnqueue", {"switch:0", "two"}, of_enqueue) +
      Node("enter", "RefEnter", {"queue"}, frame + constant) + Node("get", "QueueDequeue", {"enter"}, types) +
      Node("exit", "Exit", {"get"}));
  Run("put");
  Run("never");
  Run("put");
  EXPECT_EQ(Fetch("exit:0").value(), 2);
  ImportMore(Node("later", "Identity", {"queue"}, text) + Node("size", "QueueSize", {"later"}, ""));
  Run("put");
  EXPECT_EQ(session_->Run({}, {"size:0"}).value()[0].scalar<int32_t>(), 1);
}

// A string is no handle, though references to strings were handles.
TEST_F(ReferencesTest, AStringVariableIsReadAndSetByLaterNodes) {
  const std::string text = "attr { key: 'T' value { type: DT_STRING } } ";
  const auto constant = [](const std::string& name, const std::string& type, const std::string& value) {
    return Node(name, "Const", {},
                "attr { key: 'dtype' value { type: " + type +
                    " } } attr { key: 'value' value { tensor { dtype: " + type + " tensor_shape {} " + value +
                    " } } }");
  };
  Import(Node("v", "VariableV2", {},
              "attr { key: 'dtype' value { type: DT_STRING } } attr { key: 'shape' value { shape {} } }") +
         constant("a", "DT_STRING", "string_val: 'a'") + constant("b", "DT_STRING", "string_val: 'b'") +
         constant("yes", "DT_BOOL", "bool_val: true") + Node("init", "Assign", {"v", "a"}, text));
  Run("init");
  ImportMore(Node("read", "Identity", {"v"}, text) + Node("switch", "RefSwitch", {"v", "yes"}, text) +
             Node("set", "Assign", {"switch:1", "b"}, text));
  const auto read = [&] { return session_->Run({}, {"read:0"}).value()[0].scalar<std::string>(); };
  EXPECT_EQ(read(), "a");
  Run("set");
  EXPECT_EQ(read(), "b");
}

// They have no successors whose handles are resources.
TEST_F(ReferencesTest, HandlesOfBarriersAndAccumulatorsArePassedOn) {
  const std::string text = "attr { key: 'T' value { type: DT_STRING } } ";
  const std::string frame = text +
                            "attr { key: 'frame_name' value { s: 'f' } } "
                            "attr { key: 'is_constant' value { b: true } } ";
  const std::string number = "attr { key: 'T' value { type: DT_INT32 } } ";
  const auto expect_passed_on = [&](const std::string& made, const std::string& count) {
    session_ = nullptr;
    Import(made +
           Node("truth", "Const", {},
                "attr { key: 'dtype' value { type: DT_BOOL } } attr { key: 'value' value { tensor { dtype: "
                "DT_BOOL tensor_shape {} bool_val: true } } }") +
           Node("switch", "RefSwitch", {"made", "truth"}, text) +
           Node("same", "RefIdentity", {"switch:1"}, text) + Node("enter", "RefEnter", {"same"}, frame) +
           Node("count", count, {"enter"}, "") + Node("exit", "Exit", {"count"}, number));
    EXPECT_EQ(session_->Run({}, {"exit:0"}).value()[0].scalar<int32_t>(), 0);
    ImportMore(Node("later", "RefIdentity", {"made"}, text) + Node("again", "RefIdentity", {"later"}, text) +
               Node("count_later", count, {"again"}, ""));
    EXPECT_EQ(session_->Run({}, {"count_later:0"}).value()[0].scalar<int32_t>(), 0);
  };
  expect_passed_on(Node("made", "Barrier", {},
                        "attr { key: 'component_types' value { list { type: DT_FLOAT } } } "
                        "attr { key: 'shapes' value { list { shape {} } } }"),
                   "BarrierReadySize");
  expect_passed_on(
      Node("made", "ConditionalAccumulator", {},
           "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' value { shape {} } }"),
      "AccumulatorNumAccumulated");
}

// How much it holds is known where it is.
TEST_F(ReferencesTest, AStackMayBeInALoop) {
  const std::string elements = "attr { key: 'elem_type' value { type: DT_FLOAT } }";
  const std::string frame = std::string(kFloat) +
                            " attr { key: 'frame_name' value { s: 'f' } } "
                            "attr { key: 'is_constant' value { b: true } }";
  Import(Constant("two", 2) + Node("enter", "Enter", {"two"}, frame) +
         Node("stack", "Stack", {"^enter"}, elements) + Node("push", "StackPush", {"stack", "enter"}) +
         Node("pop", "StackPop", {"stack", "^push"}, elements) + Node("exit", "Exit", {"pop"}));
  EXPECT_EQ(Fetch("exit:0").value(), 2);
}

// Graphs of TensorFlow's first versions.
TEST_F(ReferencesTest, HandlesThatAreReferencesBecomeResources) {
  const std::string types = "attr { key: 'component_types' value { list { type: DT_FLOAT } } }";
  const std::string of_enqueue = "attr { key: 'Tcomponents' value { list { type: DT_FLOAT } } }";
  const std::string elements = "attr { key: 'elem_type' value { type: DT_FLOAT } }";
  Import(Variable("v") + Constant("two", 2) + Node("init", "Assign", {"v", "two"}) +
         Node("queue", "FIFOQueue", {}, types) + Node("put", "QueueEnqueue", {"queue", "v"}, of_enqueue) +
         Node("size", "QueueSize", {"queue"}, "") + Node("get", "QueueDequeue", {"queue"}, types) +
         Node("stack", "Stack", {}, elements) + Node("push", "StackPush", {"stack", "two"}) +
         Node("pop", "StackPop", {"stack", "^push"}, elements));
  Run("init");
  Run("put");
  EXPECT_EQ(session_->Run({}, {"size:0"}).value()[0].scalar<int32_t>(), 1);
  EXPECT_EQ(Fetch("get:0").value(), 2);
  EXPECT_EQ(Fetch("pop:0").value(), 2);
}

// tests/interop has loops in conditionals and conditionals in loops.
TEST_F(ReferencesTest, AFetchedReferenceHasAnUpdateBehindALoop) {
  const std::string frame = std::string(kFloat) + " attr { key: 'frame_name' value { s: 'f' } }";
  const std::string two = std::string(kFloat) + " attr { key: 'N' value { i: 2 } }";
  Import(Variable("v") + Constant("zero", 0) + Constant("one", 1) + Constant("limit", 50) +
         Node("init", "Assign", {"v", "zero"}) + Node("enter", "Enter", {"zero"}, frame) +
         Node("enter_one", "Enter", {"one"}, frame + " attr { key: 'is_constant' value { b: true } }") +
         Node("enter_limit", "Enter", {"limit"}, frame + " attr { key: 'is_constant' value { b: true } }") +
         Node("merge", "Merge", {"enter", "next"}, two) + Node("less", "Less", {"merge", "enter_limit"}) +
         Node("condition", "LoopCond", {"less"}, "") + Node("switch", "Switch", {"merge", "condition"}) +
         Node("sum", "AddV2", {"switch:1", "enter_one"}) + Node("next", "NextIteration", {"sum"}) +
         Node("exit", "Exit", {"switch"}) + Node("add", "AssignAdd", {"v", "exit"}));
  Run("init");
  for (int i = 1; i <= 20; ++i) {
    const auto values = session_->Run({}, {"v:0"}, {"add"});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ((*values)[0].scalar<float>(), 50 * i);
  }
}

// The inner Merge brings the inner branches together: what follows it is in the outer branch all the same.
TEST_F(ReferencesTest, AFetchedReferenceDoesNotFollowAnUpdateOfABranch) {
  const std::string no =
      "attr { key: 'dtype' value { type: DT_BOOL } } attr { key: 'value' value { tensor { "
      "dtype: DT_BOOL tensor_shape {} bool_val: false } } }";
  const std::string two = kFloat + std::string(" attr { key: 'N' value { i: 2 } }");
  Import(Variable("v") + Constant("one", 1) + Constant("two", 2) + Node("no", "Const", {}, no) +
         Node("init", "Assign", {"v", "one"}) + Node("outer", "Switch", {"two", "no"}) +
         Node("inner", "Switch", {"outer:1", "no"}) + Node("merged", "Merge", {"inner", "inner:1"}, two) +
         Node("set", "Assign", {"v", "two", "^merged"}));
  Run("init");
  const auto values = session_->Run({}, {"v:0"}, {"set"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 1);
}

// Handles were added by a function that called itself for each loop around: this ended the process.
TEST_F(ReferencesTest, AChainOfLoopsMayBeAsLongAsTheGraph) {
  constexpr int kLoops = 100'000;
  std::string text = Variable("v") + Constant("two", 2) + Node("set", "Assign", {"v", "two"}) +
                     Node("e0", "Identity", {"v"});
  for (int i = 1; i <= kLoops; ++i) {
    const std::string name = std::to_string(i);
    text += Node("e" + name, "Enter", {"e" + std::to_string(i - 1)},
                 kFloat + std::string(" attr { key: 'is_constant' value { b: true } } attr { key: "
                                      "'frame_name' value { s: 'f" +
                                      name + "' } }"));
  }
  text += Node("read", "Neg", {"e" + std::to_string(kLoops), "^set"});
  const auto graph = GraphFromGraphDefText(text, runtime_->ops());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE((*graph)->FindNode("read"), nullptr);
}

TEST_F(ReferencesTest, OptimizersUpdateThem) {
  Import(Variable("v") + Constant("two", 2) + Constant("half", 0.5) + Node("init", "Assign", {"v", "two"}) +
         Node("train", "ApplyGradientDescent", {"v", "half", "two"}) + Node("seen", "Mul", {"train", "two"}));
  Run("init");
  EXPECT_EQ(Fetch("train:0").value(), 1);
  EXPECT_EQ(Fetch("seen:0").value(), 0);
}

TEST_F(ReferencesTest, AReferenceIsNotFed) {
  Import(Variable("v") + Node("read", "Identity", {"v"}));
  const auto fed = session_->Run({{"v:0", Tensor::Scalar(1.0f)}}, {"read:0"});
  EXPECT_EQ(fed.status().code(), absl::StatusCode::kInvalidArgument) << fed.status();
}

TEST_F(ReferencesTest, WhatTakesAReferenceIsNotGivenAValue) {
  const auto graph = GraphFromGraphDefText(
      Constant("c", 1) + Constant("two", 2) + Node("assign", "Assign", {"c", "two"}), runtime_->ops());
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kNotFound) << graph.status();
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("Assign 'assign'"));
}

// Chains that lead back to themselves end.
TEST_F(ReferencesTest, ReferencesThatNobodyMakesAreNone) {
  const auto graph = GraphFromGraphDefText(
      Constant("two", 2) + Node("a", "AssignAdd", {"b", "two"}) + Node("b", "AssignAdd", {"a", "two"}),
      runtime_->ops());
  EXPECT_FALSE(graph.ok());
}

}  // namespace
}  // namespace weir
