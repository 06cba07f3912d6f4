// What tests of steps begin with: one process with two CPUs and two fake GPUs, a builder, and a session over
// what it built.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {

class TestSession : public testing::Test {
 protected:
  TestSession()
      : runtime_(Runtime::Create({.num_cpus = 2, .num_fake_gpus = 2}).value()),
        worker_(*runtime_, runtime_->task()),
        g_(runtime_->ops()) {}

  // Made of the graph at the first call.
  Session& session() {
    EXPECT_TRUE(g_.ok()) << g_.status();
    if (!session_) session_ = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
    return *session_;
  }
  // One step of the graph as it is now, in a session of its own.
  absl::StatusOr<std::vector<Tensor>> RunAnew(const std::vector<TensorRef>& fetches) {
    session_.reset();
    return session().Run({}, fetches);
  }
  std::string ErrorOf(const std::vector<TensorRef>& fetches) {
    const auto result = RunAnew(fetches);
    return result.ok() ? "no error" : std::string(result.status().message());
  }
  std::string ErrorOf(Output fetch) { return ErrorOf(std::vector<TensorRef>{fetch}); }
  Output Constant(Tensor value) {
    const DType dtype = value.dtype();
    return g_.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  }
  static std::vector<float> Floats(const Tensor& tensor) {
    return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
  }

  std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  GraphBuilder g_;
  std::unique_ptr<Session> session_;
};

}  // namespace weir
