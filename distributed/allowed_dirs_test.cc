// Which files a server reads and writes for graphs of other tasks.
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

class AllowedDirsTest : public ServerTest {
 protected:
  AllowedDirsTest() : inside_(NewTestDirectory()), outside_(NewTestDirectory()) {
    EXPECT_EQ(symlink(outside_.c_str(), (inside_ + "/out").c_str()), 0);
    options_.allowed_dirs = {"/usr/share", inside_};
    ps_ = Start({"ps", 0});
    options_.allowed_dirs = {};
    worker_ = Start({"worker", 0});
  }

  absl::Status Save(const std::string& prefix) {
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    Node* const save = g.AddNode(
        "SaveV2", {Constant(g, Tensor::Scalar(prefix)), Constant(g, Tensor::Vector<std::string>({"v"})),
                   Constant(g, Tensor::Vector<std::string>({""})), Constant(g, Tensor::Scalar(1.0f))});
    return Run(g, {}, save);
  }

  absl::Status Restore(const std::string& prefix) {
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    const Output restored =
        g.AddOp("RestoreV2",
                {Constant(g, Tensor::Scalar(prefix)), Constant(g, Tensor::Vector<std::string>({"v"})),
                 Constant(g, Tensor::Vector<std::string>({""}))},
                {{"dtypes", std::vector<DType>{DType::kFloat32}}});
    return Run(g, {restored}, nullptr);
  }

  absl::Status Merge(const std::string& from, const std::string& to, bool allow_missing) {
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    Node* const merge =
        g.AddNode("MergeV2Checkpoints",
                  {Constant(g, Tensor::Vector<std::string>({from})), Constant(g, Tensor::Scalar(to))},
                  {{"delete_old_dirs", true}, {"allow_missing_files", allow_missing}});
    return Run(g, {}, merge);
  }

  absl::Status FillTable(const std::string& path) {
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    const Output table =
        g.AddOp("HashTableV2", {}, {{"key_dtype", DType::kString}, {"value_dtype", DType::kInt64}});
    constexpr int64_t kWholeLine = -2, kLineNumber = -1;
    Node* const fill = g.AddNode("InitializeTableFromTextFileV2", {table, Constant(g, Tensor::Scalar(path))},
                                 {{"key_index", kWholeLine}, {"value_index", kLineNumber}});
    return Run(g, {}, fill);
  }

  // An op on strings: fetched where it has an output.
  absl::Status RunOnTexts(const char* op, std::vector<std::string> texts) {
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    std::vector<InputArg> inputs;
    for (const std::string& text : texts) inputs.emplace_back(Constant(g, Tensor::Scalar(text)));
    Node* const node = g.AddNode(op, inputs);
    if (node->num_outputs() == 0) return Run(g, {}, node);
    return Run(g, {node->output(0)}, nullptr);
  }

  // One element is asked for.
  absl::Status ListFiles(const std::string& pattern) {
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    const Output dataset =
        g.AddOp("MatchingFilesDataset", {Constant(g, Tensor::Vector<std::string>({pattern}))});
    const Output first = g.AddOp("DatasetToSingleElement", {dataset},
                                 {{"output_types", std::vector<DType>{DType::kString}},
                                  {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}});
    return Run(g, {first}, nullptr);
  }

  absl::Status WriteRecords(const std::string& path) {
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    const Output rows = g.AddOp("TensorSliceDataset",
                                {std::vector<Output>{Constant(g, Tensor::Vector<std::string>({"a", "b"}))}},
                                {{"Toutput_types", std::vector<DType>{DType::kString}},
                                 {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}});
    Node* const write = g.AddNode("DatasetToTFRecord",
                                  {rows, Constant(g, Tensor::Scalar(path)), Constant(g, Tensor::Scalar(""))});
    return Run(g, {}, write);
  }

  absl::Status Run(GraphBuilder& g, std::vector<TensorRef> fetches, Node* target) {
    EXPECT_TRUE(g.ok()) << g.status();
    std::vector<TargetRef> targets;
    if (target != nullptr) targets.push_back(target);
    auto session = worker_->CreateSession(g.graph()).value();
    return session->Run({}, fetches, targets).status();
  }

  const std::string inside_, outside_;
  std::unique_ptr<Server> ps_, worker_;
};

INSTANTIATE_TEST_SUITE_P(All, AllowedDirsTest, ::testing::Values(false),
                         [](const auto&) { return "Inproc"; });

TEST_P(AllowedDirsTest, CheckpointsInsideAreWrittenMergedAndRead) {
  ASSERT_TRUE(Save(inside_ + "/parts/model").ok()) << Save(inside_ + "/parts/model");
  EXPECT_TRUE(Merge(inside_ + "/parts/model", inside_ + "/model", false).ok());
  EXPECT_TRUE(Restore(inside_ + "/model").ok()) << Restore(inside_ + "/model");
  EXPECT_FALSE(PosixFileSystem().Exists(inside_ + "/parts"));  // it was empty then
}

TEST_P(AllowedDirsTest, OthersAreRefusedByName) {
  ASSERT_TRUE(Save(inside_ + "/model").ok());
  const std::string empty = NewTestDirectory();
  for (const std::string& prefix : {outside_ + "/model", inside_ + "/out/model",
                                    absl::StrCat(inside_, "/../", FileNameOf(outside_), "/model")}) {
    for (const absl::Status& refused :
         {Save(prefix), Restore(prefix), Merge(prefix, inside_ + "/model", false),
          Merge(inside_ + "/model", prefix, false), Merge(empty + "/none", inside_ + "/merged", true)}) {
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
      EXPECT_THAT(std::string(refused.message()),
                  HasSubstr(absl::StrCat("graphs of other tasks may use here: /usr/share, ", inside_)));
    }
  }
  EXPECT_TRUE(PosixFileSystem().ListDirectory(outside_).value().empty());
  EXPECT_TRUE(PosixFileSystem().Exists(empty));
}

TEST_P(AllowedDirsTest, TablesAreFilledFromFilesInside) {
  for (const std::string& folder : {inside_, outside_}) WriteBytes(folder + "/words", "one\ntwo\n");
  EXPECT_TRUE(FillTable(inside_ + "/words").ok()) << FillTable(inside_ + "/words");
  for (const std::string& path :
       {outside_ + "/words", inside_ + "/out/words",
        absl::StrCat(inside_, "/../", FileNameOf(outside_), "/words"), outside_ + "/no such file"}) {
    const absl::Status refused = FillTable(path);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("graphs of other tasks may use here: /usr/share, ", inside_)));
  }
}

TEST_P(AllowedDirsTest, WholeFilesAreReadWrittenAndNamedInside) {
  ASSERT_TRUE(RunOnTexts("WriteFile", {inside_ + "/a/file", "text"}).ok());
  EXPECT_TRUE(RunOnTexts("ReadFile", {inside_ + "/a/file"}).ok());
  EXPECT_TRUE(RunOnTexts("MatchingFiles", {inside_ + "/*/f*"}).ok());
  EXPECT_TRUE(ListFiles(inside_ + "/a/*").ok()) << ListFiles(inside_ + "/a/*");
  EXPECT_TRUE(WriteRecords(inside_ + "/records").ok()) << WriteRecords(inside_ + "/records");
  WriteBytes(outside_ + "/words", "one\n");
  for (const std::string& folder :
       {outside_, inside_ + "/out", absl::StrCat(inside_, "/../", FileNameOf(outside_))}) {
    for (const absl::Status& refused :
         {RunOnTexts("WriteFile", {folder + "/b/file", "text"}), RunOnTexts("ReadFile", {folder + "/words"}),
          RunOnTexts("MatchingFiles", {folder + "/*"}), RunOnTexts("MatchingFiles", {folder + "/words"}),
          ListFiles(folder + "/w*"), WriteRecords(folder + "/records")}) {
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
      EXPECT_THAT(std::string(refused.message()),
                  HasSubstr(absl::StrCat("graphs of other tasks may use here: /usr/share, ", inside_)));
    }
  }
  EXPECT_THAT(PosixFileSystem().ListDirectory(outside_).value(), testing::ElementsAre("words"));
}

// What a program does itself on its own task is its own affair.
TEST_P(AllowedDirsTest, ATasksOwnGraphsAreFree) {
  GraphBuilder g(ps_->runtime().ops());
  Node* const save = g.AddNode(
      "SaveV2",
      {Constant(g, Tensor::Scalar(outside_ + "/model")), Constant(g, Tensor::Vector<std::string>({"v"})),
       Constant(g, Tensor::Vector<std::string>({""})), Constant(g, Tensor::Scalar(1.0f))});
  auto session = ps_->CreateSession(g.graph()).value();
  EXPECT_TRUE(session->Run({}, {}, {save}).ok());
}

// A ps learns the id of the chief's session with its part of a plan. The id gives it no more files.
TEST_P(AllowedDirsTest, TheIdOfATasksOwnSessionFreesNobody) {
  const auto save = [&](PlanId plan) {
    auto graph = std::make_unique<Graph>(ps_->runtime().ops());
    const auto add = [&](NodeSpec spec) {
      Node* node = graph->AddNode(std::move(spec)).value();
      graph->SetAssignedDevice(node, DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0").value());
      return node;
    };
    const auto constant = [&](const char* name, Tensor value) {
      const DType dtype = value.dtype();
      return add({.op = "Const", .name = name, .attrs = {{"value", std::move(value)}, {"dtype", dtype}}})
          ->output(0);
    };
    add({.op = "SaveV2",
         .name = "save",
         .inputs = {constant("prefix", Tensor::Scalar(absl::StrCat(outside_, "/model", plan))),
                    constant("names", Tensor::Vector<std::string>({"v"})),
                    constant("slices", Tensor::Vector<std::string>({""})),
                    std::vector<Output>{constant("v", Tensor::Scalar(1.0f))}},
         .attrs = {{"dtypes", std::vector<DType>{DType::kFloat32}}}});
    PartitionSpec spec;
    spec.plan = plan;
    spec.session = 77;
    spec.graphs.push_back(std::move(graph));
    return spec;
  };
  const auto run = [&](Worker& worker, PlanId plan) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    if (absl::Status status = worker.RegisterPartition(save(plan), deadline); !status.ok()) return status;
    absl::Notification done;
    absl::Status outcome;
    RunPartitionCall call;
    call.plan = plan;
    call.step_id = 1;
    call.deadline = deadline;
    worker.RunPartition(call, [&](absl::Status status) {
      outcome = status;
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  };
  Worker& own = *ps_->target().workers[0];
  Worker& remote = *worker_->target().workers[1];
  EXPECT_TRUE(run(own, 1).ok()) << run(own, 1);
  const absl::Status refused = run(remote, 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_FALSE(PosixFileSystem().Exists(outside_ + "/model2.index"));
  EXPECT_TRUE(run(own, 3).ok()) << "its owner keeps its rights";
}

// The parts are allowed here because they lead inside, but their folder is not, which is to be removed.
TEST_P(AllowedDirsTest, AMergeIsRefusedBeforeItBegins) {
  ASSERT_TRUE(Save(inside_ + "/model").ok());
  for (const char* ending : {".index", ".data-00000-of-00001"}) {
    ASSERT_EQ(symlink((inside_ + "/model" + ending).c_str(), (outside_ + "/alias" + ending).c_str()), 0);
  }
  const absl::Status refused = Merge(outside_ + "/alias", inside_ + "/merged", false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_FALSE(PosixFileSystem().Exists(inside_ + "/merged.index"));
}

// It has no state and its inputs are constants, but a file is no constant: whoever compiles the step neither
// has the file nor what this task may read.
TEST_P(AllowedDirsTest, AFileIsReadByTheTaskOfItsNode) {
  const auto remap = [this](const std::string& path) {
    EXPECT_TRUE(WriteFileAtomically(PosixFileSystem(), path, "word\n").ok());
    GraphBuilder g(worker_->runtime().ops());
    auto device = g.DeviceScope("/job:ps/task:0");
    const Output file = Constant(g, Tensor::Scalar(path));
    const Output remapping = g.AddOp("GenerateVocabRemapping", {file, file},
                                     {{"new_vocab_offset", int64_t{0}}, {"num_new_vocab", int64_t{1}}});
    return Run(g, {remapping}, nullptr);
  };
  const absl::Status refused = remap(outside_ + "/words");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("outside"));
  const absl::Status read = remap(inside_ + "/words");
  EXPECT_TRUE(read.ok()) << read;
}

TEST(AllowedDirsOptionTest, ComesFromTheEnvironment) {
  setenv("WEIR_ALLOWED_DIRS", "/usr/share:/tmp:", 1);
  EXPECT_THAT(ServerOptions().allowed_dirs, testing::ElementsAre("/usr/share", "/tmp"));
  unsetenv("WEIR_ALLOWED_DIRS");
  EXPECT_TRUE(ServerOptions().allowed_dirs.empty());
}

absl::Status RefusalOf(const ServerOptions& options) {
  const TaskConfig task =
      TaskConfig::Create(ClusterSpec::FromFlag("worker|127.0.0.1:0").value(), {"worker", 0}).value();
  return Server::Start(task, options).status();
}

// A variable of a shell that is not set must not allow everything.
TEST(AllowedDirsOptionTest, OneThatNamesNoFolderIsRefused) {
  for (const char* value : {"", ":", "::"}) {
    setenv("WEIR_ALLOWED_DIRS", value, 1);
    const absl::Status refused = RefusalOf(ServerOptions());
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << "'" << value << "' " << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("WEIR_ALLOWED_DIRS"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("names no folder"));
  }
  unsetenv("WEIR_ALLOWED_DIRS");
}

TEST(AllowedDirsOptionTest, AFolderThatThereIsNotIsRefused) {
  ServerOptions options;
  options.allowed_dirs = {"/no/such/folder"};
  const absl::Status refused = RefusalOf(options);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'/no/such/folder' is no folder"));
}

}  // namespace
}  // namespace weir
