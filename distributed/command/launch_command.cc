#include "distributed/command/launch_command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distributed/command/flag_parser.h"
#include "distributed/environment/host_list.h"
#include "distributed/launch/launcher.h"
#include "graph/types/status_macros.h"

namespace weir {

namespace {

constexpr NumberRange kGraceSeconds = {.least = 0, .most = 24 * 60 * 60};

struct LaunchFlags {
  LaunchOptions launch;
  std::string hosts;
  std::string host_file;
  std::string environment;
  int num_replicas = 0;  // 0: --ps and --workers say
  double ps_grace = 0;
  double stop_grace = 0;
  double cooldown = 0;
  double patience = 0;
};

const char* const kElasticFlags[] = {"min_workers", "max_workers", "host_discovery_script",
                                     "reset_limit", "cooldown",    "elastic_timeout"};

void DeclareElastic(LaunchFlags* values, FlagParser* flags) {
  WorkerPoolOptions& pool = values->launch.pool;
  values->cooldown = absl::ToDoubleSeconds(pool.cooldown);
  values->patience = absl::ToDoubleSeconds(pool.patience);
  flags->Add("min_workers", &pool.min_workers,
             "workers may come and go while the job runs, which is stopped when there are fewer than these",
             {.least = 1, .most = 1000});
  flags->Add("max_workers", &pool.max_workers, "the same: at most so many (default: --workers)",
             {.least = 1, .most = 1000});
  flags->Add(
      "host_discovery_script", &values->launch.host_discovery_script,
      "asked every second where workers may run: it writes 'HOST:SLOTS' a line. Workers are started and "
      "told to leave to match");
  flags->Add("reset_limit", &pool.reset_limit,
             "workers that die soon after their start are followed by others so many times before the job is "
             "stopped",
             {.least = 0});
  flags->Add(
      "cooldown", &values->cooldown,
      "seconds before the next worker is started where one has died; they double each time, up to 64 times",
      {.least = 0, .most = 24 * 60 * 60});
  flags->Add("elastic_timeout", &values->patience,
             "seconds that there may be fewer workers than --min_workers",
             {.least = 0, .most = 7 * 24 * 60 * 60});
}

void Declare(LaunchFlags* values, FlagParser* flags) {
  LaunchOptions& launch = values->launch;
  values->ps_grace = absl::ToDoubleSeconds(launch.ps_grace);
  values->stop_grace = absl::ToDoubleSeconds(launch.stop_grace);
  flags->Add("ps", &launch.num_ps, "parameter servers", {.least = 0, .most = 1000});
  flags->Add("workers", &launch.num_workers,
             "workers; worker 0 is the chief. With -H: all slots that are left", {.least = 1, .most = 1000});
  flags->Add("np", &values->num_replicas,
             "as horovodrun has it (-np N; --np=N is the same): so many workers and no parameter servers",
             {.least = 0, .most = 1000});
  flags->Add("evaluator", &launch.evaluator,
             "also an evaluator, which trains nothing and evaluates the checkpoints that are written");
  flags->Add("H", &values->hosts,
             "hosts and how many tasks each runs, 'gpu[1-2]:4,login:1': start them by ssh");
  flags->Add("hostfile", &values->host_file, "a file of hosts instead, 'gpu1 slots=4' a line");
  flags->Add("port_base", &launch.port_base, "with -H: the first task of a host listens at this port",
             {.least = 1, .most = 65535});
  flags->Add("ssh", &launch.ssh, "with -H: what reaches a host; it is given the host and a shell command");
  flags->Add("wdir", &launch.directory, "with -H: the directory on the hosts (default: this one)");
  flags->Add(
      "env", &values->environment,
      "variables for the tasks, 'NAME=VALUE,NAME': the second with the value it has here. With -H only "
      "these and WEIR_* reach them");
  flags->Add("dry_run", &launch.dry_run, "print the commands that would run, and run nothing");
  flags->Add("log_dir", &launch.log_dir, "write each task's output to a file here, too");
  flags->Add("restarts", &launch.restarts,
             "start a task again when it was killed or exited with 128 or more, at most so often",
             {.least = 0});
  flags->Add("restart", &launch.restarts, "the same", {.least = 0});
  flags->Add("prefix_all", &launch.prefix_all, "put [worker:0] before the chief's lines on a terminal, too");
  flags->Add("ps_grace", &values->ps_grace, "seconds a ps may take to leave after the last worker",
             kGraceSeconds);
  flags->Add("stop_grace", &values->stop_grace, "seconds between asking a task to stop and killing it",
             kGraceSeconds);
  DeclareElastic(values, flags);
}

absl::Status ReadElastic(const LaunchFlags& values, const FlagParser& flags, LaunchOptions* launch) {
  for (const char* flag : kElasticFlags) launch->is_elastic = launch->is_elastic || flags.WasGiven(flag);
  launch->pool.cooldown = absl::Seconds(values.cooldown);
  launch->pool.patience = absl::Seconds(values.patience);
  if (flags.WasGiven("max_workers")) return absl::OkStatus();
  if (!launch->host_discovery_script.empty()) {
    return absl::InvalidArgumentError(
        "weir launch: --host_discovery_script says where workers may run; say with --max_workers how many");
  }
  launch->pool.max_workers = launch->num_workers;
  return absl::OkStatus();
}

absl::Status ReadHosts(const LaunchFlags& values, LaunchOptions* launch) {
  if (!values.hosts.empty() && !values.host_file.empty()) {
    return absl::InvalidArgumentError("weir launch: -H and --hostfile both name the hosts: one is enough");
  }
  if (!values.hosts.empty()) {
    WEIR_ASSIGN_OR_RETURN(launch->hosts, ParseHostSlots("weir launch: -H", values.hosts));
  } else if (!values.host_file.empty()) {
    WEIR_ASSIGN_OR_RETURN(launch->hosts, ReadHostFile(values.host_file));
  }
  return absl::OkStatus();
}

absl::Status ReadEnvironment(const std::string& text, LaunchOptions* launch) {
  for (absl::string_view entry : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> variable = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    if (absl::StrContains(entry, '=')) {
      launch->environment.push_back(variable);
    } else if (const char* value = std::getenv(variable.first.c_str()); value != nullptr) {
      launch->environment.push_back({variable.first, value});
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("weir launch: --env: the variable '", variable.first, "' is not set here"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunLaunch(const std::vector<std::string>& args) {
  LaunchFlags values;
  FlagParser flags(
      "weir launch", "[flags] -- PROGRAM ARGS",
      "Runs PROGRAM as every task of a cluster, on this machine or (-H) on others. Each process learns from\n"
      "TF_CONFIG which task it is. The exit code is 0, that of the first task that failed, or 128 + a "
      "signal's\n"
      "number.");
  Declare(&values, &flags);
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  if (!flags.positional().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("weir launch: '", flags.positional()[0], "' is no flag: the program comes after '--'"));
  }
  LaunchOptions& options = values.launch;
  options.command = flags.rest();
  options.ps_grace = absl::Seconds(values.ps_grace);
  options.stop_grace = absl::Seconds(values.stop_grace);
  WEIR_RETURN_IF_ERROR(ReadHosts(values, &options));
  WEIR_RETURN_IF_ERROR(ReadEnvironment(values.environment, &options));
  if (values.num_replicas > 0) {
    if (flags.WasGiven("ps") || flags.WasGiven("workers")) {
      return absl::InvalidArgumentError(
          "weir launch: -np says how many workers there are, and that there is no ps: leave --ps and "
          "--workers "
          "out");
    }
    options.num_ps = 0;
    options.num_workers = values.num_replicas;
  } else if (!options.host_discovery_script.empty()) {
    options.num_workers = std::max(1, options.pool.min_workers);  // places come and go with what it finds
  } else if (!options.hosts.empty() && !flags.WasGiven("workers")) {
    options.num_workers = -options.num_ps;
    for (const HostSlots& host : options.hosts) options.num_workers += host.num_slots;
  }
  WEIR_RETURN_IF_ERROR(ReadElastic(values, flags, &options));
  return Launcher(options).Run();
}

}  // namespace weir
