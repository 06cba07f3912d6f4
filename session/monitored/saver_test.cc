#include "session/monitored/saver.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/full_disk.h"
#include "session/monitored/scaffold.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Names of the files of checkpoints in the folder, without those that belong to one of `among`.
std::vector<std::string> FilesOfOthers(const std::string& directory, const std::vector<std::string>& among) {
  std::vector<std::string> others;
  const std::vector<std::string> names = PosixFileSystem().ListDirectory(directory).value();
  for (const std::string& name : names) {
    const bool is_known = std::any_of(among.begin(), among.end(), [&](const std::string& checkpoint) {
      return absl::StartsWith(directory + "/" + name, checkpoint + ".");
    });
    if (!is_known && name != "checkpoint") others.push_back(name);
  }
  return others;
}

TEST(SaverTest, OldCheckpointsStayUntilTheNewOneIsNamed) {
  const std::string directory = EmptyDirectory("named");
  const std::string prefix = directory + "/m";
  TestProgram program;
  FullDisk disk(int64_t{1} << 40);
  auto saver = Saver::Build(program.g, {.max_to_keep = 1, .write_meta_graph = false, .file_system = &disk});
  ASSERT_TRUE(saver.ok()) << saver.status();
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  Session& steps = (*session)->session();
  ASSERT_TRUE((*saver)->Save(steps, prefix, 1).ok());
  disk.FailNextRename();
  EXPECT_EQ((*saver)->Save(steps, prefix, 2).status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-1"));
  EXPECT_TRUE((*saver)->Restore(steps, prefix + "-1").ok());
  // The one that was never named is deleted in its turn, and so is its elder.
  ASSERT_TRUE((*saver)->Save(steps, prefix, 3).ok());
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-3"));
  EXPECT_THAT(FilesOfOthers(directory, {prefix + "-3"}), ElementsAre());
}

// A save must not run what the program's next nodes are to run after.
TEST(SaverTest, WhatIsBuiltInAControlScopeRunsWithoutIt) {
  TestProgram program;
  Node* const train = program.g.AddNode("NoOp", {}, {}, "train");
  const auto after = program.g.ControlScope({train});
  const int before = program.g.graph().num_nodes();
  ASSERT_TRUE(Saver::Build(program.g).ok()) << program.g.status();
  Scaffold scaffold;
  ASSERT_TRUE(scaffold.Finalize(program.g).ok()) << program.g.status();
  for (int i = before; i < program.g.graph().num_nodes(); ++i) {
    const Node& node = *program.g.graph().node(i);
    for (const Node* control : node.control_inputs()) EXPECT_NE(control, train) << node.name();
  }
}

// The meta graph is only for those who have no program: what it describes is there without it.
TEST(SaverTest, ACheckpointWithoutItsMetaGraphIsNamedAndDeletedInItsTurn) {
  const std::string directory = EmptyDirectory("without_meta");
  const std::string prefix = directory + "/m";
  TestProgram program;
  FullDisk disk(int64_t{1} << 40);
  auto saver = Saver::Build(program.g, {.max_to_keep = 1, .file_system = &disk});
  ASSERT_TRUE(saver.ok()) << saver.status();
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  Session& steps = (*session)->session();
  ASSERT_TRUE((*saver)->Save(steps, prefix, 1).ok());
  disk.FailNextRename(".meta");
  EXPECT_EQ((*saver)->Save(steps, prefix, 2).status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT((*saver)->LastCheckpoints(), ElementsAre(prefix + "-2"));
  EXPECT_THAT(CheckpointsIn(directory).value(), ElementsAre(prefix + "-2"));
  ASSERT_TRUE((*saver)->Save(steps, prefix, 3).ok());
  EXPECT_THAT(FilesOfOthers(directory, {prefix + "-3"}), ElementsAre());
}

TEST(SaverTest, ARestartedProgramDeletesTheOldestOfItsPredecessor) {
  const std::string directory = EmptyDirectory("restarted");
  const std::string prefix = directory + "/m";
  for (const std::vector<int>& steps_of_program : {std::vector<int>{1, 2, 3}, std::vector<int>{4, 5}}) {
    TestProgram program;
    auto saver = Saver::Build(program.g, {.max_to_keep = 3});
    ASSERT_TRUE(saver.ok()) << saver.status();
    auto session = program.Start({});
    ASSERT_TRUE(session.ok()) << session.status();
    for (int step : steps_of_program) {
      ASSERT_TRUE((*saver)->Save((*session)->session(), prefix, step).ok());
    }
  }
  const CheckpointState state = ReadCheckpointState(directory).value();
  EXPECT_EQ(state.newest, prefix + "-5");
  EXPECT_THAT(state.all, ElementsAre(prefix + "-3", prefix + "-4", prefix + "-5"));
  EXPECT_THAT(FilesOfOthers(directory, state.all), ElementsAre());
  for (const std::string& checkpoint : state.all) {
    EXPECT_TRUE(BundleReader::Open(checkpoint).ok()) << checkpoint;
    EXPECT_TRUE(PosixFileSystem().Exists(checkpoint + ".meta")) << checkpoint;
  }
}

TEST(SaverTest, AFolderWrittenInAnotherWayHasTheSameCheckpoints) {
  const std::string directory = EmptyDirectory("slashes");
  for (const char* prefix : {"//m", "/m", "//m"}) {
    TestProgram program;
    auto saver = Saver::Build(program.g, {.max_to_keep = 1});
    ASSERT_TRUE(saver.ok()) << saver.status();
    auto session = program.Start({});
    ASSERT_TRUE(session.ok()) << session.status();
    // A restarted chief saves the step that it restored once more.
    EXPECT_EQ((*saver)->Save((*session)->session(), directory + prefix, 5).value(), directory + "/m-5");
    EXPECT_TRUE(BundleReader::Open(directory + "/m-5").ok());
    EXPECT_THAT(CheckpointsIn(directory + "/").value(), ElementsAre(directory + "/m-5"));
  }
}

TEST(SaverTest, ASaveUnderAnOldNameIsDeletedWhollyToo) {
  const std::string directory = EmptyDirectory("again");
  const std::string prefix = directory + "/m";
  TestProgram program;
  auto saver = Saver::Build(program.g, {.max_to_keep = 1, .write_meta_graph = false});
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  for (int step : {1, 1, 2}) ASSERT_TRUE((*saver)->Save((*session)->session(), prefix, step).ok());
  EXPECT_THAT(FilesOfOthers(directory, {prefix + "-2"}), ElementsAre());
}

TEST(SaverTest, WhatLiesOutsideTheFolderIsNeverDeleted) {
  const std::string others = EmptyDirectory("others"), directory = EmptyDirectory("mine");
  TestProgram program;
  auto saver = Saver::Build(program.g, {.max_to_keep = 1, .write_meta_graph = false});
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  Session& steps = (*session)->session();
  ASSERT_TRUE((*saver)->Save(steps, others + "/m", 1).ok());
  const auto other_files = PosixFileSystem().ListDirectory(others).value();
  // The way through the own folder leads outside, too.
  const std::string around = absl::StrCat(directory, "/../", FileNameOf(others), "/m-1");
  ASSERT_TRUE(
      WriteCheckpointState(directory, {.newest = others + "/m-1", .all = {around, others + "/m-1"}}).ok());
  TestProgram restarted;
  auto second = Saver::Build(restarted.g, {.max_to_keep = 1, .write_meta_graph = false});
  auto next = restarted.Start({});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*second)->RestoreNewest((*next)->session(), directory).value(), others + "/m-1");
  for (int step : {2, 3}) {
    ASSERT_TRUE((*second)->Save((*next)->session(), directory + "/m", step).ok());
  }
  EXPECT_EQ(PosixFileSystem().ListDirectory(others).value(), other_files);
  EXPECT_THAT(ReadCheckpointState(directory).value().all, ElementsAre(directory + "/m-3"));
  EXPECT_THAT(FilesOfOthers(directory, {directory + "/m-3"}), ElementsAre());
}

TEST(SaverTest, OptionsThatMakeNoSenseAreRefused) {
  const auto error = [](const SaverOptions& options) {
    TestProgram program;
    const absl::Status status = Saver::Build(program.g, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_THAT(error({.latest_filename = ".."}), HasSubstr("a name without a folder, is '..'"));
  EXPECT_THAT(error({.latest_filename = "."}), HasSubstr("a name without a folder, is '.'"));
  EXPECT_THAT(error({.file_system = nullptr}), HasSubstr("the file system is null"));
  EXPECT_THAT(error({.clock = nullptr}), HasSubstr("the clock is null"));
}

// The file that names the newest checkpoint would replace a part of it.
TEST(SaverTest, TheFileThatNamesTheNewestIsNoPartOfIt) {
  const std::string directory = EmptyDirectory("latest");
  for (const std::string part : {"", ".index", ".meta", ".data-00000-of-00001"}) {
    TestProgram program;
    const auto saver = Saver::Build(program.g, {.latest_filename = "model-1" + part}).value();
    auto session = Session::Create(program.g.graph(), {&program.worker}, program.runtime->kernels()).value();
    EXPECT_THAT(Message(saver->Save(*session, directory + "/model", 1).status()),
                HasSubstr("the file 'model-1" + part + "' names the newest checkpoint"));
  }
  EXPECT_THAT(PosixFileSystem().ListDirectory(directory).value(), testing::IsEmpty());
}

TEST(SaverTest, AStateThatIsALinkToNothingIsNoEmptyFolder) {
  const std::string directory = EmptyDirectory("dangling");
  ASSERT_EQ(symlink("gone", (directory + "/checkpoint").c_str()), 0);
  TestProgram program;
  const absl::Status status = program.Start({.checkpoint_dir = directory}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr("checkpoint is a link to nothing"));
}

TEST(SaverTest, TwoVariablesOfOneNameAreRefused) {
  TestProgram program;
  std::vector<VariableDef>& variables = program.g.graph().variables();
  variables.push_back(variables[0]);
  const absl::Status status = Saver::Build(program.g).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), testing::HasSubstr("'w'"));
}

}  // namespace
}  // namespace weir
