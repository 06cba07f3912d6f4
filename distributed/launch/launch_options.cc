#include "distributed/launch/launch_options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status CheckElastic(const LaunchOptions& options) {
  const WorkerPoolOptions& pool = options.pool;
  if (pool.min_workers < 1 || pool.max_workers < pool.min_workers || pool.max_workers > 1000) {
    return absl::InvalidArgumentError(
        absl::StrCat("--min_workers=", pool.min_workers, " --max_workers=", pool.max_workers,
                     ": the first must be at least 1, and the second between it and 1000"));
  }
  if (options.num_ps < 1) {
    return absl::InvalidArgumentError(
        "workers can only come and go where parameter servers hold the variables: --ps must be at least 1");
  }
  if (!options.host_discovery_script.empty()) return absl::OkStatus();
  if (options.num_workers >= pool.min_workers && options.num_workers <= pool.max_workers)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--workers=", options.num_workers,
                                                 " is not between --min_workers=", pool.min_workers,
                                                 " and --max_workers=", pool.max_workers));
}

}  // namespace

bool IsVariableName(absl::string_view name) {
  return !name.empty() && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

absl::Status CheckLaunchOptions(const LaunchOptions& options) {
  if (options.command.empty())
    return absl::InvalidArgumentError("weir launch: no program to launch: put it after '--'");
  if (options.num_workers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers=", options.num_workers, ": a job needs at least one"));
  }
  if (options.num_ps < 0 || options.num_ps + options.num_workers > 1000) {
    return absl::InvalidArgumentError(absl::StrCat("--ps=", options.num_ps,
                                                   " --workers=", options.num_workers,
                                                   ": between 1 and 1000 processes on one machine"));
  }
  if (options.is_elastic) WEIR_RETURN_IF_ERROR(CheckElastic(options));
  if (options.restarts < 0) return absl::InvalidArgumentError("--restarts must not be negative");
  if (absl::StripAsciiWhitespace(options.ssh).empty())
    return absl::InvalidArgumentError("--ssh names no program");
  for (const auto& [name, value] : options.environment) {
    if (!IsVariableName(name)) {
      return absl::InvalidArgumentError(absl::StrCat("--env: '", name, "' is no name of a variable"));
    }
    if (name == "WEIR_JOB_TOKEN" || name == "TF_CONFIG") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--env: ", name, " is the launcher's to give; it is in the environment of every task"));
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
