#include "distributed/command/launch_command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "distributed/command/flag_parser.h"
#include "distributed/launch/launcher.h"
#include "graph/types/status_macros.h"

namespace weir {

absl::StatusOr<int> RunLaunch(const std::vector<std::string>& args) {
  LaunchOptions options;
  double ps_grace = absl::ToDoubleSeconds(options.ps_grace);
  double stop_grace = absl::ToDoubleSeconds(options.stop_grace);
  FlagParser flags(
      "weir launch", "[flags] -- PROGRAM ARGS",
      "Runs PROGRAM as every task of a cluster on this machine. Each process learns from TF_CONFIG which\n"
      "task it is. The exit code is 0, that of the first task that failed, or 128 + a signal's number.");
  flags.Add("ps", &options.num_ps, "parameter servers");
  flags.Add("workers", &options.num_workers, "workers; worker 0 is the chief");
  flags.Add("log_dir", &options.log_dir, "write each task's output to a file here, too");
  flags.Add("restart", &options.restarts,
            "start a task again when it was killed or exited with 128 or more, this often");
  flags.Add("prefix_all", &options.prefix_all, "put [worker:0] before the chief's lines on a terminal, too");
  flags.Add("ps_grace", &ps_grace, "seconds a ps may take to leave after the last worker");
  flags.Add("stop_grace", &stop_grace, "seconds between asking a task to stop and killing it");
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  if (!flags.positional().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("weir launch: '", flags.positional()[0], "' is no flag: the program comes after '--'"));
  }
  options.command = flags.rest();
  options.ps_grace = absl::Seconds(ps_grace);
  options.stop_grace = absl::Seconds(stop_grace);
  return Launcher(options).Run();
}

}  // namespace weir
