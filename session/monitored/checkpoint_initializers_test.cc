#include "session/monitored/checkpoint_initializers.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "old/w" = 1, "old/deep/b" = 2, "w" = 3, "vector" = {4, 5}.
std::string WriteOldModel() {
  const std::string directory = EmptyDirectory("old_model");
  auto writer = BundleWriter::Create(directory + "/m-1").value();
  EXPECT_TRUE(writer->Add("old/w", Tensor::Scalar(1.0f)).ok());
  EXPECT_TRUE(writer->Add("old/deep/b", Tensor::Scalar(2.0f)).ok());
  EXPECT_TRUE(writer->Add("w", Tensor::Scalar(3.0f)).ok());
  EXPECT_TRUE(writer->Add("vector", Tensor::Vector<float>({4, 5})).ok());
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(WriteCheckpointState(directory, {.newest = directory + "/m-1"}).ok());
  return directory;
}

// "w" (of TestProgram), "new/w", "new/deep/b", and "counter", which is not trainable; all 0.
struct NewModel : TestProgram {
  NewModel() {
    for (const char* name : {"new/w", "new/deep/b"})
      variables.push_back(MakeVariable(g, name, Tensor::Scalar(0.0f)));
    variables.push_back(MakeVariable(g, "counter", Tensor::Scalar(0.0f), {.trainable = false}));
    variables.push_back(w);
  }
  // Their values once they are initialised.
  std::vector<float> Values() {
    auto session = Start({});
    EXPECT_TRUE(session.ok()) << session.status();
    std::vector<float> values;
    for (const ModelVariable& variable : variables) {
      values.push_back((*session)->session().Run({}, {variable.value}).value()[0].scalar<float>());
    }
    return values;
  }
  std::vector<ModelVariable> variables;
};

TEST(InitFromCheckpointTest, VariablesAndScopes) {
  const std::string directory = WriteOldModel();
  struct Case {
    AssignmentMap assignments;
    std::vector<float> values;
  };
  const Case cases[] = {
      {{{"old/w", "counter"}}, {0, 0, 1, 0}},
      {{{"old/", "new/"}}, {1, 2, 0, 0}},
      {{{"old/deep/", "new/deep/"}}, {0, 2, 0, 0}},
      {{{"w", "new/w"}, {"w", "w"}, {"old/w", "new/deep/b"}}, {3, 1, 0, 3}},
  };
  for (const Case& c : cases) {
    NewModel model;
    const absl::Status status = InitFromCheckpoint(model.g, directory, c.assignments);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(model.Values(), c.values) << c.assignments[0].first;
  }
}

TEST(InitFromCheckpointTest, ASavedModelWinsOverIt) {
  const std::string old_model = WriteOldModel(), directory = EmptyDirectory("goes_on");
  for (const float expected : {1.0f, 9.0f}) {
    NewModel model;
    ASSERT_TRUE(InitFromCheckpoint(model.g, old_model, {{"old/w", "new/w"}}).ok());
    const Output nine = Const(model.g, 9.0f);
    Node* assign = model.g.AddNode("AssignVariableOp", {model.variables[0].handle, nine});
    auto session = model.Start({.checkpoint_dir = directory});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->session().Run({}, {model.variables[0].value}).value()[0].scalar<float>(), expected);
    ASSERT_TRUE((*session)->session().Run({}, {}, {assign, model.train}).ok());
    ASSERT_TRUE((*session)->Close().ok());
  }
}

TEST(InitFromCheckpointTest, MistakesNameBothSides) {
  const std::string directory = WriteOldModel();
  const auto error = [&](const std::string& checkpoint, const AssignmentMap& assignments) {
    NewModel model;
    return Message(InitFromCheckpoint(model.g, checkpoint, assignments));
  };
  EXPECT_THAT(error(directory, {{"gone", "w"}}),
              AllOf(HasSubstr("'gone'"), HasSubstr("'w'"), HasSubstr("'old/w'")));
  EXPECT_THAT(
      error(directory, {{"vector", "w"}}),
      AllOf(HasSubstr("variable 'w' is float[]"), HasSubstr("tensor 'vector'"), HasSubstr("float[2]")));
  EXPECT_THAT(error(directory, {{"old/w", "nobody"}}), AllOf(HasSubstr("'old/w'"), HasSubstr("'nobody'")));
  EXPECT_THAT(error(directory, {{"old/", "nobody/"}}), AllOf(HasSubstr("'old/'"), HasSubstr("'nobody/'")));
  EXPECT_THAT(error(directory, {{"old/deep/", "new/"}}), HasSubstr("old/deep/deep/b"));
  EXPECT_THAT(error(directory + "/m-2", {{"w", "w"}}), HasSubstr("m-2"));
  for (const char* file : {"/m-1.index", "/m-1.meta"}) {
    EXPECT_THAT(error(directory + file, {{"w", "w"}}),
                AllOf(HasSubstr(directory + file), HasSubstr("whose name is '" + directory + "/m-1'")));
  }
}

TEST(InitFromCheckpointTest, MistakesNameWhatWasMeant) {
  const std::string directory = WriteOldModel();
  const auto error = [&](const std::string& from, const std::string& to) {
    NewModel model;
    return Message(InitFromCheckpoint(model.g, directory, {{from, to}}));
  };
  EXPECT_THAT(error("old/deeb/b", "w"), HasSubstr("did you mean 'old/deep/b'?"));
  EXPECT_THAT(error("old/w", "new/deep/d"), HasSubstr("did you mean 'new/deep/b'?"));
  EXPECT_THAT(error("old/", "mew/"), HasSubstr("did you mean 'new/'?"));
  EXPECT_THAT(error("old/deep", "new/deep"), HasSubstr("write 'old/deep/' and 'new/deep/'"));
  EXPECT_THAT(error("old/", "new"), HasSubstr("'old/' stands for all variables of a scope"));
  EXPECT_THAT(error("old", "new/"), HasSubstr("'new/' stands for all variables of a scope"));
}

TEST(WarmStartTest, ByPatternAndName) {
  const std::string directory = WriteOldModel();
  const auto values = [&](WarmStartOptions options) {
    options.checkpoint = directory;
    NewModel model;
    const absl::Status status = WarmStart(model.g, options);
    EXPECT_TRUE(status.ok()) << status;
    return model.Values();
  };
  EXPECT_THAT(values({.patterns = {"w"}}), ElementsAre(0, 0, 0, 3));
  EXPECT_THAT(values({.patterns = {"new/", "new/w"},
                      .previous_names = {{"new/w", "old/w"}, {"new/deep/b", "old/deep/b"}}}),
              ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(
      values({.patterns = {"w", "c.*r$"}, .trainable_only = false, .previous_names = {{"counter", "w"}}}),
      ElementsAre(0, 0, 3, 3));
}

TEST(WarmStartTest, MistakesAreNamed) {
  const std::string directory = WriteOldModel();
  const auto error = [&](WarmStartOptions options) {
    options.checkpoint = directory;
    NewModel model;
    return Message(WarmStart(model.g, options));
  };
  EXPECT_THAT(error({}), HasSubstr("'new/deep/b'")) << "all trainable ones, as in TensorFlow";
  EXPECT_THAT(error({.patterns = {"(w"}}), AllOf(HasSubstr("'(w'"), HasSubstr("does not parse")));
  EXPECT_THAT(error({.patterns = {std::string(1 << 20, '(')}}), HasSubstr("1048576 characters"));
  EXPECT_THAT(error({.patterns = {"((w{1,200}){1,200}){1,200}"}}), HasSubstr("multiply to more than 10000"));
  EXPECT_THAT(error({.patterns = {"w{2"}}), HasSubstr("does not parse"));
  EXPECT_THAT(error({.patterns = {"counter"}}),
              AllOf(HasSubstr("'counter'"), HasSubstr("no trainable variable")));
  EXPECT_THAT(error({.patterns = {"w"}, .previous_names = {{"new/w", "w"}}}), HasSubstr("'new/w'"));
}

}  // namespace
}  // namespace weir
