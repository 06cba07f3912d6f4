#include "distributed/launch/task_starter.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "distributed/host_name.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/remote_command.h"
#include "distributed/task_config.h"
#include "graph/types/status_macros.h"

extern char** environ;

namespace weir {
namespace {

std::string RandomToken() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

// Where tasks on other hosts run.
std::string Directory(const LaunchOptions& options) {
  if (!options.directory.empty()) return options.directory;
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

// "9100", or "0.0.0.0:9100", with the port that many higher: the tasks of one machine cannot share it. What
// is no such text, and "0", any free port, stays: who listens says what is wrong.
std::string MetricsPortOf(absl::string_view text, int64_t place) {
  const size_t colon = text.rfind(':');
  const size_t begin = colon == absl::string_view::npos ? 0 : colon + 1;
  int64_t port = 0;
  if (!absl::SimpleAtoi(text.substr(begin), &port) || port <= 0) return std::string(text);
  return absl::StrCat(text.substr(0, begin), port + place);
}

// Where the task stands among all.
int64_t PlaceOf(const ClusterSpec& seeds, const TaskName& task) {
  const std::vector<TaskName> tasks = seeds.tasks();
  const auto found = std::find(tasks.begin(), tasks.end(), task);
  return found != tasks.end() ? found - tasks.begin() : static_cast<int64_t>(tasks.size()) + task.index;
}

}  // namespace

TaskStarter::TaskStarter(const LaunchOptions& options)
    : options_(options), token_(RandomToken()), directory_(Directory(options)) {}

absl::StatusOr<TaskStarter::Variables> TaskStarter::VariablesOf(const ClusterSpec& seeds,
                                                                const LaunchedTask& task) const {
  ClusterSpec cluster = seeds;
  if (!task.address.empty() && !cluster.address(task.name).ok()) {
    WEIR_RETURN_IF_ERROR(cluster.AddTask(task.name, task.address));
  }
  WEIR_ASSIGN_OR_RETURN(const TaskConfig config, TaskConfig::Create(std::move(cluster), task.name));
  Variables variables = {{"TF_CONFIG", config.ToTfConfig()}};
  if (task.is_remote()) {
    const bool is_loopback = IsLoopbackHost(task.host);
    if (!is_loopback && std::getenv("WEIR_LISTEN") == nullptr)
      variables.push_back({"WEIR_LISTEN", "0.0.0.0"});
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::pair<std::string, std::string> variable = absl::StrSplit(*entry, absl::MaxSplits('=', 1));
      if (absl::StartsWith(variable.first, "WEIR_") && variable.first != "WEIR_JOB_TOKEN" &&
          IsVariableName(variable.first)) {
        variables.push_back(variable);
      }
    }
  }
  if (const char* const port = std::getenv("WEIR_METRICS_PORT")) {
    variables.push_back({"WEIR_METRICS_PORT", MetricsPortOf(port, PlaceOf(seeds, task.name))});
  }
  if (options_.is_elastic) {
    variables.push_back({"WEIR_MAX_WORKERS", absl::StrCat(options_.pool.max_workers)});
  }
  variables.insert(variables.end(), options_.environment.begin(), options_.environment.end());
  return variables;
}

absl::StatusOr<std::vector<std::string>> TaskStarter::RemoteCommandOf(const ClusterSpec& cluster,
                                                                      const LaunchedTask& task) const {
  RemoteTask remote;
  remote.host = task.host;
  remote.directory = directory_;
  WEIR_ASSIGN_OR_RETURN(remote.environment, VariablesOf(cluster, task));
  remote.command = options_.command;
  remote.stop_grace = options_.stop_grace;
  return SshCommand(options_.ssh, remote);
}

absl::Status TaskStarter::Start(const ClusterSpec& cluster, LaunchedTask& task) const {
  ChildOptions child;
  if (task.is_remote()) {
    WEIR_ASSIGN_OR_RETURN(child.command, RemoteCommandOf(cluster, task));
    child.has_input = true;
  } else {
    WEIR_ASSIGN_OR_RETURN(child.environment, VariablesOf(cluster, task));
    child.environment.emplace_back("WEIR_JOB_TOKEN", token_);
    child.command = options_.command;
    child.on_terminal = task.is_raw;
  }
  WEIR_ASSIGN_OR_RETURN(task.process, ChildProcess::Start(child));
  task.is_running = true;
  task.process->Tell(token_ + "\n");
  return absl::OkStatus();
}

absl::StatusOr<std::string> TaskStarter::Commands(const ClusterSpec& cluster,
                                                  const std::list<LaunchedTask>& tasks) const {
  std::string text;
  for (const LaunchedTask& task : tasks) {
    absl::StrAppend(&text, "# ", task.name.ToString(), "\n");
    if (task.is_remote()) {
      WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> command, RemoteCommandOf(cluster, task));
      absl::StrAppend(&text, "{ echo \"$WEIR_JOB_TOKEN\"; cat; } | ", ShellCommand(command), "\n");
    } else {
      WEIR_ASSIGN_OR_RETURN(const Variables variables, VariablesOf(cluster, task));
      for (const auto& [name, value] : variables) absl::StrAppend(&text, name, "=", ShellQuote(value), " ");
      absl::StrAppend(&text, ShellCommand(options_.command), "\n");
    }
  }
  return text;
}

}  // namespace weir
