// Schemes of asynchronous training, on a cluster in this process: one ps and two workers whose steps come in
// an order that the test chooses. What is on the ps must be what the schemes' formulas give, written out here
// for one variable in doubles.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/launch/free_ports.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "ops/training/downpour.h"
#include "ops/training/dyn_sgd.h"
#include "ops/training/elastic_averaging.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/monitored/training_session.h"
#include "session/partial_run.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;
using Vector = std::vector<double>;

constexpr int kDims = 3;

// y = w x for a w that nobody knows yet.
struct Example {
  Example(int worker, int step) {
    std::mt19937 random(static_cast<uint32_t>(1000 * worker + step));
    std::uniform_real_distribution<double> numbers(-1, 1);
    const Vector truth = {0.5, -2, 1};
    for (int i = 0; i < kDims; ++i) {
      x.push_back(static_cast<float>(numbers(random)));
      y += truth[i] * x[i];
    }
  }
  // Of (w x - y)^2.
  Vector GradientAt(const Vector& w) const {
    double error = -y;
    for (int i = 0; i < kDims; ++i) error += w[i] * x[i];
    Vector gradient;
    for (const double one : x) gradient.push_back(2 * error * one);
    return gradient;
  }
  Vector x;
  double y = 0;
};

// to += factor * what
void Add(Vector* to, double factor, const Vector& what) {
  for (int i = 0; i < kDims; ++i) (*to)[i] += factor * what[i];
}

// One worker's program.
struct Worker {
  Worker(Server& server, const MakeOptimizer& make, bool is_chief)
      : g(StandardOps(), ReplicaDeviceSetter(server.task())) {
    x = Placeholder(g, DType::kFloat32, {kDims});
    y = Placeholder(g, DType::kFloat32, Shape());
    w = MakeVariable(g, "w", Tensor::Vector<float>({1, 1, 1}));
    step = GlobalStep(g);
    const Output loss = Square(g, Sub(g, ReduceSum(g, Mul(g, w.value, x)), y));
    train = make()->Minimize(g, loss, step).value();
    session = MonitoredTrainingSession(g, {.target = server.target(), .is_chief = is_chief}).value();
  }

  Feeds FeedsOf(const Example& example) const {
    Tensor values(DType::kFloat32, Shape({kDims}));
    for (int i = 0; i < kDims; ++i) values.flat<float>()[i] = static_cast<float>(example.x[i]);
    return {{x, values}, {y, Tensor::Scalar(static_cast<float>(example.y))}};
  }
  void Run(const Example& example) {
    const absl::Status status = session->Run(FeedsOf(example), {}, {train}).status();
    ASSERT_TRUE(status.ok()) << status;
  }
  // On the ps.
  Vector Center() {
    const Tensor value = session->session().Run({}, {w.value}).value()[0];
    return {value.flat<float>().begin(), value.flat<float>().end()};
  }

  GraphBuilder g;
  Output x, y;
  ModelVariable w, step;
  Node* train = nullptr;
  std::unique_ptr<MonitoredSession> session;
};

// The parameter: how many workers train.
class LocalUpdatesTest : public testing::TestWithParam<int> {
 protected:
  LocalUpdatesTest() {
    const std::vector<int> ports = FindFreePorts(3).value();
    for (int i = 0; i < 3; ++i) {
      const TaskName task = i == 0 ? TaskName{"ps", 0} : TaskName{"worker", i - 1};
      EXPECT_TRUE(cluster_.AddTask(task, absl::StrCat("127.0.0.1:", ports[i])).ok());
      tasks_.push_back(task);
    }
    for (const TaskName& task : tasks_) {
      servers_.push_back(
          Server::Start(TaskConfig::Create(cluster_, task).value(),
                        {.num_threads = 1, .lease = absl::Seconds(60), .transport = transport_.get()})
              .value());
    }
  }
  ~LocalUpdatesTest() override {
    for (size_t i = servers_.size(); i-- > 0;) servers_[i]->Shutdown();
  }

  std::vector<std::unique_ptr<Worker>> MakeWorkers(int count, const MakeOptimizer& make) {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0; i < count; ++i) {
      workers.push_back(std::make_unique<Worker>(*servers_[i + 1], make, i == 0));
    }
    return workers;
  }

  // Runs the workers' steps in the order that a seed draws, and compares after each of them with `simulate`,
  // which is given the worker and its example and gives the center. Gives the last center.
  Vector RunAgainst(int num_steps, const MakeOptimizer& make,
                    const std::function<Vector(int worker, int step, const Example& example)>& simulate) {
    const auto workers = MakeWorkers(GetParam(), make);
    std::mt19937 order(7);
    std::vector<int> steps(GetParam());
    Vector center;
    for (int i = 0; i < num_steps; ++i) {
      const int worker = std::uniform_int_distribution<int>(0, GetParam() - 1)(order);
      const Example example(worker, steps[worker]);
      workers[worker]->Run(example);
      const Vector expected = simulate(worker, steps[worker]++, example);
      center = workers[0]->Center();
      for (int k = 0; k < kDims; ++k) EXPECT_NEAR(center[k], expected[k], 2e-5) << "step " << i;
      if (HasFailure()) break;
    }
    for (const auto& worker : workers) EXPECT_TRUE(worker->session->Close().ok());
    return center;
  }

  const std::unique_ptr<Transport> transport_ = MakeInprocTransport(MakeInprocNetwork());
  ClusterSpec cluster_;
  std::vector<TaskName> tasks_;
  std::vector<std::unique_ptr<Server>> servers_;
};

void ExpectTruth(const Vector& center, double tolerance) {
  const Vector truth = {0.5, -2, 1};
  for (int i = 0; i < kDims; ++i) EXPECT_NEAR(center[i], truth[i], tolerance);
}

TEST_P(LocalUpdatesTest, Downpour) {
  static constexpr double kLocalRate = 0.05, kRate = 0.04;
  constexpr int kPush = 3, kFetch = 4;
  Vector center(kDims, 1);
  std::vector<Vector> copies(GetParam()), sums(GetParam(), Vector(kDims, 0));
  const auto make = [] {
    return Downpour(std::make_unique<GradientDescent>(kRate),
                    {.learning_rate = kLocalRate, .n_push = kPush, .n_fetch = kFetch});
  };
  const Vector end = RunAgainst(300, make, [&](int worker, int step, const Example& example) {
    if (step % kFetch == 0) copies[worker] = center;
    const Vector gradient = example.GradientAt(copies[worker]);
    Add(&sums[worker], 1, gradient);
    Add(&copies[worker], -kLocalRate, gradient);
    if (step % kPush == 0) {
      Add(&center, -kRate, sums[worker]);
      sums[worker].assign(kDims, 0);
    }
    return center;
  });
  ExpectTruth(end, 0.1);
}

TEST_P(LocalUpdatesTest, AccumulatedGradientNormalization) {
  static constexpr double kLocalRate = 0.1, kRate = 0.3;
  constexpr int kSteps = 4;
  Vector center(kDims, 1);
  std::vector<Vector> copies(GetParam()), sums(GetParam(), Vector(kDims, 0));
  const auto make = [] {
    return AccumulatedGradientNormalization(std::make_unique<GradientDescent>(kRate),
                                            {.learning_rate = kLocalRate, .steps = kSteps});
  };
  const Vector end = RunAgainst(300, make, [&](int worker, int step, const Example& example) {
    if (step % kSteps == 0) copies[worker] = center;
    const Vector gradient = example.GradientAt(copies[worker]);
    Add(&sums[worker], 1, gradient);
    Add(&copies[worker], -kLocalRate, gradient);
    if (step % kSteps == kSteps - 1) {
      Add(&center, -kRate / kSteps, sums[worker]);
      sums[worker].assign(kDims, 0);
    }
    return center;
  });
  ExpectTruth(end, 0.1);
}

TEST_P(LocalUpdatesTest, ElasticAveragingWithAndWithoutMomentum) {
  static constexpr double kRate = 0.1, kMoving = 0.3;
  constexpr int kPeriod = 3;
  const double momentum = GetParam() == 1 ? 0 : 0.6;
  Vector center(kDims, 1);
  std::vector<Vector> copies(GetParam(), center), velocities(GetParam(), Vector(kDims, 0));
  const auto make = [momentum] {
    return std::make_unique<ElasticAveraging>(ElasticAveragingOptions{
        .learning_rate = kRate, .moving_rate = kMoving, .period = kPeriod, .momentum = momentum});
  };
  const Vector end = RunAgainst(400, make, [&](int worker, int step, const Example& example) {
    Vector ahead = copies[worker];
    Add(&ahead, momentum, velocities[worker]);
    const Vector gradient = example.GradientAt(ahead);
    if (step % kPeriod == 0) {
      Vector difference = copies[worker];
      Add(&difference, -1, center);
      Add(&copies[worker], -kMoving, difference);
      Add(&center, kMoving, difference);
    }
    for (double& one : velocities[worker]) one *= momentum;
    Add(&velocities[worker], -kRate, gradient);
    Add(&copies[worker], 1, velocities[worker]);
    return center;
  });
  ExpectTruth(end, 0.1);
}

// One after the other there is no staleness.
TEST_P(LocalUpdatesTest, DynSgdWithoutStaleness) {
  static constexpr double kRate = 0.1;
  Vector center(kDims, 1);
  const auto make = [] { return DynSgd(std::make_unique<GradientDescent>(kRate)); };
  const Vector end = RunAgainst(300, make, [&](int, int, const Example& example) {
    Add(&center, -kRate, example.GradientAt(center));
    return center;
  });
  ExpectTruth(end, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Workers, LocalUpdatesTest, testing::Values(1, 2));

using DynSgdTest = LocalUpdatesTest;

// Worker 0 reads, then worker 1 does `tau` whole steps, then worker 0 computes its gradient.
TEST_P(DynSgdTest, AGradientIsDividedByItsStalenessPlusOne) {
  static constexpr double kRate = 0.1;
  const auto workers = MakeWorkers(2, [] { return DynSgd(std::make_unique<GradientDescent>(kRate)); });
  Vector center(kDims, 1);
  int step = 0;
  for (const int tau : {0, 1, 3}) {
    const Vector read = center;
    const Example stale(0, tau);
    Worker& slow = *workers[0];
    const auto run = slow.session->session().StartPartialRun({slow.x, slow.y},
                                                             {slow.w.value, slow.step.value}, {slow.train});
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE((*run)->Run({}, {slow.w.value}).ok());
    for (int i = 0; i < tau; ++i) {
      const Example fresh(1, step++);
      workers[1]->Run(fresh);
      Add(&center, -kRate, fresh.GradientAt(center));
    }
    ASSERT_TRUE((*run)->Run(slow.FeedsOf(stale), {slow.step.value}).ok());
    Add(&center, -kRate / (tau + 1), stale.GradientAt(read));
    const Vector found = slow.Center();
    for (int k = 0; k < kDims; ++k) EXPECT_NEAR(found[k], center[k], 1e-5) << "tau " << tau;
  }
  for (const auto& worker : workers) EXPECT_TRUE(worker->session->Close().ok());
}

INSTANTIATE_TEST_SUITE_P(Stale, DynSgdTest, testing::Values(2));

// A checkpoint of any of them is that of the plain model.
TEST(LocalUpdateOptionsTest, CheckpointsHaveTheCentersAlone) {
  for (const MakeOptimizer& make : {
           MakeOptimizer([] { return Downpour(std::make_unique<GradientDescent>(0.1), {}); }),
           MakeOptimizer(
               [] { return std::make_unique<ElasticAveraging>(ElasticAveragingOptions{.momentum = 0.5}); }),
       }) {
    GraphBuilder g(StandardOps());
    const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(1.0f));
    ASSERT_TRUE(make()->Minimize(g, Square(g, w.value), GlobalStep(g)).ok());
    std::vector<std::string> names;
    for (const ModelVariable& variable : AllVariables(g)) names.push_back(variable.name);
    EXPECT_THAT(names, testing::ElementsAre("w", "global_step"));
  }
}

TEST(LocalUpdateOptionsTest, WhatCannotBeIsRefused) {
  const auto refusal = [](std::unique_ptr<Optimizer> optimizer, bool looks_up_rows = false,
                          bool has_step = true, const GradientOptions& options = {}) {
    GraphBuilder g(StandardOps());
    const ModelVariable w = MakeVariable(g, "w", Tensor::Vector<float>({1, 2}));
    const Output value = looks_up_rows ? ResourceGather(g, w.handle, Const(g, 0), DType::kFloat32) : w.value;
    const absl::Status status =
        optimizer
            ->Minimize(g, ReduceSum(g, Square(g, value)), has_step ? GlobalStep(g) : ModelVariable(), options)
            .status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const auto descent = [] { return std::make_unique<GradientDescent>(0.1); };
  const auto elastic = [](const ElasticAveragingOptions& options) {
    return std::make_unique<ElasticAveraging>(options);
  };
  EXPECT_THAT(refusal(Downpour(nullptr, {})), HasSubstr("Downpour: the optimizer is null"));
  EXPECT_THAT(refusal(Downpour(descent(), {.n_push = 0})), HasSubstr("must be at least 1, are 0"));
  EXPECT_THAT(refusal(Downpour(descent(), {.n_fetch = -2})), HasSubstr("must be at least 1, are -2"));
  EXPECT_THAT(refusal(Downpour(descent(), {.learning_rate = std::nan("")})), HasSubstr("learning_rate"));
  EXPECT_THAT(refusal(AccumulatedGradientNormalization(descent(), {.steps = 0})),
              HasSubstr("AccumulatedGradientNormalization: the steps between two exchanges"));
  EXPECT_THAT(refusal(elastic({.moving_rate = 0})), HasSubstr("moving_rate must be above 0 and at most 1"));
  EXPECT_THAT(refusal(elastic({.moving_rate = std::nan("")})), HasSubstr("moving_rate"));
  EXPECT_THAT(refusal(elastic({.period = 0})), HasSubstr("period must be at least 1, is 0"));
  EXPECT_THAT(refusal(elastic({.momentum = 1})), HasSubstr("momentum must be from 0 to below 1, is 1"));
  EXPECT_THAT(
      refusal(Downpour(descent(), {}), true),
      HasSubstr("Downpour: the variable 'w' is used by 'ResourceGather' (ResourceGather): only variables "
                "that are read as a whole can have a local copy"));
  EXPECT_THAT(refusal(elastic({}), true), HasSubstr("is used by 'ResourceGather'"));
  EXPECT_THAT(refusal(elastic({}), false, true, {.only = NamedBelow("v")}),
              HasSubstr("ElasticAveraging: there are no variables to train"));
  EXPECT_THAT(refusal(elastic({}), false, true, {.variables = std::vector<ModelVariable>(1)}),
              HasSubstr("is not in this graph"));
  EXPECT_THAT(refusal(DynSgd(nullptr)), HasSubstr("DynSgd: the optimizer is null"));
  EXPECT_THAT(refusal(DynSgd(descent()), false, false), HasSubstr("DynSgd: needs a global step"));
  EXPECT_THAT(refusal(Downpour(DynSgd(descent()), {.n_push = 2, .n_fetch = 1})),
              HasSubstr("Downpour: the wrapped optimizer (DynSgd) divides by the staleness of one step's"));
  EXPECT_THAT(refusal(Downpour(DynSgd(descent()), {.n_push = 1, .n_fetch = 2})), HasSubstr("DynSgd"));
  EXPECT_THAT(refusal(AccumulatedGradientNormalization(DynSgd(descent()), {.steps = 2})),
              HasSubstr("AccumulatedGradientNormalization: the wrapped optimizer (DynSgd)"));
}

// Otherwise an update between the two would make them look older than they are.
TEST(LocalUpdateOptionsTest, DynSgdReadsTheCountBeforeRows) {
  GraphBuilder g(StandardOps());
  const ModelVariable table = MakeVariable(g, "table", Tensor::FromSpan<float>({2, 1}, {1, 2}));
  const ModelVariable step = GlobalStep(g);
  const Output rows =
      ResourceGather(g, table.handle, Const(g, Tensor::Vector<int32_t>({0})), DType::kFloat32);
  const auto train =
      DynSgd(std::make_unique<GradientDescent>(0.1))->Minimize(g, ReduceSum(g, Square(g, rows)), step);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_THAT(rows.node->control_inputs(), testing::Contains(step.value.node));
}

}  // namespace
}  // namespace weir
