// The end of a server while one of its kernels computes. Alone, because gRPC does not run in a process that
// was forked from one where it ran.
#include <signal.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/cluster_spec.h"
#include "distributed/command/serve_command.h"
#include "distributed/launch/free_ports.h"
#include "distributed/launch/test_processes.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"
#include "kernels/device_kernels.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// A kernel that does not ask whether its step is over, as a call of a library may be.
class NeverAsks final : public Kernel {
 public:
  explicit NeverAsks(const KernelConstruction& node) : begun_(node.attr<std::string>("begun")) {}
  absl::Status Compute(KernelContext&) override {
    std::ofstream(begun_) << "computes";
    absl::SleepFor(absl::Minutes(5));
    return absl::OkStatus();
  }

 private:
  const std::string begun_;
};

TEST(ServeEnd, AServerEndsThoughAKernelComputes) {
  const std::string dir = MakeTestDir("serve_"), begun = dir + "/begun", output = dir + "/output";
  OpRegistry ops;
  ASSERT_TRUE(RegisterStandardOps(ops).ok());
  ASSERT_TRUE(ops.Register({.name = "NeverAsks",
                            .summary = "Computes for minutes.",
                            .attrs = {"begun: string"},
                            .is_stateful = true,
                            .infer_shapes = UnknownShape,
                            .gradient = NotDifferentiable})
                  .ok());
  ServerOptions options;
  options.ops = &ops;
  options.register_kernels = [](KernelRegistry& registry, absl::string_view device_type) {
    DeviceKernels(registry, device_type).Add<NeverAsks>("NeverAsks");
  };
  const ReservedPorts ports = ReservedPorts::Take(2).value();
  const std::string cluster = absl::StrCat("ps|127.0.0.1:", ports[0], ",worker|127.0.0.1:", ports[1]);
  TestProcess ps = TestProcess::Fork([&] {
    const int out = open(output.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out, STDERR_FILENO);
    return RunServe({"--cluster_spec=" + cluster, "--job_name=ps"}, options).value_or(99);
  });

  const std::unique_ptr<Server> worker =
      Server::Start(TaskConfig::Create(ClusterSpec::FromFlag(cluster).value(), {"worker", 0}).value(),
                    options)
          .value();
  GraphBuilder g(ops);
  auto device = g.DeviceScope("/job:ps/task:0");
  Node* const node = g.AddNode("NeverAsks", {}, {{"begun", begun}});
  const std::unique_ptr<Session> session = worker->CreateSession(g.graph()).value();
  std::thread step([&] { EXPECT_FALSE(session->Run({}, {}, {node}).ok()); });
  EXPECT_TRUE(AwaitFile(begun));
  ps.Signal(SIGINT);
  EXPECT_EQ(ps.AwaitExit(absl::Seconds(60)), 128 + SIGINT);
  step.join();
  EXPECT_THAT(ReadFile(output), HasSubstr("ps:0 ends though a kernel still computes"));
}

}  // namespace
}  // namespace weir
