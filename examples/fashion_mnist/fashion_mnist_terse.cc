// fashion_mnist_explained.cc without words, flags and evaluation: six epochs of the perceptron.
#include <cstdio>

#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "examples/fashion_mnist/dataset.h"
#include "examples/fashion_mnist/model.h"
#include "ops/standard_ops.h"
#include "ops/training/adam.h"
#include "ops/variable.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"

using namespace weir;

int main(int argc, char** argv) {
  const TaskConfig task = TaskConfigFromCommandLine(&argc, argv).value();
  auto server = Server::Start(task).value();
  if (task.job() == "ps") return server->Join();
  if (task.is_evaluator()) return std::fputs("this program writes no checkpoints to evaluate\n", stderr), 1;

  const auto data = examples::ReadDataset(argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist").value();
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const examples::Model model = examples::BuildModel(g, "mlp");
  Node* train = Adam(0.001).Minimize(g, model.loss, GlobalStep(g)).value();
  const int64_t last_step = 6 * data.train.count() / 100;
  auto session =
      MonitoredTrainingSession(
          g, {.target = server->target(),
              .is_chief = task.is_chief(),
              .hooks = {StopAtStepHook({.last_step = last_step}),
                        ProgressHook({.last_step = last_step, .tensors = {{"loss", model.loss}}})}})
          .value();
  examples::ShuffledBatches batches(data.train, 100, task.task_index());
  absl::Status status;
  while (status.ok() && !session->should_stop()) {
    const examples::Batch batch = batches.Next();
    status = session->Run({{model.images, batch.images}, {model.labels, batch.labels}}, {}, {train}).status();
  }
  if (status.ok()) status = session->Close();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  server->Shutdown(status);
  return ExitCodeFor(status);
}
