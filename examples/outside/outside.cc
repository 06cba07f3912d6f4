// A program outside Weir's repository: it fits a line to five points, and runs as every task of a cluster or
// alone.
//
// It is built by Bazel, by CMake, and by the compiler with pkg-config (README.md).
#include <cstdio>

#include "weir/weir.h"

using namespace weir;

absl::Status Train(const TaskConfig& task, Server& server) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const Output x = Placeholder(g, DType::kFloat32, {-1}), y = Placeholder(g, DType::kFloat32, {-1});
  const ModelVariable w = MakeVariable(g, "w", Tensor::Scalar(0.0f));
  const ModelVariable b = MakeVariable(g, "b", Tensor::Scalar(0.0f));
  const Output loss = ReduceMean(g, SquaredDifference(g, AddV2(g, Mul(g, w.value, x), b.value), y));
  absl::StatusOr<Node*> train = GradientDescent(0.1).Minimize(g, loss, GlobalStep(g));
  if (!train.ok()) return train.status();

  absl::StatusOr<std::unique_ptr<MonitoredSession>> session =
      MonitoredTrainingSession(g, {.target = server.target(),
                                   .is_chief = task.is_chief(),
                                   .hooks = {StopAtStepHook({.last_step = 200})}});
  if (!session.ok()) return session.status();
  const Tensor xs = Tensor::Vector<float>({-2, -1, 0, 1, 2}), ys = Tensor::Vector<float>({-4, -1, 2, 5, 8});
  while (!(*session)->should_stop()) {
    const absl::Status status = (*session)->Run({{x, xs}, {y, ys}}, {}, {*train}).status();
    if (!status.ok()) return status;
  }
  const absl::StatusOr<std::vector<Tensor>> line = (*session)->session().Run({}, {w.value, b.value});
  if (!line.ok()) return line.status();
  std::printf("y = %.2f x + %.2f\n", (*line)[0].scalar<float>(), (*line)[1].scalar<float>());
  return (*session)->Close();
}

int main(int argc, char** argv) {
  const absl::StatusOr<TaskConfig> task = TaskConfigFromCommandLine(&argc, argv);
  if (!task.ok())
    return std::fprintf(stderr, "%s\n", task.status().ToString().c_str()), ExitCodeFor(task.status());
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*task);
  if (!server.ok())
    return std::fprintf(stderr, "%s\n", server.status().ToString().c_str()), ExitCodeFor(server.status());
  if (task->job() == "ps") return (*server)->Join();
  const absl::Status status = Train(*task, **server);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  (*server)->Shutdown(status);
  return ExitCodeFor(status);
}
