// Where nodes go when there are CUDA devices: variables that GPUs have not all kernels for, what the report
// says of them, and a chief without GPUs that plans for workers with some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/cuda/cuda_kernels.h"
#include "ops/standard_ops.h"
#include "ops/training/adadelta.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGpu[] = "/job:localhost/replica:0/task:0/device:GPU:0";
constexpr char kCpu[] = "/job:localhost/replica:0/task:0/device:CPU:0";

// A weight that a step moves towards zero; `device` is what the weight asks for.
struct Shrinking {
  Shrinking(GraphBuilder& g, const std::string& device, Optimizer& optimizer) {
    {
      auto scope = g.DeviceScope(device);
      weight = MakeVariable(g, "w", Tensor::Vector<float>({3, -2, 1}));
    }
    loss = Mean(g, Square(g, weight.value), ConstIntegers(g, {0}));
    train = optimizer.Minimize(g, loss).value();
    for (const VariableDef& variable : g.graph().variables()) {
      initializers.push_back(g.graph().FindNode(variable.initializer_name));
      variables.push_back(variable.snapshot_name);
    }
  }
  ModelVariable weight;
  Output loss;
  Node* train = nullptr;
  std::vector<TargetRef> initializers;
  std::vector<TensorRef> variables;
};

class CudaPlacementTest : public CudaSessionTest {
 protected:
  void SetUp() override {
    CudaSessionTest::SetUp();
    ASSERT_THAT(NamesOfCudaOps(), AllOf(Not(Contains("ResourceApplyAdadelta")), Not(Contains("Softplus")),
                                        Not(Contains("ResourceScatterNdAdd"))));
  }

  // Three steps; the values of all variables, one after the other.
  static std::vector<float> Train(Session& session, const Shrinking& model) {
    std::vector<float> values;
    absl::Status status = session.Run({}, {}, model.initializers).status();
    for (int i = 0; i < 3 && status.ok(); ++i) status = session.Run({}, {}, {model.train}).status();
    const auto result = session.Run({}, model.variables);
    EXPECT_TRUE(status.ok() && result.ok()) << status << result.status();
    if (!result.ok()) return values;
    for (const Tensor& tensor : *result) {
      values.insert(values.end(), tensor.flat<float>().begin(), tensor.flat<float>().end());
    }
    return values;
  }

  // The devices of the nodes that have the word in their names.
  static std::vector<std::string> DevicesOf(Session& session, const std::string& word) {
    std::vector<std::string> devices;
    const auto placed = session.PlacedGraph();
    EXPECT_TRUE(placed.ok()) << placed.status();
    for (const auto& node : (*placed)->nodes()) {
      const bool works_on_it = node->op_name() == "VarHandleOp" || node->op_name().starts_with("Resource") ||
                               node->op_name() == "ReadVariableOp" || node->op_name() == "AssignVariableOp";
      if (works_on_it && absl::StrContains(node->name(), word)) {
        devices.push_back(node->assigned_device().ToString());
      }
    }
    EXPECT_FALSE(devices.empty());
    return devices;
  }

  static std::string Report(Session& session, const Shrinking& model) {
    const auto step = session.Prepare({}, {model.loss}, {model.train});
    EXPECT_TRUE(step.ok()) << step.status();
    return (*step)->placement_report().text;
  }

  const SessionOptions reported_{.log_placement = true};
};

// In every step, also in those that have nothing to do with the optimizer.
TEST_F(CudaPlacementTest, AVariableWhoseOptimizerHasNoKernelIsOnTheCpuWithAllThatWorksOnIt) {
  for (const std::string device : {"", "/gpu:0"}) {
    Place cpu({.num_threads = 1}), gpu(Gpus(1), reported_);
    Adadelta optimizer(0.5), same(0.5);
    const Shrinking on_cpu(cpu.g, "", optimizer), on_gpu(gpu.g, device, same);
    EXPECT_EQ(Train(gpu.session(), on_gpu), Train(cpu.session(), on_cpu));
    EXPECT_THAT(DevicesOf(gpu.session(), "w"), Each(kCpu));
    EXPECT_THAT(
        Report(gpu.session(), on_gpu),
        AllOf(HasSubstr("and others) are on /job:localhost/replica:0/task:0/device:CPU:0: there is no "
                        "GPU kernel for ResourceApplyAdadelta\n"),
              HasSubstr(" nodes ")));
  }
}

TEST_F(CudaPlacementTest, AVariableThatGpusHaveAllKernelsForIsOnOne) {
  Place gpu(Gpus(1), reported_);
  GradientDescent optimizer(0.5);
  const Shrinking model(gpu.g, "", optimizer);
  Train(gpu.session(), model);
  EXPECT_THAT(DevicesOf(gpu.session(), "w"), Each(kGpu));
  EXPECT_THAT(Report(gpu.session(), model), Not(HasSubstr("there is no GPU kernel for Resource")));
}

// The initializer knows of the optimizer already: nothing is placed that could not stay.
TEST_F(CudaPlacementTest, AGpuThatWasAskedForIsRefusedWithoutSoftPlacement) {
  Place gpu(Gpus(1), {.allow_soft_placement = false});
  Adadelta optimizer(0.5);
  const Shrinking model(gpu.g, "/gpu:0", optimizer);
  for (const absl::Status& status : {gpu.session().Run({}, {}, model.initializers).status(),
                                     gpu.session().Run({}, {}, {model.train}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("no device for '/device:GPU:0'; "), HasSubstr("kernel"),
                                        HasSubstr("ResourceApplyAdadelta")));
  }
}

// What was placed before the graph had the update cannot move.
TEST_F(CudaPlacementTest, AVariableStaysWhereAnEarlierStepHasIt) {
  Place gpu(Gpus(1));
  const ModelVariable rows = MakeVariable(gpu.g, "rows", Tensor::Vector<float>({1, 2}));
  Session& session = gpu.session();
  ASSERT_TRUE(session.Run({}, {}, {rows.initializer}).ok());
  EXPECT_THAT(DevicesOf(session, "rows"), Each(kGpu));
  Node* update = nullptr;
  const auto add = [&] {
    const Output index = Const(gpu.g, Tensor::FromSpan<int32_t>({1, 1}, {1}));
    update =
        gpu.g.AddNode("ResourceScatterNdAdd", {rows.handle, index, Const(gpu.g, Tensor::Vector<float>({3}))});
    return gpu.g.status();
  };
  ASSERT_TRUE(session.Extend(add).ok());
  const absl::Status status = session.Run({}, {}, {update}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr("VarHandleOp 'rows' is on a GPU since an earlier step"),
                                      HasSubstr("there is no GPU kernel for ResourceScatterNdAdd")));
  const auto values = session.Run({}, {rows.value});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].flat<float>()[1], 2);
}

TEST_F(CudaPlacementTest, TheReportNamesWhatComputesOnTheHost) {
  Place gpu(Gpus(1), reported_);
  const Output x = Placeholder(gpu.g, DType::kFloat32, {4});
  const Output y = gpu.g.AddOp("Softplus", {gpu.g.AddOp("Softplus", {Relu(gpu.g, x)})});
  const auto step = gpu.session().Prepare({x}, {y});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_THAT(
      (*step)->placement_report().text,
      HasSubstr("on /job:localhost/replica:0/task:0/device:GPU:0 these compute on the host, for there "
                "is no GPU kernel: Softplus (2)\n"));
}

// A chief and a worker, as two tasks of one process; only the worker has GPUs. Nothing crosses between them:
// the worker is fed and fetched from.
class ChiefWithoutGpusTest : public CudaPlacementTest {
 protected:
  ChiefWithoutGpusTest()
      : chief_(Runtime::Create({.job = "chief", .num_threads = 1}).value()),
        task_(Runtime::Create({.job = "worker",
                               .num_gpus = cuda_.WhyNot(1).empty() ? 1 : 0,
                               .num_threads = 2,
                               .cuda = &cuda_.backend()})
                  .value()),
        chief_worker_(*chief_, chief_->task()),
        worker_(*task_, task_->task()),
        g_(chief_->ops()) {}

  Session& session() {
    EXPECT_TRUE(g_.ok()) << g_.status();
    if (!session_) {
      session_ =
          Session::Create(g_.graph(), {&chief_worker_, &worker_}, chief_->kernels(), reported_).value();
    }
    return *session_;
  }

  const std::unique_ptr<Runtime> chief_, task_;
  LocalWorker chief_worker_, worker_;
  GraphBuilder g_;
  std::unique_ptr<Session> session_;
};

constexpr char kGpuOfWorker[] = "/job:worker/replica:0/task:0/device:GPU:0";
constexpr char kCpuOfWorker[] = "/job:worker/replica:0/task:0/device:CPU:0";

class GpusOfWorkersTest : public ChiefWithoutGpusTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GpusOfWorkersTest, AChiefPlacesNodesThere) {
  GradientDescent optimizer(0.5);
  auto scope = g_.DeviceScope(GetParam());
  const Output x = Placeholder(g_, DType::kFloat32, {3});
  const ModelVariable w = MakeVariable(g_, "w", Tensor::Vector<float>({3, -2, 1}));
  const Output loss = Sum(g_, Mul(g_, Square(g_, w.value), x), ConstIntegers(g_, {0}));
  Node* const train = optimizer.Minimize(g_, loss).value();
  ASSERT_TRUE(session().Run({}, {}, {w.initializer}).ok());
  cuda_.ClearLog();
  const auto result = session().Run({{x, Tensor::Vector<float>({1, 2, 3})}}, {loss}, {train});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].scalar<float>(), 9 + 2 * 4 + 3 * 1);
  EXPECT_THAT(Launches(), Contains("GradientDescent_float"));
  EXPECT_THAT(DevicesOf(session(), "w"), Each(kGpuOfWorker));
}

INSTANTIATE_TEST_SUITE_P(Devices, GpusOfWorkersTest,
                         ::testing::Values("/job:worker/task:0", "/job:worker/task:0/device:GPU:0"));

// What has no device stays with the chief; a variable that GPUs have no optimizer for is on the worker's CPU.
TEST_F(ChiefWithoutGpusTest, ItKnowsWhatTheWorkersGpusLack) {
  Adadelta optimizer(0.5);
  Output sum;
  ModelVariable w;
  {
    auto scope = g_.DeviceScope("/job:worker/task:0");
    w = MakeVariable(g_, "w", Tensor::Vector<float>({3, -2, 1}));
    sum = Sum(g_, Square(g_, w.value), ConstIntegers(g_, {0}));
    ASSERT_TRUE(optimizer.Minimize(g_, sum).ok());
  }
  ASSERT_TRUE(session().Run({}, {}, {w.initializer}).ok());
  EXPECT_THAT(DevicesOf(session(), "w"), Each(kCpuOfWorker));
  const auto values = session().Run({}, {sum});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 14);
}

}  // namespace
}  // namespace weir
