// Wrong data that a GPU finds, usually a recorded one: the step has the CPU's error, nothing is applied, the
// next step runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/standard_ops.h"
#include "ops/training/adam.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kExamples = 5, kClasses = 3;

// A layer whose labels come of an addition, so that they are made on the device.
struct Classifier {
  Classifier(GraphBuilder& g, Optimizer& optimizer) {
    std::vector<float> weights(2 * kClasses);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i) / 8;
    x = Placeholder(g, DType::kFloat32, {-1, 2});
    raw_labels = Placeholder(g, DType::kInt32, {-1, 1});
    const ModelVariable w = MakeVariable(g, "w", Tensor::FromSpan<float>({2, kClasses}, weights));
    const Output labels =
        g.AddOp("Reshape", {g.AddOp("AddV2", {raw_labels, raw_labels}), ConstIntegers(g, {-1})});
    loss = Mean(g, SparseSoftmaxCrossEntropyWithLogits(g, MatMul(g, x, w.value), labels).loss,
                ConstIntegers(g, {0}));
    const ModelVariable step = GlobalStep(g);
    train = optimizer.Minimize(g, loss, step).value();
    for (const VariableDef& variable : g.graph().variables()) {
      initializers.push_back(g.graph().FindNode(variable.initializer_name));
      variables.push_back(variable.snapshot_name);
    }
  }

  // Halves of labels: 1 stands for the class 2.
  Feeds Batch(int32_t third) const {
    Tensor features(DType::kFloat32, Shape({kExamples, 2}));
    for (int i = 0; i < 2 * kExamples; ++i) features.flat<float>()[i] = static_cast<float>(i % 7) / 7;
    const std::vector<int32_t> halves = {0, 1, third, 0, 1};
    return {{x, features}, {raw_labels, Tensor::FromSpan<int32_t>({kExamples, 1}, halves)}};
  }

  Output x, raw_labels, loss;
  Node* train = nullptr;
  std::vector<TargetRef> initializers;
  std::vector<TensorRef> variables;
};

std::vector<std::string> TextsOf(const std::vector<Tensor>& tensors) {
  std::vector<std::string> texts;
  for (const Tensor& tensor : tensors) texts.push_back(tensor.ToString(100));
  return texts;
}

constexpr char kBadLabel[] =
    "Received a label value of 6 which is outside the valid range of [0, 3), at example 2";

class DataErrorsTest : public CudaSessionTest {
 protected:
  // A model on the device of a place.
  struct Run {
    Run(const RuntimeOptions& options, const std::string& device) : place(options) {
      auto scope = place.g.DeviceScope(device);
      model = std::make_unique<Classifier>(place.g, optimizer);
    }
    std::vector<std::string> Values() {
      const auto values = place.session().Run({}, model->variables);
      EXPECT_TRUE(values.ok()) << values.status();
      return values.ok() ? TextsOf(*values) : std::vector<std::string>();
    }
    absl::Status Step(int32_t third, bool fetches) {
      const std::vector<TensorRef> fetched =
          fetches ? std::vector<TensorRef>{model->loss} : std::vector<TensorRef>{};
      return place.session().Run(model->Batch(third), fetched, {model->train}).status();
    }
    Place place;
    Adam optimizer{0.1};
    std::unique_ptr<Classifier> model;
  };
};

// Weights, Adam's slots and powers, the step's number: all of it stays.
TEST_F(DataErrorsTest, ALabelMadeOnTheDeviceIsTheCpusErrorAndNothingIsApplied) {
  Run cpu({.num_threads = 1}, "/cpu:0"), gpu(Gpus(1), "/gpu:0");
  std::vector<std::string> messages;
  for (Run* const run : {&cpu, &gpu}) {
    ASSERT_TRUE(run->place.session().Run({}, {}, run->model->initializers).ok());
    ASSERT_TRUE(run->Step(0, true).ok());
    const std::vector<std::string> before = run->Values();
    const absl::Status status = run->Step(3, true);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    messages.push_back(std::string(status.message()));
    EXPECT_EQ(run->Values(), before);
    ASSERT_TRUE(run->Step(1, true).ok());
    EXPECT_NE(run->Values(), before);
  }
  EXPECT_THAT(messages[0], HasSubstr(kBadLabel));
  EXPECT_THAT(messages[1], AllOf(HasSubstr(kBadLabel), HasSubstr("SparseSoftmaxCrossEntropyWithLogits '"),
                                 HasSubstr("' on /job:localhost/replica:0/task:0/device:GPU:0: ")));
  EXPECT_EQ(messages[1].find("device:GPU:0"), messages[1].rfind("device:GPU:0"));
}

TEST_F(DataErrorsTest, LabelsAreNotCopiedBackAndNotWaitedFor) {
  Run gpu(Gpus(1), "/gpu:0");
  ASSERT_TRUE(gpu.place.session().Run({}, {}, gpu.model->initializers).ok());
  for (int i = 0; i < 4; ++i) {
    cuda_.RunAll();
    cuda_.ClearLog();
    ASSERT_TRUE(gpu.Step(0, false).ok());
  }
  const Counts counts = CountsOfLog();
  EXPECT_EQ(counts.out, 0);
  EXPECT_EQ(counts.waits, 0);
  EXPECT_EQ(counts.allocations, 0);
}

// Nobody waits for such a step. What is found of it is the next one's error, which then does nothing itself.
TEST_F(DataErrorsTest, AnErrorOfAStepWithoutFetchesIsThatOfTheNext) {
  // A GPU finds it before the step has enqueued all that follows.
  if (!cuda_.is_stand_in()) GTEST_SKIP() << kOnlyOnTheStandIn;
  Run gpu(Gpus(1), "/gpu:0");
  ASSERT_TRUE(gpu.place.session().Run({}, {}, gpu.model->initializers).ok());
  ASSERT_TRUE(gpu.Step(0, true).ok());
  const std::vector<std::string> before = gpu.Values();
  ASSERT_TRUE(gpu.Step(3, false).ok());
  EXPECT_EQ(gpu.Values(), before);
  for (const bool fetches : {true, false}) {
    if (!fetches) EXPECT_TRUE(gpu.Step(3, false).ok());
    cuda_.RunAll();
    const absl::Status status = gpu.Step(1, fetches);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("an earlier step, which nobody waited for, has failed: "),
                                        HasSubstr(kBadLabel)));
    EXPECT_EQ(gpu.Values(), before);
  }
  ASSERT_TRUE(gpu.Step(1, true).ok());
  EXPECT_NE(gpu.Values(), before);
}

// Steps that are enqueued behind one that fails are not its victims.
TEST_F(DataErrorsTest, StepsBehindOneThatFailsAreApplied) {
  if (!cuda_.is_stand_in()) GTEST_SKIP() << kOnlyOnTheStandIn;
  Run cpu({.num_threads = 1}, "/cpu:0"), gpu(Gpus(1), "/gpu:0");
  for (Run* const run : {&cpu, &gpu}) {
    ASSERT_TRUE(run->place.session().Run({}, {}, run->model->initializers).ok());
  }
  ASSERT_FALSE(cpu.Step(3, false).ok());
  ASSERT_TRUE(cpu.Step(1, false).ok());
  // The recorder has done nothing when the second one is enqueued.
  ASSERT_TRUE(gpu.Step(3, false).ok());
  ASSERT_TRUE(gpu.Step(1, false).ok());
  const auto expected = cpu.place.session().Run({}, cpu.model->variables);
  const auto found = gpu.place.session().Run({}, gpu.model->variables);
  ASSERT_TRUE(expected.ok() && found.ok());
  for (size_t i = 0; i < expected->size(); ++i) {
    if ((*expected)[i].dtype() == DType::kInt64) {
      EXPECT_EQ((*found)[i].scalar<int64_t>(), (*expected)[i].scalar<int64_t>());
    } else {
      EXPECT_LT(Difference((*found)[i], (*expected)[i]), 2e-6) << i;
    }
  }
}

// A node of the host never gets what comes of wrong data.
TEST_F(DataErrorsTest, ANodeOfTheHostDoesNotRun) {
  Run gpu(Gpus(1), "/gpu:0");
  GraphBuilder& g = gpu.place.g;
  ModelVariable noted;
  Node* note = nullptr;
  {
    auto scope = g.DeviceScope("/cpu:0");
    noted = MakeVariable(g, "noted", Tensor::Scalar(1.0f));
    note = g.AddNode("AssignVariableOp", {noted.handle, gpu.model->loss});
  }
  Session& session = gpu.place.session();
  ASSERT_TRUE(session.Run({}, {}, gpu.model->initializers).ok());
  ASSERT_TRUE(session.Run({}, {}, {noted.initializer}).ok());
  const absl::Status status = session.Run(gpu.model->Batch(3), {}, {note}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(kBadLabel));
  const auto value = session.Run({}, {noted.value});
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)[0].scalar<float>(), 1);
}

// "CheckNumerics 'CheckNumerics' on DEVICE: text" without the device.
std::string WithoutDevice(const absl::Status& status) {
  std::string text(status.message());
  const size_t device = text.find("/job:"), end = text.find(": ");
  if (end != std::string::npos) text.erase(device, end - device);
  return text;
}

TEST_F(DataErrorsTest, NumbersThatAreNotFiniteAreTheCpusErrors) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}) {
    for (const std::vector<float>& values :
         std::vector<std::vector<float>>{{1, 2}, {1, nan}, {-inf, 1}, {inf, nan}}) {
      std::vector<absl::Status> statuses;
      for (const bool on_gpu : {false, true}) {
        Place place(on_gpu ? Gpus(1) : RuntimeOptions{.num_threads = 1});
        GraphBuilder& g = place.g;
        auto scope = g.DeviceScope(on_gpu ? "/gpu:0" : "/cpu:0");
        const Output x = Placeholder(g, DType::kFloat32, {2});
        const Output checked =
            g.AddOp("CheckNumerics", {g.AddOp("Cast", {x}, {{"DstT", dtype}})}, {{"message", "the loss"}});
        const ModelVariable v = MakeVariable(g, "v", Tensor::Vector<float>({0, 0}));
        Node* const assign = g.AddNode("AssignVariableOp",
                                       {v.handle, g.AddOp("Cast", {checked}, {{"DstT", DType::kFloat32}})});
        ASSERT_TRUE(place.session().Run({}, {}, {v.initializer}).ok());
        const Feeds feeds = {{x, Tensor::FromSpan<float>({2}, values)}};
        statuses.push_back(place.session().Run(feeds, {checked}, {assign}).status());
        const auto kept = place.session().Run({}, {v.value});
        ASSERT_TRUE(kept.ok()) << kept.status();
        EXPECT_EQ((*kept)[0].flat<float>()[0], statuses.back().ok() ? 1 : 0);
      }
      EXPECT_EQ(statuses[1].code(), statuses[0].code()) << statuses[1];
      EXPECT_EQ(WithoutDevice(statuses[1]), WithoutDevice(statuses[0]));
      EXPECT_EQ(statuses[0].ok(), std::isfinite(values[0]) && std::isfinite(values[1]));
    }
  }
}

}  // namespace
}  // namespace weir
