// Savers of some variables, under other names, in shards, and checkpoints that have less than the graph.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/file_system.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Two variables on two tasks' names, of which this process has both devices.
struct TwoVariables {
  explicit TwoVariables(float begin)
      : runtime(Runtime::Create({.num_cpus = 2}).value()),
        worker(*runtime, runtime->task()),
        g(StandardOps()) {
    const auto make = [&](const char* name, const char* device, float value) {
      const auto scope = g.DeviceScope(device);
      return MakeVariable(g, name, Tensor::Vector<float>({value, value + 1}));
    };
    a = make("a", "/device:CPU:0", begin);
    b = make("b", "/device:CPU:1", begin + 10);
  }
  Session& Start() {
    Node* init = InitializeVariables(g);
    session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
    EXPECT_TRUE(session->Run({}, {}, {init}).ok());
    return *session;
  }
  std::vector<float> Values() {
    const std::vector<Tensor> values = session->Run({}, {a.value, b.value}).value();
    return {values[0].flat<float>()[0], values[1].flat<float>()[0]};
  }

  std::unique_ptr<Runtime> runtime;
  LocalWorker worker;
  GraphBuilder g;
  ModelVariable a, b;
  std::unique_ptr<Session> session;
};

std::vector<std::string> TensorsOf(const std::string& checkpoint) {
  return BundleReader::Open(checkpoint).value()->names();
}

TEST(SaverVariablesTest, SomeVariablesAreSaved) {
  const std::string prefix = EmptyDirectory("some") + "/m";
  TwoVariables model(1);
  auto saver = Saver::Build(model.g, {.variables = {"b"}});
  ASSERT_TRUE(saver.ok()) << saver.status();
  ASSERT_EQ((*saver)->Save(model.Start(), prefix).value(), prefix) << "without a step";
  EXPECT_THAT(TensorsOf(prefix), ElementsAre("b"));
  TwoVariables other(5);
  auto restorer = Saver::Build(other.g, {.variables = {"b"}}).value();
  ASSERT_TRUE(restorer->Restore(other.Start(), prefix).ok());
  EXPECT_THAT(other.Values(), ElementsAre(5, 11));
}

TEST(SaverVariablesTest, NamesInCheckpointsMayDiffer) {
  const std::string prefix = EmptyDirectory("renamed") + "/m";
  TwoVariables model(1);
  auto saver = Saver::Build(model.g, {.renamed = {{"old/x", "a"}, {"old/y", "b"}}});
  ASSERT_TRUE(saver.ok()) << saver.status();
  ASSERT_TRUE((*saver)->Save(model.Start(), prefix, 3).ok());
  EXPECT_THAT(TensorsOf(prefix + "-3"), ElementsAre("old/x", "old/y"));
  TwoVariables crossed(5);
  auto restorer = Saver::Build(crossed.g, {.renamed = {{"old/x", "b"}, {"old/y", "a"}}}).value();
  ASSERT_TRUE(restorer->Restore(crossed.Start(), prefix + "-3").ok());
  EXPECT_THAT(crossed.Values(), ElementsAre(11, 1));
}

TEST(SaverVariablesTest, MistakesAreNamed) {
  const auto error = [](SaverOptions options) {
    TwoVariables model(1);
    return Message(Saver::Build(model.g, options).status());
  };
  EXPECT_THAT(error({.variables = {"c"}}), AllOf(HasSubstr("'c'"), HasSubstr("'a', 'b'")));
  EXPECT_THAT(error({.renamed = {{"x", "c"}}}), HasSubstr("'c'"));
  EXPECT_THAT(error({.renamed = {{"", "a"}}}), HasSubstr("variable 'a' is to be saved under an empty name"));
  EXPECT_THAT(error({.variables = {"a"}, .renamed = {{"x", "b"}}}), HasSubstr("either"));
  EXPECT_THAT(error({.variables = {"a", "a"}}), HasSubstr("two variables"));
  EXPECT_THAT(error({.max_to_keep = -1}), HasSubstr("max_to_keep"));
  EXPECT_THAT(error({.max_to_keep = 1'000'000}), HasSubstr("at most 10000, is 1000000; 0 keeps all"));
  EXPECT_THAT(error({.keep_checkpoint_every_n_hours = 0}), HasSubstr("every_n_hours"));
  EXPECT_THAT(error({.latest_filename = "deep/checkpoint"}), HasSubstr("deep/checkpoint"));
  TwoVariables model(1);
  auto saver = Saver::Build(model.g, {.latest_filename = "m-1"}).value();
  const std::string directory = EmptyDirectory("collides");
  Session& session = model.Start();
  EXPECT_THAT(Message(saver->Save(session, directory + "/m", 1).status()), HasSubstr("names the newest"));
  EXPECT_THAT(Message(saver->Save(session, directory + "/").status()), HasSubstr("a folder"));
}

TEST(SaverVariablesTest, WhatACheckpointLacksIsNamedOrKeepsItsValue) {
  const std::string prefix = EmptyDirectory("lacks") + "/m";
  TwoVariables model(1);
  auto saver = Saver::Build(model.g, {.renamed = {{"a", "a"}}}).value();
  ASSERT_TRUE(saver->Save(model.Start(), prefix).ok());
  TwoVariables strict(5);
  auto all = Saver::Build(strict.g).value();
  const absl::Status status = all->Restore(strict.Start(), prefix);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("no tensor 'b' (1 of 2"), HasSubstr("it has 'a'")));
  EXPECT_THAT(strict.Values(), ElementsAre(5, 15)) << "nothing was set";
  TwoVariables lenient(5);
  auto some = Saver::Build(lenient.g, {.allow_missing = true}).value();
  ASSERT_TRUE(some->Restore(lenient.Start(), prefix).ok());
  EXPECT_THAT(lenient.Values(), ElementsAre(1, 15));
}

TEST(SaverVariablesTest, AnotherShapeIsAnErrorThatNamesBoth) {
  const std::string prefix = EmptyDirectory("shape") + "/m";
  TestProgram scalar;
  auto saver = Saver::Build(scalar.g, {.renamed = {{"a", "w"}}}).value();
  auto training = scalar.Start({});
  ASSERT_TRUE(saver->Save((*training)->session(), prefix).ok());
  TwoVariables model(1);
  auto restorer = Saver::Build(model.g, {.variables = {"a"}}).value();
  const absl::Status status = restorer->Restore(model.Start(), prefix);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("variable 'a' is float[2]"), HasSubstr("is float[]"), HasSubstr(prefix)));
}

TEST(SaverVariablesTest, ANewVariableIsInitialisedWhereThatIsAllowed) {
  const std::string directory = EmptyDirectory("grown");
  {
    TestProgram program;
    auto saver = Saver::Build(program.g).value();
    auto session = program.Start({});
    ASSERT_TRUE((*session)->session().Run({}, {}, {program.train}).ok());
    ASSERT_TRUE(saver->Save((*session)->session(), directory + "/m", 1).ok());
  }
  for (bool allow : {false, true}) {
    TestProgram program;
    const ModelVariable added = MakeVariable(program.g, "added", Tensor::Scalar(7.0f));
    auto scaffold = std::make_shared<Scaffold>();
    scaffold->saver_options.allow_missing = allow;
    auto session = program.Start({.checkpoint_dir = directory,
                                  .save_checkpoint_interval = absl::ZeroDuration(),
                                  .scaffold = scaffold});
    ASSERT_EQ(session.ok(), allow) << session.status();
    if (!allow) continue;
    EXPECT_EQ((*session)->GlobalStep().value(), 1);
    EXPECT_EQ((*session)->session().Run({}, {added.value}).value()[0].scalar<float>(), 7.0f);
  }
}

TEST(SaverVariablesTest, AShardOfEachDevice) {
  const std::string directory = EmptyDirectory("sharded"), prefix = directory + "/m";
  TwoVariables model(1);
  auto saver = Saver::Build(model.g, {.sharded = true, .write_meta_graph = false});
  ASSERT_TRUE(saver.ok()) << saver.status();
  Session& session = model.Start();
  for (int step : {1, 1, 2}) {
    const auto saved = (*saver)->Save(session, prefix, step);
    ASSERT_TRUE(saved.ok()) << saved.status();
  }
  const std::vector<std::string> files = PosixFileSystem().ListDirectory(directory).value();
  EXPECT_THAT(files, ::testing::Contains("m-2.data-00000-of-00002"));
  EXPECT_THAT(files, ::testing::Contains("m-2.data-00001-of-00002"));
  for (const std::string& file : files)
    EXPECT_THAT(file, Not(HasSubstr("of-00002.index"))) << "a part is left";
  TwoVariables other(5);
  auto restorer = Saver::Build(other.g, {.sharded = true}).value();
  const absl::Status restored = restorer->Restore(other.Start(), prefix + "-2");
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_THAT(other.Values(), ElementsAre(1, 11));
  // And a saver without shards.
  TwoVariables third(5);
  ASSERT_TRUE(Saver::Build(third.g).value()->Restore(third.Start(), prefix + "-1").ok());
  EXPECT_THAT(third.Values(), ElementsAre(1, 11));
  EXPECT_THAT(Message((*saver)->StartSave(session, prefix, 3).status()), HasSubstr("sharded"));
}

TEST(SaverVariablesTest, AShardedSaveThatFailsLeavesNothing) {
  const std::string directory = EmptyDirectory("failed");
  TwoVariables model(1);
  auto saver = Saver::Build(model.g, {.sharded = true}).value();
  // A folder stands where the index is to go.
  ASSERT_TRUE(PosixFileSystem().CreateDirectories(directory + "/m-1.index/x").ok());
  EXPECT_FALSE(saver->Save(model.Start(), directory + "/m", 1).ok());
  const std::vector<std::string> files = PosixFileSystem().ListDirectory(directory).value();
  for (const std::string& file : files) {
    EXPECT_THAT(file, Not(HasSubstr("of-00002.index")));
    EXPECT_NE(file, "checkpoint");
  }
}

TEST(SaverVariablesTest, LastCheckpointsAndTheirRecovery) {
  const std::string directory = EmptyDirectory("last"), prefix = directory + "/m";
  TwoVariables model(1);
  auto saver = Saver::Build(model.g, {.max_to_keep = 2, .latest_filename = "mine"}).value();
  Session& session = model.Start();
  for (int step : {1, 2, 3}) ASSERT_TRUE(saver->Save(session, prefix, step).ok());
  EXPECT_THAT(saver->LastCheckpoints(), ElementsAre(prefix + "-2", prefix + "-3"));
  EXPECT_FALSE(PosixFileSystem().Exists(directory + "/checkpoint"));
  EXPECT_THAT(CheckpointsIn(directory, PosixFileSystem(), "mine").value(),
              ElementsAre(prefix + "-3", prefix + "-2"));
  TwoVariables restarted(1);
  auto next = Saver::Build(restarted.g, {.max_to_keep = 2}).value();
  ASSERT_TRUE(next->RecoverLastCheckpoints({prefix + "-1", prefix + "-2", prefix + "-3"}).ok());
  EXPECT_THAT(next->LastCheckpoints(), ElementsAre(prefix + "-2", prefix + "-3")) << "the first is gone";
  ASSERT_TRUE(next->Save(restarted.Start(), prefix, 4).ok());
  EXPECT_FALSE(PosixFileSystem().Exists(prefix + "-2.index"));
}

}  // namespace
}  // namespace weir
