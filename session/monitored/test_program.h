// A small training program for the tests of training sessions.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/training_session.h"
#include "session/runtime.h"

namespace weir {

inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

inline std::string EmptyDirectory(const std::string& name) {
  static int count = 0;
  const std::string path = absl::StrCat(testing::TempDir(), "/", name, "_", ::getpid(), "_", count++);
  EXPECT_TRUE(PosixFileSystem().CreateDirectories(path).ok());
  return path;
}

// A process that trains w towards 3 by gradient descent: loss (w - 3)^2. Making a second one is restarting
// the program.
class TestProgram {
 public:
  explicit TestProgram(const RuntimeOptions& options = {})
      : runtime(Runtime::Create(options).value()), worker(*runtime, runtime->task()), g(StandardOps()) {
    target = {.workers = {&worker}, .default_task = runtime->task(), .kernels = &runtime->kernels()};
    w = MakeVariable(g, "w", Tensor::Scalar(0.0f));
    step_scale = PlaceholderWithDefault(g, Const(g, 1.0f), Shape());
    loss = Square(g, Sub(g, Mul(g, w.value, step_scale), Const(g, 3.0f)));
    AddScalarSummary(g, "loss", loss);
    train = GradientDescent(0.1).Minimize(g, loss, GlobalStep(g)).value();
  }

  absl::StatusOr<std::unique_ptr<MonitoredSession>> Start(TrainingSessionOptions options) {
    options.target = target;
    return MonitoredTrainingSession(g, std::move(options));
  }

  std::unique_ptr<Runtime> runtime;
  LocalWorker worker;
  GraphBuilder g;
  SessionTarget target;
  ModelVariable w;
  Output step_scale;
  Output loss;
  Node* train = nullptr;
};

inline absl::Status TrainUntilStop(TestProgram& program, MonitoredSession& session) {
  while (!session.should_stop()) {
    if (absl::Status status = session.Run({}, {}, {program.train}).status(); !status.ok()) return status;
  }
  return session.Close();
}

}  // namespace weir
