// What a checkpoint of variables on another task says about the steps that it contains (saver.h).
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/file_system.h"
#include "session/forwarding_worker.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

constexpr char kTensor[] = "_weir/applied_updates";

// Made again, it is a ps that was started anew, with its chief.
struct Cluster {
  explicit Cluster(const std::string& directory, int num_cpus = 1) : program({.num_cpus = num_cpus}) {
    if (num_cpus > 1) {
      const auto scope = program.g.DeviceScope(absl::StrCat("/device:CPU:", num_cpus - 1));
      count = MakeVariable(program.g, "count", Tensor::Scalar(0.0f));
      add = program.g.AddNode("AssignAddVariableOp", {count.handle, Const(program.g, 1.0f)});
    }
    const Output sum = program.g.AddOp("ConditionalAccumulator", {},
                                       {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}});
    contribute = program.g.AddNode("AccumulatorApplyGradient",
                                   {sum, Const(program.g, int64_t{0}), Const(program.g, 1.0f)});
    num_contributed = program.g.AddOp("AccumulatorNumAccumulated", {sum});
    program.target.workers = {&elsewhere};
    TrainingSessionOptions options;
    options.checkpoint_dir = directory;
    options.save_checkpoint_steps = 0;
    options.save_summaries_steps = 0;
    options.log_step_count_steps = 0;
    auto started = program.Start(std::move(options));
    EXPECT_TRUE(started.ok()) << started.status();
    session = *std::move(started);
  }

  // One step of another task's training loop.
  absl::Status Train(int64_t number) {
    RunOptions options;
    options.logical_step = {.writer = 5, .number = number, .settled_below = number};
    std::vector<TargetRef> targets = {program.train, contribute};
    if (add != nullptr) targets.push_back(add);
    return session->session().Run({}, {}, targets, options).status();
  }
  Tensor Read(Output of) {
    const auto read = session->session().Run({}, {of});
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? (*read)[0] : Tensor::Scalar(-1);
  }
  int64_t Step() { return Read(step).scalar<int64_t>(); }

  TestProgram program;
  const Output step = GlobalStep(program.g).value;
  ModelVariable count;  // of steps, on the last of several devices
  Node *add = nullptr, *contribute = nullptr;
  Output num_contributed;  // to an accumulator
  struct Elsewhere final : ForwardingWorker {
    using ForwardingWorker::ForwardingWorker;
    StepOwners* owners() override { return nullptr; }
  } elsewhere{&program.worker};
  std::unique_ptr<MonitoredSession> session;
};

class SavedUpdatesTest : public testing::TestWithParam<bool> {
 protected:
  // Saves after the first step, and loses the second.
  void SaveOneStep(const std::string& directory, int num_cpus = 1) {
    Cluster first(directory, num_cpus);
    ASSERT_TRUE(first.Train(1).ok());
    Saver& saver = *first.session->scaffold().saver;
    const bool is_asynchronous = GetParam();
    const auto path = is_asynchronous
                          ? saver.StartSave(first.session->session(), directory + "/model.ckpt", 1)
                          : saver.Save(first.session->session(), directory + "/model.ckpt", 1);
    ASSERT_TRUE(path.ok()) << path.status();
    ASSERT_TRUE(first.Train(2).ok());
    ASSERT_TRUE(saver.AwaitSave().ok());
  }
};
INSTANTIATE_TEST_SUITE_P(Saves, SavedUpdatesTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Asynchronously" : "Synchronously");
});

TEST_P(SavedUpdatesTest, AStepThatIsInACheckpointIsNotAppliedToItAgain) {
  const std::string directory = EmptyDirectory("contains");
  SaveOneStep(directory);
  Cluster second(directory);
  EXPECT_EQ(second.Step(), 1);
  EXPECT_TRUE(second.Train(1).ok());
  EXPECT_EQ(second.Step(), 1) << "its answer was lost";
  EXPECT_TRUE(second.Train(2).ok());
  EXPECT_EQ(second.Step(), 2) << "the checkpoint does not have it";
}

TEST_P(SavedUpdatesTest, VariablesMayBeOnSeveralDevices) {
  const std::string directory = EmptyDirectory("devices");
  SaveOneStep(directory, 2);
  Cluster second(directory, 2);
  for (const int number : {1, 2}) {
    EXPECT_TRUE(second.Train(number).ok());
    EXPECT_EQ(second.Step(), number);
    EXPECT_EQ(second.Read(second.count.value).scalar<float>(), number);
  }
}

// The accumulator is empty after the restore, and its gradients would be missed.
TEST_P(SavedUpdatesTest, WhatNoCheckpointContainsIsDoneAgain) {
  const std::string directory = EmptyDirectory("accumulator");
  SaveOneStep(directory);
  Cluster second(directory);
  EXPECT_EQ(second.Read(second.num_contributed).scalar<int32_t>(), 0);
  EXPECT_TRUE(second.Train(1).ok());
  EXPECT_EQ(second.Step(), 1);
  EXPECT_EQ(second.Read(second.num_contributed).scalar<int32_t>(), 1);
}

TEST_P(SavedUpdatesTest, IsOneMoreTensorOfAnOrdinaryCheckpoint) {
  const std::string directory = EmptyDirectory("ordinary");
  SaveOneStep(directory);
  const auto reader = BundleReader::Open(directory + "/model.ckpt-1", PosixFileSystem());
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto text = (*reader)->Read(kTensor);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->dtype(), DType::kString);
  EXPECT_EQ(text->shape(), Shape());
  const auto step = (*reader)->Read("global_step");
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->scalar<int64_t>(), 1);
}

TEST_P(SavedUpdatesTest, ACheckpointWithoutItIsRestored) {
  const std::string directory = EmptyDirectory("without");
  {
    TestProgram program;  // whose worker is its own
    TrainingSessionOptions options;
    options.checkpoint_dir = directory;
    options.save_summaries_steps = 0;
    auto session = program.Start(std::move(options));
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->Run({}, {}, {program.train}).ok());
    ASSERT_TRUE((*session)->Close().ok());
  }
  const auto reader = BundleReader::Open(directory + "/model.ckpt-1", PosixFileSystem());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->Find(kTensor), nullptr);
  Cluster cluster(directory);
  EXPECT_EQ(cluster.Step(), 1);
  EXPECT_TRUE(cluster.Train(1).ok());
  EXPECT_EQ(cluster.Step(), 2);
}

TEST(DamagedUpdatesTest, AreADamagedCheckpoint) {
  const std::string directory = EmptyDirectory("damaged");
  TestProgram program;
  auto session = program.Start({});
  ASSERT_TRUE(session.ok()) << session.status();
  for (const Tensor& wrong : {Tensor::Scalar(int64_t{7}), Tensor::Scalar(std::string("x"))}) {
    const std::string path = directory + "/model.ckpt-1";
    auto writer = BundleWriter::Create(path, {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Add("w", Tensor::Scalar(1.0f)).ok());
    ASSERT_TRUE((*writer)->Add("global_step", Tensor::Scalar(int64_t{1})).ok());
    ASSERT_TRUE((*writer)->Add(kTensor, wrong).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    const absl::Status restored = (*session)->scaffold().saver->Restore((*session)->session(), path);
    EXPECT_TRUE(absl::IsDataLoss(restored)) << restored;
    EXPECT_THAT(Message(restored), testing::HasSubstr(kTensor));
  }
}

}  // namespace
}  // namespace weir
