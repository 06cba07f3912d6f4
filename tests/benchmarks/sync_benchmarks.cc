// Synchronous replicas that compute nothing: a ps, n workers, each a process of its own, over loopback. What
// is left of a step is leaving a gradient of one number, waiting for the others, and one update.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "distributed/launch/free_ports.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/sync_replicas.h"
#include "ops/variable.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/training_session.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/raw_tcp.h"

namespace weir::bench {
namespace {

constexpr int64_t kRequestBytes = 256;  // about what a step's one message has

pid_t StartTask(const std::vector<std::string>& args) {
  const pid_t child = ::fork();
  if (child < 0) Fail("cannot start a task");
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

// The chief's measure of its steps, each of which is a step of all.
void MeasureSteps(MonitoredSession& session, Node* train, int num_workers) {
  const int64_t first = Must(session.GlobalStep());
  const absl::Time begin = absl::Now(), end = begin + absl::Seconds(4) * TimeScale();
  std::vector<double> steps;
  for (absl::Time before = begin; steps.empty() || before < end;) {
    Must(session.Run({}, {}, {train}));
    const absl::Time now = absl::Now();
    steps.push_back(absl::ToDoubleMicroseconds(now - before));
    before = now;
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  const int64_t num_steps = Must(session.GlobalStep()) - first;
  std::nth_element(steps.begin(), steps.begin() + static_cast<int64_t>(steps.size() / 2), steps.end());
  const double step_us = seconds / static_cast<double>(std::max<int64_t>(1, num_steps)) * 1e6;
  std::map<std::string, double> detail = {{"p50_worker_us", steps[steps.size() / 2]}};
  if (IsOverTcp()) {
    const double raw_us = RawExchangeSeconds({.num_bytes = kRequestBytes, .is_in_turn = true}, 2000, 5) * 1e6;
    detail["raw_exchange_us"] = raw_us;
    detail["of_raw"] = step_us / raw_us;
  }
  Emit(absl::StrFormat("sync_null_step_%dw%s", num_workers, IsOverTcp() ? "_tcp" : ""), step_us,
       "us/global step", detail);
}

}  // namespace

int SyncWorker(const std::string& cluster, int index) {
  const TaskConfig task = Must(TaskConfig::FromTfConfig(
      absl::StrFormat(R"({"cluster": %s, "task": {"type": "worker", "index": %d}})", cluster, index)));
  const auto server = Must(Server::Start(task, {.uses_host_sockets = !IsOverTcp()}));
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const ModelVariable step = GlobalStep(g);
  const ModelVariable v = MakeVariable(g, "v", Tensor::Scalar(0.0f));
  auto optimizer =
      SyncReplicas(std::make_unique<GradientDescent>(0.0), {.replicas_to_aggregate = task.num_workers()});
  Node* const train = Must(optimizer->ApplyGradients(g, {{Const(g, 1.0f), v}}, step));
  TrainingSessionOptions options;
  options.target = server->target();
  options.is_chief = task.is_chief();
  options.hooks = {SyncReplicasHook(task.is_chief())};
  const auto session = Must(MonitoredTrainingSession(g, std::move(options)));
  for (int i = 0; i < 50; ++i) Must(session->Run({}, {}, {train}));
  if (task.is_chief()) {
    MeasureSteps(*session, train, task.num_workers());
  } else {
    while (!session->should_stop()) Must(session->Run({}, {}, {train}));  // until the chief ends
  }
  const absl::Status status = session->Close();
  server->Shutdown(status);
  MustOk(status);
  return 0;
}

namespace {

void SyncNullOf(const std::vector<int>& numbers_of_workers) {
  for (const int num_workers : numbers_of_workers) {
    std::vector<std::string> addresses;
    for (const int port : Must(FindFreePorts(num_workers + 1))) {
      addresses.push_back(absl::StrCat("\"127.0.0.1:", port, "\""));
    }
    const std::string ps = addresses.back();
    addresses.pop_back();
    const std::string cluster =
        absl::StrFormat(R"({"ps": [%s], "worker": [%s]})", ps, absl::StrJoin(addresses, ", "));
    std::vector<pid_t> tasks = {StartTask({"weir_bench", "serve", cluster, "ps", "0"})};
    for (int i = 0; i < num_workers; ++i) {
      tasks.push_back(StartTask({"weir_bench", "sync_worker", cluster, absl::StrCat(i)}));
    }
    for (size_t i = 1; i < tasks.size(); ++i) {
      int status = 0;
      if (::waitpid(tasks[i], &status, 0) < 0 || status != 0) Fail("a worker has failed");
    }
    ::kill(tasks[0], SIGKILL);
    ::waitpid(tasks[0], nullptr, 0);
  }
}

}  // namespace

void SyncNull() { SyncNullOf({1, 2, 4, 8}); }

void SyncNullTcp() {
  const OverTcp over_tcp;
  SyncNullOf({1, 2});
}

}  // namespace weir::bench
