// What every trainer of the fault tests does around its training: it is a task of the cluster that the
// environment tells, and writes its process id to DIR/TASK.pid once it serves. An evaluator evaluates the
// checkpoints in DIR/model.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/command/flag_parser.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "graph/graph_builder.h"
#include "graph/types/status_macros.h"
#include "ops/variable.h"
#include "session/monitored/evaluation.h"
#include "session/monitored/exit_code.h"

namespace weir {

// The flags that they share.
struct TrainerFlags {
  std::string dir;
  int last_step = 100;
  int step_ms = 10;
  double lease_seconds = 3;
  double termination_grace_seconds = 25;
  double chief_grace_seconds = 600;
  double recovery_seconds = 60;
  bool host_sockets = true;
  std::string data_ports;
  int devices = 1;

  void AddTo(FlagParser& parser) {
    parser.Add("dir", &dir, "where everything is written");
    parser.Add("last_step", &last_step, "when to stop");
    parser.Add("step_ms", &step_ms, "pause of a step");
    parser.Add("lease_seconds", &lease_seconds, "when a silent peer is lost");
    parser.Add("termination_grace_seconds", &termination_grace_seconds, "how long a ps serves after SIGTERM");
    parser.Add("chief_grace_seconds", &chief_grace_seconds, "how long a ps waits for a lost chief");
    parser.Add("recovery_seconds", &recovery_seconds, "how long a session waits for a lost peer");
    parser.Add("host_sockets", &host_sockets, "whether tasks of one machine talk over Unix sockets");
    parser.Add("data_ports", &data_ports, "where tasks listen for tensors of other machines");
    parser.Add("devices", &devices, "CPU devices of each process");
  }
  ServerOptions server_options() const {
    return {.num_cpus = devices,
            .num_threads = 1,
            .lease = absl::Seconds(lease_seconds),
            .chief_grace = absl::Seconds(chief_grace_seconds),
            .termination_grace = absl::Seconds(termination_grace_seconds),
            .uses_host_sockets = host_sockets,
            .data_ports = data_ports};
  }
  std::string checkpoint_dir() const { return absl::StrCat(dir, "/model"); }
};

inline void WriteFileAtOnce(const std::string& path, const std::string& text) {
  const std::string temporary = absl::StrCat(path, ".tmp", getpid());
  std::ofstream(temporary) << text;
  std::rename(temporary.c_str(), path.c_str());
}

// The exit code for an error, which it prints.
inline int FailTrainer(absl::string_view name, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", std::string(name).c_str(), status.ToString().c_str());
  return ExitCodeFor(status);
}

// Reads the variables of every checkpoint until that of flags.last_step.
inline absl::Status EvaluateCheckpoints(GraphBuilder& g, Server& server, const TrainerFlags& flags) {
  std::vector<TensorRef> variables;
  for (const ModelVariable& variable : AllVariables(g)) variables.push_back(variable.value);
  Evaluator evaluator(
      g, {.target = server.target(), .steps = [&](MonitoredSession& session) -> absl::StatusOr<NamedValues> {
            WEIR_RETURN_IF_ERROR(session.Run({}, variables).status());
            return NamedValues();
          }});
  return EvaluateRepeatedly(flags.checkpoint_dir(),
                            [&](const std::string& checkpoint) { return evaluator.Evaluate(checkpoint); },
                            {.checkpoints = {.poll_interval = absl::Milliseconds(50)},
                             .last_step = flags.last_step,
                             .after_evaluation = [&](const Evaluation& evaluation) -> absl::StatusOr<bool> {
                               WriteFileAtOnce(absl::StrCat(flags.dir, "/evaluator:0.step"),
                                               absl::StrCat(evaluation.global_step));
                               return false;
                             }})
      .status();
}

// The process's exit code. A ps serves; every other task trains.
inline int RunTrainer(absl::string_view name, const TrainerFlags& flags,
                      absl::FunctionRef<absl::Status(const TaskConfig& task, Server& server)> train) {
  absl::StatusOr<TaskConfig> task = TaskConfigFromEnvironment();
  if (!task.ok()) return FailTrainer(name, task.status());
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*task, flags.server_options());
  if (!server.ok()) return FailTrainer(name, server.status());
  WriteFileAtOnce(absl::StrCat(flags.dir, "/", task->task().ToString(), ".pid"), absl::StrCat(getpid()));
  if (task->job() == "ps") return (*server)->Join();
  const absl::Status trained = train(*task, **server);
  (*server)->Shutdown(trained);
  return trained.ok() ? 0 : FailTrainer(name, trained);
}

}  // namespace weir
