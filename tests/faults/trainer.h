// What every trainer of the fault tests does around its training: it is a task of the cluster that the
// environment tells, and writes its process id to DIR/TASK.pid once it serves.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "session/monitored/exit_code.h"

namespace weir {

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

// The process's exit code. A ps serves; every other task trains.
inline int RunTrainer(absl::string_view name, const std::string& dir, const ServerOptions& options,
                      absl::FunctionRef<absl::Status(const TaskConfig& task, Server& server)> train) {
  absl::StatusOr<TaskConfig> task = TaskConfigFromEnvironment();
  if (!task.ok()) return FailTrainer(name, task.status());
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*task, options);
  if (!server.ok()) return FailTrainer(name, server.status());
  WriteFileAtOnce(absl::StrCat(dir, "/", task->task().ToString(), ".pid"), absl::StrCat(getpid()));
  if (task->job() == "ps") return (*server)->Join();
  const absl::Status trained = train(*task, **server);
  (*server)->Shutdown(trained);
  return trained.ok() ? 0 : FailTrainer(name, trained);
}

}  // namespace weir
