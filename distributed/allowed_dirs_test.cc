// Which files a server reads and writes for graphs of other tasks.
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
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

TEST(AllowedDirsOptionTest, ComesFromTheEnvironment) {
  setenv("WEIR_ALLOWED_DIRS", "/usr/share:/tmp:", 1);
  EXPECT_THAT(ServerOptions().allowed_dirs, testing::ElementsAre("/usr/share", "/tmp"));
  unsetenv("WEIR_ALLOWED_DIRS");
  EXPECT_TRUE(ServerOptions().allowed_dirs.empty());
}

TEST(AllowedDirsOptionTest, AFolderThatThereIsNotIsRefused) {
  ServerOptions options;
  options.allowed_dirs = {"/no/such/folder"};
  const TaskConfig task =
      TaskConfig::Create(ClusterSpec::FromFlag("worker|127.0.0.1:0").value(), {"worker", 0}).value();
  const absl::Status refused = Server::Start(task, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'/no/such/folder' is no folder"));
}

}  // namespace
}  // namespace weir
