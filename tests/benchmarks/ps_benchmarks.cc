// One ps and one worker in two processes over loopback; the worker is this process.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distributed/launch/free_ports.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/mlp.h"

namespace weir::bench {
namespace {

TaskConfig TaskOf(const std::string& cluster, const std::string& job, int task) {
  return Must(TaskConfig::FromTfConfig(
      absl::StrFormat("{\"cluster\": %s, \"task\": {\"type\": \"%s\", \"index\": %d}}", cluster, job, task)));
}

// A ps process and this worker's server; ends the ps when destroyed.
class Cluster {
 public:
  Cluster() {
    const std::vector<int> ports = Must(FindFreePorts(2));
    const std::string spec =
        absl::StrFormat("{\"ps\": [\"127.0.0.1:%d\"], \"worker\": [\"127.0.0.1:%d\"]}", ports[0], ports[1]);
    ps_ = ::fork();
    if (ps_ < 0) Fail("cannot start the ps");
    if (ps_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execl("/proc/self/exe", "weir_bench", "serve", spec.c_str(), "ps", "0", nullptr);
      ::_exit(127);
    }
    task = TaskOf(spec, "worker", 0);
    server = Must(Server::Start(task, {.uses_host_sockets = !IsOverTcp()}));
  }
  ~Cluster() {
    server->Shutdown();
    ::kill(ps_, SIGKILL);
    ::waitpid(ps_, nullptr, 0);
  }

  std::unique_ptr<Session> NewSession(const GraphBuilder& g) {
    MustOk(g.status());
    return Must(server->CreateSession(g.graph()));
  }

  TaskConfig task;
  std::unique_ptr<Server> server;

 private:
  pid_t ps_ = -1;
};

constexpr char kPs[] = "/job:ps/task:0";
constexpr char kWorker[] = "/job:worker/task:0";

}  // namespace

int Serve(const std::string& cluster, const std::string& job, int task) {
  return Must(Server::Start(TaskOf(cluster, job, task), {.uses_host_sockets = !IsOverTcp()}))->Join();
}

void PsRun() {
  Cluster cluster;
  GraphBuilder g(StandardOps());
  ModelVariable v;
  Node* nothing = nullptr;
  {
    auto ps = g.DeviceScope(kPs);
    v = MakeVariable(g, "v", Tensor::Scalar(1.0f));
    nothing = NoOp(g);
  }
  Output sum;
  {
    auto worker = g.DeviceScope(kWorker);
    sum = AddV2(g, v.value, Const(g, 1.0f));
  }
  Node* remote = nullptr;
  {
    // The program of a NoOp alone is empty. The ps gets a message for it all the same; this one has something
    // to compute.
    auto ps = g.DeviceScope(kPs);
    remote = VarIsInitializedOp(g, v.handle).node;
  }
  std::unique_ptr<Session> session = cluster.NewSession(g);
  Must(session->Run({}, {}, {v.initializer}));
  auto pull = Must(session->Prepare({}, {sum}));
  Tensor result;
  Emit("ps_pull_scalar_run", MedianSeconds([&] { MustOk(pull->Run({}, absl::MakeSpan(&result, 1))); }) * 1e6,
       "us");
  auto run = Must(session->Prepare({}, {}, {nothing}));
  auto asks = Must(session->Prepare({}, {}, {remote}));
  const double bare_noop = MedianSeconds([&] { MustOk(run->Run({}, {})); }) * 1e6;
  Emit("ps_null_run", MedianSeconds([&] { MustOk(asks->Run({}, {})); }) * 1e6, "us",
       {{"bare_noop_us", bare_noop}});
}

void PsDense() {
  constexpr int kMegabytes = 100, kVariables = 16;
  Cluster cluster;
  GraphBuilder g(StandardOps());
  const Shape shape({static_cast<int64_t>(kMegabytes * 1e6 / 4 / kVariables)});
  // With different values: equal ones would be computed once, and all variables share one buffer, which a
  // cache holds.
  const auto filled = [&](int value) {
    return Fill(g, ConstIntegers(g, {static_cast<int32_t>(shape.dim(0))}),
                Const(g, static_cast<float>(value)));
  };
  std::vector<Node*> init, pulls, pushes;
  for (int i = 0; i < kVariables; ++i) {
    ModelVariable variable, gradient;
    {
      auto ps = g.DeviceScope(kPs);
      variable = MakeVariable(g, absl::StrCat("v", i), filled(i));
    }
    {
      auto worker = g.DeviceScope(kWorker);
      gradient = MakeVariable(g, absl::StrCat("g", i), filled(-1 - i));
      pulls.push_back(Identity(g, variable.value).node);
    }
    {
      auto ps = g.DeviceScope(kPs);
      pushes.push_back(AssignAddVariableOp(g, variable.handle, gradient.value));
    }
    init.push_back(variable.initializer);
    init.push_back(gradient.initializer);
  }
  std::unique_ptr<Session> session = cluster.NewSession(g);
  Must(session->Run({}, {}, std::vector<TargetRef>(init.begin(), init.end())));
  auto pull = Must(session->Prepare({}, {}, std::vector<TargetRef>(pulls.begin(), pulls.end())));
  auto push = Must(session->Prepare({}, {}, std::vector<TargetRef>(pushes.begin(), pushes.end())));
  const double pull_seconds = MedianSeconds([&] { MustOk(pull->Run({}, {})); }, 4, 5);
  const double push_seconds = MedianSeconds([&] { MustOk(push->Run({}, {})); }, 4, 5);
  const std::string size = absl::StrCat("_", kMegabytes, "mb");
  Emit("ps_pull" + size, kMegabytes / 1e3 / pull_seconds, "GB/s");
  Emit("ps_push" + size, kMegabytes / 1e3 / push_seconds, "GB/s");
  Emit("ps_pull_push" + size, 2 * kMegabytes / 1e3 / (pull_seconds + push_seconds), "GB/s");
}

void PsMlp() {
  Cluster cluster;
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(cluster.task));
  const Mlp mlp = BuildMlp(g, 32, /*with_global_step=*/true);
  std::unique_ptr<Session> session = cluster.NewSession(g);
  Must(session->Run({}, {}, {mlp.init}));
  auto step = Must(session->Prepare({mlp.images, mlp.labels}, {mlp.loss}, {mlp.train}));
  const Tensor images = RandomImages(32), labels = RandomLabels(32);
  Tensor loss;
  RunOptions options;
  const auto run = [&] { MustOk(step->Run({images, labels}, absl::MakeSpan(&loss, 1), options)); };
  const double us = MedianSeconds(run, 2) * 1e6;
  // As a MonitoredSession does, whose steps may be tried again.
  options.logical_step.writer = 1;
  const auto run_numbered = [&] {
    options.logical_step.settled_below = ++options.logical_step.number;
    run();
  };
  Emit("ps_mlp_b32_step", us, "us", {{"numbered_us", MedianSeconds(run_numbered, 2) * 1e6}});
}

}  // namespace weir::bench
