// linear_regression_explained.cc without words.
#include <cstdio>

#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

using namespace weir;

int main() {
  const Tensor xs = Tensor::Vector<float>({-2, -1, 0, 1, 2}), ys = Tensor::Vector<float>({-4, -1, 2, 5, 8});
  GraphBuilder g(StandardOps());
  const Output x = Placeholder(g, DType::kFloat32, {-1}), y = Placeholder(g, DType::kFloat32, {-1});
  const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(0.0f)),
                      b = MakeVariable(g, "b", Tensor::Scalar(0.0f));
  const Output loss = ReduceMean(g, SquaredDifference(g, AddV2(g, Mul(g, w.value, x), b.value), y));
  Node* train = GradientDescent(0.1).Minimize(g, loss).value();
  Node* init = InitializeVariables(g);

  auto runtime = Runtime::Create().value();
  LocalWorker worker(*runtime, runtime->task());
  auto session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
  session->Run({}, {}, {init}).value();
  for (int step = 0; step < 200; ++step) session->Run({{x, xs}, {y, ys}}, {}, {train}).value();
  const auto found = session->Run({}, {w.value, b.value}).value();
  std::printf("w = %.3f, b = %.3f\n", found[0].scalar<float>(), found[1].scalar<float>());
}
