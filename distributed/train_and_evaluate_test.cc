#include "distributed/train_and_evaluate.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/replica_device_setter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kEvaluatorOfCluster[] =
    R"({"cluster": {"ps": ["127.0.0.1:1"], "chief": ["127.0.0.1:2"]}, "task": {"type": "evaluator", "index": 0}})";

// A program that trains w towards 3 and evaluates it, as a user writes it.
class Program {
 public:
  Program(TaskConfig task, std::string model_dir)
      : task_(std::move(task)), model_dir_(std::move(model_dir)), server_(Server::Start(task_).value()) {}

  absl::Status Run(int64_t max_steps, absl::Duration throttle = absl::ZeroDuration()) {
    return TrainAndEvaluate(task_, *server_,
                            {.model_dir = model_dir_,
                             .latest_filename = latest_filename,
                             .max_steps = max_steps,
                             .train = [&](const auto& listeners) { return Train(max_steps, listeners); },
                             .evaluate = [&](const std::string& checkpoint) { return Evaluate(checkpoint); },
                             .after_evaluation = after_evaluation,
                             .throttle = throttle,
                             .timeout = absl::ZeroDuration()});
  }
  std::function<absl::StatusOr<bool>(const Evaluation&)> after_evaluation;
  std::string latest_filename = "checkpoint";
  const std::vector<int64_t>& evaluated() const { return evaluated_; }
  int num_trainings() const { return num_trainings_; }

 private:
  absl::Status Train(int64_t max_steps, const std::vector<CheckpointSaverListenerPtr>& listeners) {
    ++num_trainings_;
    GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task_));
    const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(0.0f));
    const Output loss = Square(g, Sub(g, w.value, Const(g, 3.0f)));
    Node* train = GradientDescent(0.1).Minimize(g, loss, GlobalStep(g)).value();
    const auto scaffold = std::make_shared<Scaffold>();
    scaffold->saver_options.latest_filename = latest_filename;
    auto session = MonitoredTrainingSession(g, {.target = server_->target(),
                                                .is_chief = task_.is_chief(),
                                                .checkpoint_dir = model_dir_,
                                                .hooks = {StopAtStepHook({.last_step = max_steps})},
                                                .save_checkpoint_steps = 2,
                                                .checkpoint_listeners = listeners,
                                                .scaffold = scaffold});
    if (!session.ok()) return session.status();
    while (!(*session)->should_stop()) {
      if (auto status = (*session)->Run({}, {}, {train}).status(); !status.ok()) return status;
    }
    return (*session)->Close();
  }

  absl::StatusOr<Evaluation> Evaluate(const std::string& checkpoint) {
    GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task_));
    const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(0.0f));
    auto found = EvaluateOnce(
        g, checkpoint,
        {.target = server_->target(), .final_ops = {{"w", w.value}}, .summary_dir = model_dir_ + "/eval"});
    if (found.ok()) evaluated_.push_back(found->global_step);
    return found;
  }

  const TaskConfig task_;
  const std::string model_dir_;
  const std::unique_ptr<Server> server_;
  std::vector<int64_t> evaluated_;
  int num_trainings_ = 0;
};

std::string NewModelDir(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "/", name, "_", ::getpid());
}

TEST(TrainAndEvaluateTest, AProgramThatRunsAloneAlternates) {
  const std::string model_dir = NewModelDir("alone");
  Program program(TaskConfig(), model_dir);
  const absl::Status status = program.Run(7);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(program.evaluated(), ElementsAre(2, 4, 6, 7)) << "not the model that is not trained yet";
  EXPECT_EQ(PosixFileSystem().ListDirectory(model_dir + "/eval").value().size(), 4u);
  // A second run goes on, and evaluates what the first did not.
  Program again(TaskConfig(), model_dir);
  ASSERT_TRUE(again.Run(9, absl::Hours(1)).ok());
  EXPECT_THAT(again.evaluated(), ElementsAre(9));
}

TEST(TrainAndEvaluateTest, AnEvaluatorEvaluatesTheLastCheckpointAndNeverTrains) {
  const std::string model_dir = NewModelDir("evaluator");
  ASSERT_TRUE(Program(TaskConfig(), model_dir).Run(5, absl::Hours(1)).ok());
  Program evaluator(TaskConfig::FromTfConfig(kEvaluatorOfCluster).value(), model_dir);
  const absl::Status status = evaluator.Run(5);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(evaluator.evaluated(), ElementsAre(5));
  EXPECT_EQ(evaluator.num_trainings(), 0);
  // The trainers were to come further, and are gone.
  const absl::Status early = evaluator.Run(6);
  EXPECT_EQ(early.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(early.message()), HasSubstr("of step 5"));
}

// Two models of one folder: the default name is that of another one.
TEST(TrainAndEvaluateTest, ASaverMayCallItsListOfCheckpointsAsItLikes) {
  const std::string model_dir = NewModelDir("mine");
  for (const char* const name : {"mine", "checkpoint"}) {
    Program alone(TaskConfig(), model_dir);
    alone.latest_filename = name;
    const absl::Status status = alone.Run(5);
    ASSERT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_THAT(alone.evaluated(), ElementsAre(2, 4, 5)) << name;
    Program evaluator(TaskConfig::FromTfConfig(kEvaluatorOfCluster).value(), model_dir);
    evaluator.latest_filename = name;
    ASSERT_TRUE(evaluator.Run(5).ok()) << name;
    EXPECT_THAT(evaluator.evaluated(), ElementsAre(5)) << name;
  }
}

TEST(TrainAndEvaluateTest, AfterAnEvaluationItMayEndEarly) {
  const std::string model_dir = NewModelDir("early");
  const auto at_4 = [](const Evaluation& evaluation) -> absl::StatusOr<bool> {
    return evaluation.global_step >= 4;
  };
  Program alone(TaskConfig(), model_dir);
  alone.after_evaluation = at_4;
  ASSERT_TRUE(alone.Run(1000).ok());
  EXPECT_THAT(alone.evaluated(), ElementsAre(2, 4)) << "it stops training";

  Program evaluator(TaskConfig::FromTfConfig(kEvaluatorOfCluster).value(), model_dir);
  evaluator.after_evaluation = at_4;
  const absl::Status status = evaluator.Run(1000);
  EXPECT_TRUE(status.ok()) << "it does not wait for step 1000: " << status;
  EXPECT_THAT(evaluator.evaluated(), ElementsAre(4));

  evaluator.after_evaluation = [](const Evaluation&) -> absl::StatusOr<bool> {
    return absl::DataLossError("a bad accuracy");
  };
  EXPECT_THAT(std::string(evaluator.Run(1000).message()), HasSubstr("a bad accuracy"));
}

TEST(TrainAndEvaluateTest, AnEvaluatorWithoutAModelSaysSo) {
  Program evaluator(TaskConfig::FromTfConfig(kEvaluatorOfCluster).value(), NewModelDir("nothing"));
  const absl::Status status = evaluator.Run(5);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not exist"));
  Program homeless(TaskConfig::FromTfConfig(kEvaluatorOfCluster).value(), "");
  EXPECT_THAT(std::string(homeless.Run(5).message()), HasSubstr("model_dir"));
}

}  // namespace
}  // namespace weir
