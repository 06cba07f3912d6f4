// Fits y = w x + b to noisy points by gradient descent: the smallest complete program.
//
// Prints the loss every 100 steps and what was found:
//   w = 3.00..., b = 2.00...
#include <cstdio>
#include <random>
#include <vector>

#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

using namespace weir;

int main() {
  // 200 points around the line y = 3x + 2.
  constexpr int kPoints = 200;
  Tensor xs(DType::kFloat32, Shape({kPoints})), ys(DType::kFloat32, Shape({kPoints}));
  std::mt19937 random(42);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::normal_distribution<float> noise(0, 0.05f);
  for (int i = 0; i < kPoints; ++i) {
    xs.flat<float>()[i] = uniform(random);
    ys.flat<float>()[i] = 3 * xs.flat<float>()[i] + 2 + noise(random);
  }

  // The graph only describes the computation; nothing runs yet. -1: any number of points may be fed.
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, {-1}), y = Placeholder(g, DType::kFloat32, {-1});
  const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(0.0f)),
                      b = MakeVariable(g, "b", Tensor::Scalar(0.0f));
  const Output predicted = AddV2(g, Mul(g, w.value, x), b.value);
  const Output loss = ReduceMean(g, SquaredDifference(g, predicted, y));
  const absl::StatusOr<Node*> train = GradientDescent(0.3).Minimize(g, loss);
  Node* init = InitializeVariables(g);
  // The first mistake made above, if any, with the line it was made in.
  if (!g.ok()) return std::fprintf(stderr, "%s\n", g.status().ToString().c_str()), 1;

  // A runtime owns devices and kernels; a worker runs steps on them; a session compiles the graph for
  // workers.
  auto runtime = Runtime::Create().value();
  LocalWorker worker(*runtime, runtime->task());
  auto session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();

  absl::Status status = session->Run({}, {}, {init}).status();
  for (int step = 0; step <= 300 && status.ok(); ++step) {
    absl::StatusOr<std::vector<Tensor>> result = session->Run({{x, xs}, {y, ys}}, {loss}, {*train});
    status = result.status();
    if (status.ok() && step % 100 == 0)
      std::printf("step %3d  loss %.5f\n", step, (*result)[0].scalar<float>());
  }
  absl::StatusOr<std::vector<Tensor>> found = session->Run({}, {w.value, b.value});
  if (status.ok()) status = found.status();
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  std::printf("w = %.3f, b = %.3f\n", (*found)[0].scalar<float>(), (*found)[1].scalar<float>());
  return 0;
}
