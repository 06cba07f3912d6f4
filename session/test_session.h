// What tests of steps begin with: one process with two CPUs and two fake GPUs, a builder, and a session over
// what it built.
#pragma once

#include <memory>

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

  std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  GraphBuilder g_;
  std::unique_ptr<Session> session_;
};

}  // namespace weir
