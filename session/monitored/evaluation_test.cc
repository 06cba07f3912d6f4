#include "session/monitored/evaluation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/forwarding_file_system.h"
#include "session/monitored/checkpoint_iterator.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CheckpointIteratorOptions OneLook() { return {.timeout = absl::ZeroDuration()}; }

// A checkpoint with these tensors, named by the folder's file `checkpoint`.
void WriteModel(const std::string& directory, int64_t step, const std::string& variable = "w") {
  const std::string prefix = absl::StrCat(directory, "/m-", step);
  auto writer = BundleWriter::Create(prefix).value();
  ASSERT_TRUE(writer->Add(variable, Tensor::Scalar(static_cast<float>(step))).ok());
  ASSERT_TRUE(writer->Add("global_step", Tensor::Scalar<int64_t>(step)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  ASSERT_TRUE(WriteCheckpointState(directory, {.newest = prefix}).ok());
}

// Evaluates w of TestProgram's model.
struct TestEvaluation {
  explicit TestEvaluation(EvaluationOptions options = {}) {
    options.target = program.target;
    options.final_ops = {{"w", program.w.value}, {"loss", program.loss}};
    evaluator.emplace(program.g, std::move(options));
  }
  std::function<absl::StatusOr<Evaluation>(const std::string&)> fn() {
    return [this](const std::string& checkpoint) { return evaluator->Evaluate(checkpoint); };
  }
  TestProgram program;
  std::optional<Evaluator> evaluator;
};

TEST(CheckpointIteratorTest, GivesTheNewestOnceEach) {
  const std::string directory = EmptyDirectory("newest");
  CheckpointIterator checkpoints(directory, OneLook());
  WriteModel(directory, 1);
  WriteModel(directory, 2);
  EXPECT_EQ(checkpoints.Next().value(), directory + "/m-2") << "the one before it is not seen";
  EXPECT_EQ(checkpoints.Next().value(), std::nullopt);
  WriteModel(directory, 3);
  EXPECT_EQ(checkpoints.Next().value(), directory + "/m-3");
}

TEST(CheckpointIteratorTest, SaysWhyThereNeverWasOne) {
  const std::string directory = EmptyDirectory("never");
  const auto error = [](const std::string& folder) {
    const absl::Status status = CheckpointIterator(folder, OneLook()).Next().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    return Message(status);
  };
  EXPECT_THAT(error(directory + "/no"),
              AllOf(HasSubstr(directory + "/no after 0"), HasSubstr("does not exist")));
  EXPECT_THAT(error(directory), HasSubstr("no file 'checkpoint'"));
  ASSERT_TRUE(WriteCheckpointState(directory, {.newest = directory + "/m-7"}).ok());
  EXPECT_THAT(error(directory), AllOf(HasSubstr("m-7"), HasSubstr("not there")));
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), directory + "/checkpoint", "garbage{").ok());
  EXPECT_EQ(CheckpointIterator(directory, OneLook()).Next().status().code(), absl::StatusCode::kDataLoss);
}

TEST(CheckpointIteratorTest, AfterATimeoutTheProgramDecides) {
  const std::string directory = EmptyDirectory("timeout");
  int num_asked = 0;
  CheckpointIteratorOptions options = OneLook();
  options.poll_interval = absl::Nanoseconds(1);
  options.timeout_fn = [&] {
    if (++num_asked == 1) return false;
    if (num_asked == 2) WriteModel(directory, 5);
    return num_asked == 3;
  };
  CheckpointIterator checkpoints(directory, options);
  testing::internal::CaptureStderr();
  EXPECT_EQ(checkpoints.Next().value(), directory + "/m-5");
  EXPECT_EQ(checkpoints.Next().value(), std::nullopt);
  EXPECT_EQ(num_asked, 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "weir: waiting for the first checkpoint in " + directory + ": it has no file 'checkpoint'\n");
}

TEST(CheckpointIteratorTest, AStopEndsTheWaiting) {
  CheckpointIterator checkpoints(EmptyDirectory("stop"));
  checkpoints.RequestStop();
  EXPECT_EQ(checkpoints.Next().value(), std::nullopt);
}

TEST(EvaluationTest, EveryCheckpointIsEvaluatedAndWrittenAtItsStep) {
  const std::string directory = EmptyDirectory("repeated");
  TestEvaluation evaluation({.summary_dir = directory + "/eval"});
  WriteModel(directory, 3);
  std::vector<int64_t> steps;
  const int num_nodes = evaluation.program.g.graph().num_nodes();
  std::vector<int> nodes_added;
  const absl::StatusOr<Evaluation> last = EvaluateRepeatedly(
      directory, evaluation.fn(),
      {.checkpoints = OneLook(), .last_step = 9, .after_evaluation = [&](const Evaluation& found) {
         steps.push_back(found.global_step);
         nodes_added.push_back(evaluation.program.g.graph().num_nodes() - num_nodes);
         WriteModel(directory, found.global_step * 2);
         return false;
       }});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_THAT(steps, ElementsAre(3, 6, 12));
  EXPECT_EQ(last->checkpoint, directory + "/m-12");
  EXPECT_EQ(last->values[0].first, "w");
  EXPECT_EQ(last->values[0].second.scalar<float>(), 12.0f);
  EXPECT_EQ(last->values[1].second.scalar<float>(), 81.0f);
  EXPECT_EQ(nodes_added[2], nodes_added[0]) << "the graph grows with each evaluation";

  const std::vector<std::string> files = PosixFileSystem().ListDirectory(directory + "/eval").value();
  ASSERT_EQ(files.size(), 1u) << "one event file for all";
  const std::string bytes = ReadWholeFile(PosixFileSystem(), directory + "/eval/" + files[0]).value();
  EXPECT_THAT(bytes, AllOf(HasSubstr("loss"), HasSubstr("brain.Event:2")));
}

TEST(EvaluationTest, StepsRunUntilAHookStopsThem) {
  const std::string directory = EmptyDirectory("steps");
  WriteModel(directory, 4);
  TestProgram program;
  int num_steps = 0;
  std::vector<Tensor> seen;
  Evaluator evaluator(program.g, {.target = program.target,
                                  .hooks = {StopAfterEvalsHook(5), FeedFnHook([&]() -> absl::StatusOr<Feeds> {
                                              ++num_steps;
                                              return Feeds{{program.step_scale, Tensor::Scalar(1.0f)}};
                                            })},
                                  .eval_ops = {program.loss}});
  for (int repetition = 1; repetition <= 2; ++repetition) {
    const auto found = evaluator.Evaluate(directory + "/m-4");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(num_steps, 5 * repetition);
    EXPECT_EQ(found->global_step, 4);
  }
  const absl::Status refused = EvaluateOnce(program.g, directory + "/m-4",
                                            {.target = program.target, .hooks = {StopAfterEvalsHook(0)}})
                                   .status();
  EXPECT_THAT(Message(refused), HasSubstr("must be positive, is 0"));
}

TEST(EvaluationTest, EvaluationChangesNoVariableOfTraining) {
  const std::string directory = EmptyDirectory("apart");
  WriteModel(directory, 4);
  TestProgram program;
  auto training = program.Start({});
  ASSERT_TRUE(training.ok()) << training.status();
  GraphBuilder g(StandardOps());
  const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(0.0f));
  const auto found =
      EvaluateOnce(g, directory + "/m-4", {.target = program.target, .final_ops = {{"w", w.value}}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->values[0].second.scalar<float>(), 4.0f);
  EXPECT_EQ((*training)->session().Run({}, {program.w.value}).value()[0].scalar<float>(), 0.0f);
}

TEST(EvaluationTest, ADeletedCheckpointIsLeftOutAndAForeignOneIsAnError) {
  const std::string directory = EmptyDirectory("deleted");
  TestEvaluation evaluation;
  WriteModel(directory, 1);
  bool was_deleted = false;
  const auto last = EvaluateRepeatedly(directory,
                                       [&](const std::string& checkpoint) {
                                         if (!std::exchange(was_deleted, true)) {
                                           EXPECT_TRUE(RemoveBundle(checkpoint).ok());
                                           const auto missing = evaluation.evaluator->Evaluate(checkpoint);
                                           WriteModel(directory, 2);
                                           return missing;
                                         }
                                         return evaluation.evaluator->Evaluate(checkpoint);
                                       },
                                       {.checkpoints = OneLook()});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->global_step, 2);

  WriteModel(directory, 3, "another/kernel");
  const absl::Status foreign =
      EvaluateRepeatedly(directory, evaluation.fn(), {.checkpoints = OneLook()}).status();
  EXPECT_EQ(foreign.code(), absl::StatusCode::kNotFound) << foreign;
  EXPECT_THAT(Message(foreign), AllOf(HasSubstr("'w'"), HasSubstr("m-3")));
}

// A slow evaluation outlives its checkpoint: what goes wrong meanwhile has other reasons.
TEST(EvaluationTest, AnErrorComesOutAlsoWhenTheCheckpointIsGoneMeanwhile) {
  const std::string directory = EmptyDirectory("rotated");
  WriteModel(directory, 1);
  for (const absl::Status& error :
       {absl::NotFoundError("no test images in /data"), absl::DataLossError("/data/test: a bad record")}) {
    WriteModel(directory, 1);
    const absl::Status status =
        EvaluateRepeatedly(directory,
                           [&](const std::string& checkpoint) -> absl::StatusOr<Evaluation> {
                             EXPECT_TRUE(RemoveBundle(checkpoint).ok());
                             return error;
                           },
                           {.checkpoints = OneLook()})
            .status();
    EXPECT_EQ(status, error);
  }
}

TEST(EvaluationTest, ADeletedCheckpointIsNamedWithTheReason) {
  const std::string directory = EmptyDirectory("named");
  WriteModel(directory, 1);
  TestEvaluation evaluation;
  testing::internal::CaptureStderr();
  const auto nothing =
      EvaluateRepeatedly(directory,
                         [&](const std::string& checkpoint) {
                           EXPECT_TRUE(PosixFileSystem().Remove(checkpoint + ".data-00000-of-00001").ok());
                           auto result = evaluation.evaluator->Evaluate(checkpoint);
                           EXPECT_TRUE(RemoveBundle(checkpoint).ok());
                           return result;
                         },
                         {.checkpoints = OneLook()});
  EXPECT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(directory + "/m-1 was deleted"), HasSubstr("lacks a file")));
}

TEST(EvaluationTest, TrainingThatEndsEarlyIsAnError) {
  const std::string directory = EmptyDirectory("early");
  TestEvaluation evaluation;
  WriteModel(directory, 5);
  const absl::Status status =
      EvaluateRepeatedly(directory, evaluation.fn(), {.checkpoints = OneLook(), .last_step = 10}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("of step 5"), HasSubstr("to step 10")));
}

TEST(EvaluationTest, AnEvaluatorDoesNotTrain) {
  TestProgram program;
  program.target.default_task.job = "evaluator";
  const absl::Status status = program.Start({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("evaluator"));
}

// A chief that is started again saves the checkpoint that it has restored once more, under its name.
class SavedAgainMeanwhile final : public ForwardingFileSystem {
 public:
  explicit SavedAgainMeanwhile(std::string directory)
      : ForwardingFileSystem(PosixFileSystem()), directory_(std::move(directory)) {}
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    if (absl::StrContains(path, ".data-") && !std::exchange(is_saved_, true)) WriteModel(directory_, 3);
    return ForwardingFileSystem::OpenForReading(path);
  }
  bool is_saved() const { return is_saved_; }

 private:
  const std::string directory_;
  bool is_saved_ = false;
};

TEST(EvaluationTest, ACheckpointThatIsSavedAgainWhileItIsReadIsEvaluated) {
  const std::string directory = EmptyDirectory("saved_again");
  WriteModel(directory, 3);
  SavedAgainMeanwhile files(directory);
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->saver_options.file_system = &files;
  TestEvaluation evaluation({.scaffold = scaffold});
  const absl::StatusOr<Evaluation> last =
      EvaluateRepeatedly(directory, evaluation.fn(), {.checkpoints = OneLook()});
  EXPECT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(files.is_saved());
}

}  // namespace
}  // namespace weir
